"""A client begins with what it knew when it was killed, and has had time to write down."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import (
    OPERATOR,
    Event,
    Lease,
    Record,
    Replica,
    Route,
    Saved,
    Sent,
    Started,
)
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, Story, calm, reasons

WHO = CLIENTS[0]


def outdated(
    dropped_ms: int, *, stale: bool = True, held: tuple[str, ...] = (), answers: bool = False
) -> list[str]:
    """Return what is wrong with a start that knows a broker which was dropped so long before the kill."""
    story = Story()
    story.begin()
    said = next(event for event in reversed(story.events) if isinstance(event, Route) and event.who == WHO)
    fewer: tuple[Replica, ...] = (said.brokers or ())[1:]
    begin_us = 1_000 * story.now_ms
    events: list[Event] = [
        replace(said, at_us=begin_us + 1),
        replace(said, at_us=begin_us + 2, brokers=fewer, held=held),
        replace(said, at_us=begin_us + 2 + 1_000 * dropped_ms, brokers=fewer),
        Started(at_us=begin_us + 1_000 * dropped_ms + 3, who=WHO, pid=2, has_snapshot=True),
        replace(said, at_us=begin_us + 1_000 * dropped_ms + 4, stale=stale),
    ]
    if answers:
        events.insert(-1, Lease(at_us=events[-1].at_us, who="auditor", broker=BROKERS[0], id=0))
    return reasons([*story.events, *events], "f")


def test_what_was_dropped_long_before_is_not_in_the_snapshot() -> None:
    assert outdated(BOUNDS.saved_ms + 100) == [
        f"{WHO} begins with a snapshot that has not what it knew of {TOPIC}"
    ]
    assert outdated(BOUNDS.saved_ms - 100) == []


def test_who_has_heard_of_the_store_knows_more_than_the_snapshot() -> None:
    assert outdated(BOUNDS.saved_ms + 100, stale=False) == []
    assert outdated(BOUNDS.saved_ms + 100, answers=True) == []


@pytest.mark.parametrize("held", [("broker-a",)])
def test_nothing_is_written_while_something_is_held(held: tuple[str, ...]) -> None:
    assert outdated(BOUNDS.saved_ms + 100, held=held) == []


def test_a_snapshot_that_cannot_be_read_is_none() -> None:
    story = Story()
    story.begin()
    saved = Saved(at_us=1_000 * story.now_ms, who="driver", client=WHO)
    broken = replace(saved, at_us=saved.at_us + 1, problem="it is no snapshot")
    assert reasons([*story.events, saved, broken], "f") == [
        f"nobody can begin with the snapshot of {WHO}: it is no snapshot"
    ]


@pytest.mark.parametrize(("known_ms", "wrong"), [(BOUNDS.saved_ms + 2_000, 1), (BOUNDS.saved_ms - 1_000, 0)])
def test_who_begins_with_a_snapshot_knows_whose_write_permission_was_taken(known_ms: int, wrong: int) -> None:
    story = calm()
    story.change(Record(kind=ChangeKind.WIPED, broker=BROKERS[0], by=OPERATOR))
    said = next(event for event in reversed(story.events) if isinstance(event, Route) and event.who == WHO)
    sent = next(event for event in reversed(story.events) if isinstance(event, Sent) and event.who == WHO)
    at_us = 1_000 * (story.now_ms + known_ms)
    events: list[Event] = [
        replace(said, at_us=at_us),
        Started(at_us=at_us + 1, who=WHO, pid=2, has_snapshot=True),
        replace(sent, at_us=at_us + 2_000_000, broker=BROKERS[0], ok=False, attempt=2),
        replace(said, at_us=at_us + 3_000_000),
    ]
    assert len(reasons([*story.events, *events], "g", "has taken")) == wrong
