"""One way is cut and all others are not: who still uses a broker, and for how long it keeps its lease."""

from __future__ import annotations

from operator import attrgetter

import pytest
from msgspec.structs import replace

from tests.faults.checker.history import Event, Expected, Fault, Lease, Sent
from tests.faults.checker.report import check
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, Story

BROKER = BROKERS[0]


def calm() -> Story:
    """Return a registry that has worked for longer than processes take to be back."""
    story = Story()
    story.begin()
    story.calm(BOUNDS.back_ms + BOUNDS.lease_ms)
    return story


def fault(name: str, begin_us: int, end_us: int, *disturbs: str) -> list[Event]:
    """Return begin and end of a fault."""
    begin = Fault(at_us=begin_us, who="scheduler", name=name, target=name, phase="begin", disturbs=disturbs)
    return [begin, replace(begin, at_us=end_us, phase="end")]


def reasons(events: list[Event], rule: str, text: str) -> list[str]:
    """Return what is wrong by a rule."""
    found = check(sorted(events, key=attrgetter("at_us"))).verdicts[rule].violations
    return [violation.reason for violation in found if text in violation.reason]


@pytest.mark.parametrize(("name", "wrong"), [("link-cut", 1), ("pause-client", 0)])
def test_nobody_leaves_a_broker_that_only_another_client_does_not_reach(name: str, wrong: int) -> None:
    story = calm()
    begin_us = 1_000 * story.now_ms
    story.calm(BOUNDS.slow_start_ms + 4_000)
    end_us = 1_000 * story.now_ms
    story.calm()
    kept = [
        event
        for event in story.events
        if not (
            isinstance(event, Sent)
            and (event.who, event.broker) == (CLIENTS[1], BROKER)
            and begin_us < event.at_us < end_us
        )
    ]
    text = f"{CLIENTS[1]} has not sent to {BROKER}"
    assert len(reasons([*kept, *fault(name, begin_us, end_us)], "e", text)) == wrong
    assert reasons([*story.events, *fault(name, begin_us, end_us)], "e", "has not sent to") == []


@pytest.mark.parametrize(
    ("name", "before", "seen_ms", "wrong"),
    [
        ("fronts-cut", "", BOUNDS.gone_ms + 500, 1),
        ("fronts-cut", "front-half-open", BOUNDS.gone_ms + 500, 0),
        ("fronts-cut", "front-half-open", BOUNDS.fronts_ms + BOUNDS.stale_ms + 500, 1),
        ("fronts-half-open", "", BOUNDS.fronts_ms + BOUNDS.stale_ms - 500, 0),
        ("fronts-half-open", "", BOUNDS.fronts_ms + BOUNDS.stale_ms + 500, 1),
    ],
)
def test_a_broker_that_no_front_hears_keeps_its_lease_while_a_connection_seems_open(
    name: str, before: str, seen_ms: int, wrong: int
) -> None:
    story = calm()
    gone_us = 1_000 * story.now_ms
    looks = [event for event in story.events if isinstance(event, Lease) and event.broker == BROKER]
    truth = next(event for event in story.events if isinstance(event, Expected))
    without = tuple(of for of in truth.table.leases if of.broker != BROKER)
    out = replace(truth, at_us=gone_us, table=replace(truth.table, leases=without))
    seen = replace(looks[-1], at_us=gone_us + 1_000 * seen_ms)
    more = [out, seen, *fault(name, gone_us, seen.at_us + 9_000_000, BROKER)]
    if before:
        more += fault(before, gone_us - 9_000_000, gone_us - 8_000_000)
    assert len(reasons([*story.events, *more], "d", "keeps its lease")) == wrong
