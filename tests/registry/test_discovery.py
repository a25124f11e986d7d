"""Where the servers are: whom to ask, and what Sentinels and nodes of a Cluster answer."""

from __future__ import annotations

from typing import Any

import pytest

from sharedroutes.registry.connection.discovery import (
    CONFIRM_S,
    Opinion,
    Switchover,
    Whereabouts,
    believed,
    epoch_in,
)
from sharedroutes.registry.connection.url import Address, parse_url

A = Address("a", 1)
ASKED = Address("asked", 9)
OF_SENTINELS = parse_url("redis+sentinel://a:1,b:2/routes")
OF_CLUSTER = parse_url("redis+cluster://a:1,b:2")
SLOT = 5_000


def whereabouts(*, replicas: bool = False, cluster: bool = True) -> Whereabouts:
    return Whereabouts(OF_CLUSTER if cluster else OF_SENTINELS, SLOT, replicas=replicas)


def server(host: bytes | None, port: int) -> list[Any]:
    return [host, port, b"id", []]


SLOTS = [
    [0, 4_999, server(b"x", 1), server(b"y", 1)],
    [5_000, 5_000, server(b"x", 2), server(b"y", 2), server(b"z", 2)],
    [5_001, 16_383, server(b"x", 3)],
]


def test_the_owner_of_the_slot_and_its_replicas_are_found() -> None:
    assert whereabouts().answer(SLOTS, ASKED) == [Address("x", 2)]
    found = whereabouts(replicas=True).answer(SLOTS, ASKED)
    assert sorted(found) == [Address("y", 2), Address("z", 2)]


def test_a_slot_of_nobody_is_not_found() -> None:
    assert whereabouts().answer([SLOTS[0], SLOTS[2]], ASKED) == []
    assert whereabouts(replicas=True).answer([SLOTS[0]], ASKED) == []
    assert whereabouts(replicas=True).answer([[0, 16_383, server(b"x", 1)]], ASKED) == []


@pytest.mark.parametrize("host", [b"", None])
def test_a_node_without_a_host_is_the_one_that_was_asked(host: bytes | None) -> None:
    assert whereabouts().answer([[0, 16_383, server(host, 7)]], ASKED) == [Address("asked", 7)]


def test_a_node_whose_host_is_unknown_is_left_out() -> None:
    slots = [[0, 16_383, server(b"?", 1), server(b"y", 1)]]
    assert whereabouts().answer(slots, ASKED) == []
    assert whereabouts(replicas=True).answer(slots, ASKED) == [Address("y", 1)]


def test_nodes_that_were_told_of_are_asked_too() -> None:
    where = whereabouts()
    assert sorted(where.to_ask()) == [A, Address("b", 2)]
    where.answer(SLOTS, ASKED)
    told = {Address(name[0], int(name[1])) for name in ("x1", "y1", "x2", "y2", "z2", "x3")}
    assert {*where.to_ask()} == {A, Address("b", 2), *told}


def test_the_owner_is_asked_first_until_it_is_in_doubt() -> None:
    where = whereabouts()
    (owner,) = where.answer(SLOTS, ASKED)
    where.found(owner)
    assert where.to_ask()[0] == owner
    assert len(where.to_ask()) == len({*where.to_ask()})
    where.doubt()
    assert {where.to_ask()[0] for _ in range(200)} == {*where.to_ask()}
    where.doubt(ASKED)
    assert where.to_ask()[0] == ASKED


def test_the_sentinel_that_told_the_truth_is_asked_first() -> None:
    where = whereabouts(cluster=False)
    where.answer([b"x", b"1"], Address("b", 2))
    where.found(Address("x", 1))
    assert where.to_ask() == [Address("b", 2), A]


def test_a_doubt_changes_the_token_of_connections() -> None:
    where = whereabouts()
    before = where.token
    where.doubt()
    assert where.token is not before


def test_sentinels_tell_the_primary() -> None:
    where = whereabouts(cluster=False)
    assert where.question == ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "routes")
    assert where.answer([b"::1", b"6379"], ASKED) == [Address("::1", 6379)]
    assert where.answer(None, ASKED) == []


def fields(port: int, flags: str = "slave", link: str = "ok") -> dict[bytes, bytes]:
    texts = {"ip": "x", "port": str(port), "flags": flags, "master-link-status": link}
    return {name.encode(): text.encode() for name, text in texts.items()}


def test_sentinels_tell_the_replicas_that_are_in_order() -> None:
    where = whereabouts(replicas=True, cluster=False)
    reply = [
        fields(1),
        fields(2, "s_down,slave,disconnected"),
        fields(3, "slave,o_down"),
        fields(4, link="err"),
        fields(5),
    ]
    flat = [[part for pair in item.items() for part in pair] for item in reply]
    for form in (reply, flat):  # of RESP3 and of RESP2
        assert sorted(where.answer(form, ASKED)) == [Address("x", 1), Address("x", 5)]


def test_replicas_that_the_url_names_are_tried_in_any_order() -> None:
    endpoint = parse_url("redis://a?replica=b:1&replica=c:2")
    where = Whereabouts(endpoint, SLOT, replicas=True)
    assert where.to_ask() == []
    assert {tuple(where.fixed()) for _ in range(200)} == {
        (Address("b", 1), Address("c", 2)),
        (Address("c", 2), Address("b", 1)),
    }


@pytest.mark.parametrize(
    ("role", "of_a_replica", "of_a_primary"),
    [
        ([b"slave", b"x", 1, b"connected", 10], "", "is no primary"),
        ([b"slave", b"x", 1, b"connect", -1], "does not hear", "is no primary"),
        ([b"slave", b"x", 1, b"sync", -1], "does not hear", "is no primary"),
        ([b"master", 10, []], "", ""),
        ([b"sentinel", [b"routes"]], "does not hear", "is no primary"),
    ],
)
def test_the_role_tells_a_replica_that_hears_its_primary_and_a_primary(
    role: list[Any], of_a_replica: str, of_a_primary: str
) -> None:
    for replicas, expected in ((True, of_a_replica), (False, of_a_primary)):
        found = whereabouts(replicas=replicas, cluster=False).odd_role(role, A, 0.0)
        assert found.startswith(expected)
        assert bool(found) == bool(expected)


# --- whom to believe when Sentinels name different primaries, and how often to ask them --------------------

S1, S2, S3 = (Address("sentinel", port) for port in (1, 2, 3))
OLD, NEW = Address("old", 6379), Address("new", 6379)


def test_a_sentinel_is_asked_again_when_its_word_is_a_second_old() -> None:
    switchover = Switchover([S1, S2, S3])
    assert [switchover.due(now) for now in (10.0, 10.0, 10.0 + CONFIRM_S / 2, 10.0 + CONFIRM_S)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_sentinel_that_does_not_answer_is_left_alone_for_a_while() -> None:
    switchover = Switchover([S1, S2])
    switchover.silent(S1, 0.0)
    assert [switchover.to_ask(now) for now in (0.0, 9.9)] == [[S2], [S2]]
    assert {*switchover.to_ask(10.0)} == {S1, S2}


@pytest.mark.parametrize(
    ("opinions", "expected"),
    [
        ([], None),
        ([Opinion(S1, OLD, 1)], None),
        ([Opinion(S1, NEW, 2)], S1),
        ([Opinion(S1, NEW, 2), Opinion(S2, OLD, 1), Opinion(S3, OLD, 1)], S1),
        ([Opinion(S1, OLD, 1), Opinion(S2, NEW, 2), Opinion(S3, NEW, 2)], S2),
        ([Opinion(S1, NEW, 1), Opinion(S2, OLD, 2)], None),
        ([Opinion(S1, NEW), Opinion(S2, OLD)], None),
        ([Opinion(S1, NEW), Opinion(S2, OLD), Opinion(S3, NEW)], S1),
        ([Opinion(S1, NEW), Opinion(S2, OLD), Opinion(S3, OLD)], None),
    ],
    ids=[
        "nobody answers",
        "it is still the one",
        "one answers",
        "the first that knows",
        "one that is cut off",
        "one that has missed the last switch",
        "two who differ, of unknown age",
        "the most, of unknown age",
        "few, of unknown age",
    ],
)
def test_the_latest_configuration_is_believed_and_else_the_most(
    opinions: list[Opinion], expected: Address | None
) -> None:
    followed = believed(opinions, OLD)
    assert (followed.sentinel if followed else None) == expected


@pytest.mark.parametrize("form", ["list", "map"])
def test_the_epoch_is_read_in_both_protocols(form: str) -> None:
    pairs = {b"name": b"routes", b"config-epoch": b"7"}
    assert epoch_in(pairs if form == "map" else [item for pair in pairs.items() for item in pair]) == 7
    assert epoch_in(RuntimeError("NOPERM")) is None
    assert epoch_in([b"name", b"routes"]) is None
