"""Whom to believe when Sentinels name different primaries, and how often to ask them."""

from __future__ import annotations

import pytest

from sharedroutes.registry.connection.discovery import CONFIRM_S, Opinion, Switchover, believed, epoch_in
from sharedroutes.registry.connection.url import Address

A, B, C = (Address("sentinel", port) for port in (1, 2, 3))
OLD, NEW = Address("old", 6379), Address("new", 6379)


def test_a_sentinel_is_asked_again_when_its_word_is_a_second_old() -> None:
    switchover = Switchover([A, B, C])
    assert [switchover.due(now) for now in (10.0, 10.0, 10.0 + CONFIRM_S / 2, 10.0 + CONFIRM_S)] == [
        True,
        False,
        False,
        True,
    ]


def test_a_sentinel_that_does_not_answer_is_left_alone_for_a_while() -> None:
    switchover = Switchover([A, B])
    switchover.silent(A, 0.0)
    assert [switchover.to_ask(now) for now in (0.0, 9.9)] == [[B], [B]]
    assert {*switchover.to_ask(10.0)} == {A, B}


@pytest.mark.parametrize(
    ("opinions", "expected"),
    [
        ([], None),
        ([Opinion(A, OLD, 1)], None),
        ([Opinion(A, NEW, 2)], A),
        ([Opinion(A, NEW, 2), Opinion(B, OLD, 1), Opinion(C, OLD, 1)], A),
        ([Opinion(A, OLD, 1), Opinion(B, NEW, 2), Opinion(C, NEW, 2)], B),
        ([Opinion(A, NEW, 1), Opinion(B, OLD, 2)], None),
        ([Opinion(A, NEW), Opinion(B, OLD)], None),
        ([Opinion(A, NEW), Opinion(B, OLD), Opinion(C, NEW)], A),
        ([Opinion(A, NEW), Opinion(B, OLD), Opinion(C, OLD)], None),
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
