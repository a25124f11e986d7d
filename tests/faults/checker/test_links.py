"""One way is cut and all others are not: who still uses a broker, and for how long it keeps its lease."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.endings import HELD_MS
from tests.faults.checker.history import Change, Event, Expected, Fault, Lease, Lost, Record, Sent, Started
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, calm, reasons

BROKER = BROKERS[0]


def fault(name: str, begin_us: int, end_us: int, *disturbs: str) -> list[Event]:
    """Return begin and end of a fault."""
    begin = Fault(at_us=begin_us, who="scheduler", name=name, target=name, phase="begin", disturbs=disturbs)
    return [begin, replace(begin, at_us=end_us, phase="end")]


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
        ("leave-with-a-front", "", HELD_MS + 500, 1),
        ("leave-with-a-front", "fronts-half-open", BOUNDS.fronts_ms + BOUNDS.stale_ms - 500, 0),
        ("leave-with-a-front", "fronts-half-open", BOUNDS.fronts_ms + BOUNDS.stale_ms + 500, 1),
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


@pytest.mark.parametrize(("others", "wrong"), [((), 0), (("broker-b",), 1)])
def test_a_client_may_lose_what_it_sends_when_no_broker_is_left_that_it_reaches(
    others: tuple[str, ...], wrong: int
) -> None:
    story = calm()
    begin_us = 1_000 * story.now_ms
    truth = next(event for event in story.events if isinstance(event, Expected))
    leases = tuple(of for of in truth.table.leases if of.broker in (BROKER, *others))
    begin, end = fault("link-cut", begin_us, begin_us + 3_000_000)
    more: list[Event] = [
        replace(begin, details={"cuts": [CLIENTS[0], BROKER]}),
        replace(truth, at_us=begin_us + 1, table=replace(truth.table, leases=leases)),
        end,
    ]
    failed = Sent(who=CLIENTS[0], message="", topic=TOPIC, broker=BROKER, address="", attempt=1, ok=False)
    for number in range(BOUNDS.first_failures + 1):
        at_us = begin_us + 100_000 * (number + 1)
        more.append(replace(failed, at_us=at_us, began_us=at_us - 1, message=f"m-{number}"))
    lost = Lost(at_us=at_us + 1, who=CLIENTS[0], message=f"m-{number}", topic=TOPIC, error="refused")
    events = [*story.events, *more, lost]
    assert len(reasons(events, "e", "lost m-")) == wrong
    assert len(reasons(events, "e", "first attempts of")) == wrong


@pytest.mark.parametrize(("restarted", "wrong"), [("", 1), ("front-2", 0)])
def test_a_broker_stays_that_reaches_one_of_its_fronts_which_has_had_the_time_to_hear_of_it(
    restarted: str, wrong: int
) -> None:
    story = calm()
    begin_us = 1_000 * story.now_ms
    record = Record(kind=ChangeKind.DOWN, broker=BROKER, epoch=story.epoch(BROKER), reason="closed")
    end = Change(at_us=begin_us + 1_000_000, who="auditor", id="9-9", record=record)
    more = [
        end,
        Started(at_us=1_002_000, who="front-2", pid=9),
        *fault("front-cut", begin_us, begin_us + 9_000_000),
    ]
    if restarted:
        more += fault("kill-front", begin_us - 2_000_000, begin_us - 1_000_000, restarted)
    assert len(reasons([*story.events, *more], "d", "its lease was ended")) == wrong
