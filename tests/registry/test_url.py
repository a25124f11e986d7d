"""Store URLs: what each form says, and what is told about a wrong one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.registry import AsyncRouteStore, InvalidInput, RouteStore
from sharedroutes.registry.connection.url import Address, Endpoint, Mode, parse_url

A = Address("a", 1)
B = Address("b", 2)
TLS = {"ssl_cert_reqs": "required", "ssl_check_hostname": True}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", {"nodes": (Address("localhost", 6379),)}),
        ("redis://a", {"nodes": (Address("a", 6379),)}),
        ("REDIS://a:1/", {"nodes": (A,)}),
        ("redis://a:1/2", {"nodes": (A,), "database": 2}),
        ("redis://a:1?db=2", {"nodes": (A,), "database": 2}),
        ("redis://[::1]:1", {"nodes": (Address("::1", 1),)}),
        ("redis://[::1]", {"nodes": (Address("::1", 6379),)}),
        ("redis://:pw@a:1", {"nodes": (A,), "password": "pw"}),
        ("redis://us%40er:p%2Fw%3A@a:1", {"nodes": (A,), "username": "us@er", "password": "p/w:"}),
        ("redis://a:1?client_name=x&protocol=2", {"nodes": (A,), "client_name": "x", "protocol": 2}),
        ("redis://a:1?replica=b:2", {"nodes": (A,), "replicas": (B,)}),
        ("redis://a:1?replica=b:2&replica=c", {"nodes": (A,), "replicas": (B, Address("c", 6379))}),
        ("rediss://a:1", {"nodes": (A,), "tls": TLS}),
        ("unix:///run/redis.sock", {"path": "/run/redis.sock"}),
        ("unix:///a%20b?db=3", {"path": "/a b", "database": 3}),
        ("unix://user:pw@/a", {"path": "/a", "username": "user", "password": "pw"}),
        ("unix:///a?username=user&password=p%26w", {"path": "/a", "username": "user", "password": "p&w"}),
    ],
)
def test_a_url_of_one_server(url: str, expected: dict[str, Any]) -> None:
    assert parse_url(url) == Endpoint(mode=Mode.STANDALONE, **expected)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+sentinel://a:1/routes", {"nodes": (A,)}),
        ("redis+sentinel://a/routes", {"nodes": (Address("a", 26379),)}),
        ("redis+sentinel://a:1,b:2/routes/3", {"nodes": (A, B), "database": 3}),
        (
            "redis+sentinel://u:p@a:1,[::1]:2/routes",
            {"nodes": (A, Address("::1", 2)), "username": "u", "password": "p"},
        ),
        (
            "redis+sentinel://a:1/routes?sentinel_username=u&sentinel_password=p",
            {"nodes": (A,), "sentinel_username": "u", "sentinel_password": "p"},
        ),
        ("rediss+sentinel://a:1/routes", {"nodes": (A,), "tls": TLS}),
    ],
)
def test_a_url_of_sentinels(url: str, expected: dict[str, Any]) -> None:
    assert parse_url(url) == Endpoint(mode=Mode.SENTINEL, service="routes", **expected)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis+cluster://a:1", {"nodes": (A,)}),
        ("redis+cluster://a:1,b:2/", {"nodes": (A, B)}),
        ("redis+cluster://a:1/0", {"nodes": (A,)}),
        ("redis+cluster://u:p@a,b:2", {"nodes": (Address("a", 6379), B), "username": "u", "password": "p"}),
        ("rediss+cluster://a:1", {"nodes": (A,), "tls": TLS}),
    ],
)
def test_a_url_of_a_cluster(url: str, expected: dict[str, Any]) -> None:
    assert parse_url(url) == Endpoint(mode=Mode.CLUSTER, **expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ssl_ca_certs=/ca", TLS | {"ssl_ca_certs": "/ca"}),
        ("ssl_certfile=/c&ssl_keyfile=/k", TLS | {"ssl_certfile": "/c", "ssl_keyfile": "/k"}),
        ("ssl_check_hostname=No", TLS | {"ssl_check_hostname": False}),
        ("ssl_cert_reqs=none", {"ssl_cert_reqs": "none", "ssl_check_hostname": False}),
        ("ssl_cert_reqs=optional&ssl_check_hostname=true", TLS | {"ssl_cert_reqs": "optional"}),
    ],
)
def test_the_options_of_tls(query: str, expected: dict[str, Any]) -> None:
    assert parse_url(f"rediss://a?{query}").tls == expected


WRONG = [
    ("", "expected redis"),
    ("nonsense", "expected redis"),
    ("http://a", "expected redis"),
    ("redis+gossip://a", "expected redis"),
    ("redis:/a", "expected redis"),
    ("redis://a:no", "port of 'a' is no number"),
    ("redis://a:0", "port within 1..65535"),
    ("redis://a:65536", "port within 1..65535"),
    ("redis://a b", "port within 1..65535"),
    ("redis://a,b", "several hosts"),
    ("redis://a/x", "database is no number"),
    ("redis://a/-1", "database is no number"),
    ("redis://a#b", "percent-encoded"),
    ("redis://a?timeout=3", "option timeout is not one of client_name, db, protocol, replica"),
    ("redis://a?ssl_ca_certs=/ca", "option ssl_ca_certs is not one of"),
    ("redis://a?db=1&db=2", "option db is given twice"),
    ("redis://a?protocol=4", "protocol must be one of 2, 3"),
    ("redis://a?replica=b:x", "port of 'b' is no number"),
    ("redis+sentinel://a?replica=b", "option replica is not one of"),
    ("redis+sentinel://a:1", "name of the Sentinels' service is missing"),
    ("redis+sentinel:///routes", "port within 1..65535"),
    ("redis+sentinel://a,/routes", "port within 1..65535"),
    ("redis+cluster://", "port within 1..65535"),
    ("redis+cluster://a/1", "a Cluster has only the database 0"),
    ("redis+cluster://a?db=1", "option db is not one of"),
    ("unix://", "path of a socket"),
    ("unix://run/redis.sock", "path of a socket"),
    ("unix:///a?replica=b", "option replica is not one of"),
    ("rediss://a?ssl_cert_reqs=maybe", "ssl_cert_reqs must be one of none, optional, required"),
    ("rediss://a?ssl_check_hostname=maybe", "ssl_check_hostname must be one of true, false, yes"),
    ("rediss://a?ssl_cert_reqs=none&ssl_check_hostname=true", "needs a certificate"),
    ("rediss://a?ssl_keyfile=/k", "ssl_keyfile needs ssl_certfile"),
]


@pytest.mark.parametrize(("url", "reason"), WRONG)
def test_a_wrong_url_is_refused_with_what_is_wrong(url: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=r"^Redis URL: ") as refused:
        parse_url(url)
    assert reason in str(refused.value)


SECRET = "s3cretw0rd"  # noqa: S105 - nobody's


@pytest.mark.parametrize(
    "url",
    [
        f"redis://user:{SECRET}@host:no",
        f"redis://user:{SECRET}@host/no",
        f"redis://user:{SECRET}@ho st",
        f"redis://user:{SECRET}",
        f"redis://user:x/{SECRET}@host",
        f"redis://user:{SECRET}/x@host",
        f"redis://user:{SECRET}#x@host",
        f"redis://user:{SECRET}?x@host",
        f"redis://user:x?{SECRET}@host",
        f"redis+sentinel://user:{SECRET}@host:1",
        f"redis+sentinel://host:1/x?sentinel_password={SECRET}&no=1",
        f"redis+cluster://user:{SECRET}@host:1/9",
        f"http://user:{SECRET}@host",
        f"unix://user:{SECRET}@host/socket",
    ],
)
def test_a_password_is_shown_nowhere(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_url(url)
    assert SECRET not in str(refused.value)


def test_an_endpoint_is_printed_without_its_passwords() -> None:
    url = f"redis+sentinel://user:{SECRET}@host:1/routes?sentinel_password={SECRET}"
    assert SECRET not in repr(parse_url(url))


@given(st.text())
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for prefix in ("", "redis://", "rediss+cluster://", "redis+sentinel://", "unix:///"):
        try:
            endpoint = parse_url(prefix + text)
        except InvalidInput:
            continue
        assert endpoint.nodes or endpoint.path.startswith("/")


@pytest.mark.parametrize("kind", [RouteStore, AsyncRouteStore])
@pytest.mark.parametrize("option", ["ssl_ca_certs", "ssl_certfile"])
def test_a_file_of_tls_that_is_not_there_is_named(
    kind: type[RouteStore | AsyncRouteStore], option: str
) -> None:
    for scheme, path in (("rediss", ""), ("rediss+sentinel", "/routes"), ("rediss+cluster", "")):
        with pytest.raises(InvalidInput, match=f"{option}: there is no file /not/there"):
            kind.from_url(f"{scheme}://a:1{path}?{option}=/not/there")
