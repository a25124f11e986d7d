"""Profiles: what a file may say, which of flag, variable and profile wins, and where passwords come from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import redis
from click.testing import CliRunner, Result

from sharedroutes.cli.profiles import BadProfile, Profile, load, parse
from sharedroutes.cli.root import sharedroutes
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig

SECRET: Final = "p/a:s@s %"  # noqa: S105


@pytest.fixture
def url(redis_url: str) -> str:
    """Return a store with three registries, of which each has a topic with its name."""
    for name in ("one", "two", "three"):
        with RouteStore.from_url(redis_url, RegistryConfig(namespace=name)) as store:
            store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig(name)])
    return redis_url


def asked(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(sharedroutes, ["topics", "-o", "ndjson", *words], env=variables)


def test_a_flag_goes_before_a_variable_before_a_profile_before_the_default_profile(
    profiles: Path, url: str
) -> None:
    profiles.write_text(
        f"default = 'a'\n[profiles.a]\nredis = '{url}'\nnamespace = 'one'\n"
        f"[profiles.b]\nredis = '{url}'\nnamespace = 'two'\n",
        encoding="utf-8",
    )
    assert asked().stdout == '{"topic":"one"}\n'
    assert asked("--profile", "b").stdout == '{"topic":"two"}\n'
    assert asked(SHAREDROUTES_PROFILE="b").stdout == '{"topic":"two"}\n'
    assert asked("--profile", "a", SHAREDROUTES_PROFILE="b").stdout == '{"topic":"one"}\n'
    assert asked("--profile", "b", SHAREDROUTES_NAMESPACE="three").stdout == '{"topic":"three"}\n'
    assert asked("--namespace", "one", SHAREDROUTES_NAMESPACE="three").stdout == '{"topic":"one"}\n'


def test_what_a_profile_does_not_say_has_its_default(profiles: Path, url: str) -> None:
    profiles.write_text("[profiles.a]\nnamespace = 'one'\n", encoding="utf-8")
    assert asked("--profile", "a", "--redis", url).stdout == '{"topic":"one"}\n'


@pytest.fixture
def guarded(own_server: EmbeddedServer) -> EmbeddedServer:
    """Return a server that takes one user alone."""
    with redis.Redis.from_url(own_server.url) as admin:
        admin.acl_setuser("ops", enabled=True, passwords=[f"+{SECRET}"], categories=["+@all"], keys=["*"])
        admin.acl_setuser("default", enabled=False)
    return own_server


@pytest.mark.parametrize("where", ["file", "variable"])
def test_a_password_comes_from_a_file_or_a_variable(
    profiles: Path, guarded: EmbeddedServer, where: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n", encoding="utf-8")
    source = f"password_file = '{secret}'" if where == "file" else "password_variable = 'OPS_PASSWORD'"
    profiles.write_text(f"[profiles.a]\nredis = '{guarded.url}'\nuser = 'ops'\n{source}\n", encoding="utf-8")
    done = asked("--profile", "a", OPS_PASSWORD=SECRET)
    assert (done.exit_code, done.stderr) == (0, "")
    other = asked("--profile", "a", "--redis", guarded.url, OPS_PASSWORD=SECRET)
    assert (other.exit_code, "Give the user" in other.stderr) == (1, True)  # another URL does not get it


def test_a_password_that_is_not_there_is_wrong_usage(profiles: Path) -> None:
    profiles.write_text("[profiles.a]\nredis='redis://h'\npassword_variable='NOT_SET'\n", encoding="utf-8")
    done = asked("--profile", "a")
    assert (done.exit_code, "the variable NOT_SET is not set" in done.stderr) == (2, True)
    profiles.write_text("[profiles.a]\nredis='redis://h'\npassword_file='/not/there'\n", encoding="utf-8")
    done = asked("--profile", "a")
    assert (done.exit_code, "password_file: /not/there: No such file" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("redis_url", "expected"),
    [
        ("redis://h:1/0", "redis://ops:x%2Fy@h:1/0"),
        ("redis://h", "redis://ops:x%2Fy@h"),
        ("rediss+sentinel://old:gone@a:1,b:2/s?db=1", "rediss+sentinel://ops:x%2Fy@a:1,b:2/s?db=1"),
        ("unix:///run/s.sock?db=2", "unix://ops:x%2Fy@/run/s.sock?db=2"),
    ],
)
def test_user_and_password_go_into_every_form_of_url(redis_url: str, expected: str) -> None:
    profile = Profile(redis=redis_url, user="ops", password_variable="P")  # noqa: S106
    assert profile.url({"P": "x/y"}) == expected


def test_a_user_alone_keeps_the_password_of_the_url() -> None:
    assert Profile(redis="redis://a:b@h", user="c").url({}) == "redis://c:b@h"
    assert Profile(redis="redis://a:b@h").url({}) == "redis://a:b@h"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"defautl": "a"}, "defautl: there is no such key; did you mean default?"),
        (
            {"profiles": {"a": {"rediss": "x"}}},
            "profiles.a.rediss: there is no such key; did you mean red",
        ),
        ({"profiles": {"a": {"redis": 1}}}, "profiles.a.redis: is no text"),
        ({"profiles": {"a": {"agents": "h:1"}}}, "profiles.a.agents: is no list of host:port"),
        ({"profiles": {"a": 1}}, "profiles.a: is no table"),
        ({"default": "b", "profiles": {"bb": {}}}, "there is no profile 'b'; did you mean bb?"),
        ({"profiles": {"a": {"user": "x"}}}, "profiles.a: has a user or a password, and no redis"),
        (
            {"profiles": {"a": {"redis": "x", "password_file": "f", "password_variable": "V"}}},
            "profiles.a: password_file and password_variable: give one of them",
        ),
    ],
)
def test_what_is_wrong_in_the_file_is_named(document: dict[str, object], problem: str) -> None:
    with pytest.raises(BadProfile) as caught:
        parse(document)
    assert str(caught.value).startswith(problem)


def test_a_file_that_is_none_is_wrong_usage_and_named(profiles: Path) -> None:
    profiles.write_text("[profiles", encoding="utf-8")
    done = asked()
    assert (done.exit_code, f"{profiles}: " in done.stderr) == (2, True)
    assert CliRunner().invoke(sharedroutes, ["profiles"]).exit_code == 1


def test_an_unknown_profile_is_named(profiles: Path) -> None:
    done = asked("--profile", "prod")
    assert done.exit_code == 2
    assert "there is no profile 'prod'" in done.stderr
    assert not profiles.exists()


def test_a_url_with_a_password_must_be_nobody_elses_to_read(profiles: Path) -> None:
    profiles.write_text("[profiles.a]\nredis = 'redis://ops:secret@h'\n", encoding="utf-8")
    profiles.chmod(0o644)
    with pytest.raises(BadProfile) as caught:
        load(profiles)
    assert (
        str(caught.value)
        == f"{profiles}: a URL holds a password, and others may read it: chmod 600 {profiles}"
    )
    profiles.chmod(0o600)
    assert load(profiles).named["a"].redis == "redis://ops:secret@h"


def test_profiles_are_listed_without_their_passwords(profiles: Path) -> None:
    profiles.write_text(
        "default = 'b'\n[profiles.a]\n"
        "[profiles.b]\nredis = 'redis://ops:secret@h'\nagents = ['h:1', 'h:2']\n",
        encoding="utf-8",
    )
    profiles.chmod(0o600)
    done = CliRunner().invoke(sharedroutes, ["profiles"])
    assert done.exit_code == 0, done.output
    assert "secret" not in done.output
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["a", "-", "sharedroutes", "-", "-"],
        ["*", "b", "redis://ops:***@h", "sharedroutes", "h:1", "h:2", "-"],
    ]


@pytest.mark.parametrize("output", ["json", "ndjson"])
def test_what_is_listed_is_what_the_schema_says(profiles: Path, output: str) -> None:
    from tests.cli.test_json import check  # noqa: PLC0415

    profiles.write_text("[profiles.a]\nfronts = ['h:1']\n", encoding="utf-8")
    done = CliRunner().invoke(sharedroutes, ["profiles", "-o", output])
    assert check("profiles", output, done.stdout)
