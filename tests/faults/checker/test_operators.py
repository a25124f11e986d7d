"""What operators do, and what goes on meanwhile: an upgrade, another primary, a wipe, an order."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from sharedroutes.registry import EXPIRED, ChangeKind
from tests.faults.checker.endings import HELD_MS, WATCH_MS
from tests.faults.checker.history import LISTED, OPERATOR, STORE, Event, Expected, Fault, Lease, Record, Route
from tests.faults.checker.story import BOUNDS, BROKERS, TOPIC, Story, address_of, calm, reasons

BROKER: Final = BROKERS[0]
AGENT: Final = f"agent-{BROKER}-first"
FRONT: Final = "front-1"


def fault(story: Story, name: str, target: str, for_ms: int, **more: Any) -> list[Event]:
    """Return a fault that begins now."""
    begin = Fault(
        at_us=1_000 * story.now_ms, who="scheduler", name=name, target=target, phase="begin", **more
    )
    return [begin, replace(begin, at_us=begin.at_us + 1_000 * for_ms, phase="end")]


@pytest.mark.parametrize(
    ("left_ms", "wrong"), [(BOUNDS.lease_ms - 500, 0), (BOUNDS.lease_ms - 800, 1), (0, 0)]
)
def test_an_agent_that_is_told_to_end_leaves_the_whole_of_its_lease(left_ms: int, wrong: int) -> None:
    story = calm()
    restart = fault(story, "restart-agent", AGENT, 2_000, disturbs=(AGENT,))
    at_us = restart[0].at_us + 1_000 * (WATCH_MS + 500)
    look = Lease(at_us=at_us, who="auditor", broker=BROKER, id=0, epoch=story.epoch(BROKER))
    look = replace(look, address=address_of(BROKER), left_ms=left_ms)
    assert len(reasons([*story.events, *restart, look], "d", "was not renewed")) == wrong


@pytest.mark.parametrize(("reason", "wrong"), [("agent stopped", 1), (EXPIRED, 0)])
def test_an_agent_that_is_told_to_end_leaves_its_broker_there(reason: str, wrong: int) -> None:
    story = calm()
    restart = fault(story, "restart-agent", AGENT, 2_000, disturbs=(AGENT,))
    epoch = story.epoch(BROKER)
    story.now_ms += 500
    story.change(Record(kind=ChangeKind.DOWN, broker=BROKER, epoch=epoch, reason=reason))
    assert len(reasons([*story.events, *restart], "d", "which stays")) == wrong


@pytest.mark.parametrize(("name", "wrong"), [("switch-primary", 1), ("kill-store", 0)])
def test_no_lease_ends_as_another_primary_is_named(name: str, wrong: int) -> None:
    story = calm()
    switch = fault(story, name, "the primary", 5_000, disturbs=(STORE,), loses=True)
    story.now_ms += 2_000
    gone = Lease(at_us=1_000 * story.now_ms, who="auditor", broker=BROKER, id=0)
    assert len(reasons([*story.events, *switch, gone], "d", "has ended as another primary")) == wrong


@pytest.mark.parametrize(("after_ms", "wrong"), [(HELD_MS - 500, 0), (HELD_MS + 500, 1)])
def test_whom_a_dead_front_had_is_out_when_the_other_has_looked_again(after_ms: int, wrong: int) -> None:
    story = calm()
    names = (BROKER, FRONT)
    left = fault(story, "leave-with-a-front", BROKER, after_ms + 3_000, disturbs=names)
    truth = next(event for event in story.events if isinstance(event, Expected))
    others = tuple(of for of in truth.table.leases if of.broker != BROKER)
    out = replace(truth, at_us=left[0].at_us, table=replace(truth.table, leases=others))
    looks = [event for event in story.events if isinstance(event, Lease) and event.broker == BROKER]
    seen = replace(looks[-1], at_us=left[0].at_us + 1_000 * after_ms)
    assert len(reasons([*story.events, *left, out, seen], "d", "keeps its lease")) == wrong


@pytest.mark.parametrize("again", [True, False])
def test_nobody_sends_to_a_broker_that_lost_its_wipe_without_a_word(*, again: bool) -> None:
    story = calm()
    wiped = Record(kind=ChangeKind.WIPED, broker=BROKER, by=OPERATOR)
    story.change(wiped)
    story.calm()
    assert reasons(story.events, "g", "has taken")
    if again:  # it could not be taken twice
        story.change(wiped)
    assert reasons(story.events, "g", "has taken")


@pytest.mark.parametrize(("address", "wrong"), [("127.0.0.1:1", 0), (address_of(BROKER), 1)])
def test_a_slave_that_became_the_master_has_its_lease(address: str, wrong: int) -> None:
    story = calm()
    details = {"promoted": "127.0.0.1:1"}
    promoted = fault(story, "slave-promoted", BROKER, 5_000, details=details, disturbs=(BROKER,))
    look = Lease(who="auditor", broker=BROKER, id=0, epoch=story.now_ms, address=address, left_ms=900)
    looks: list[Event] = [replace(look, at_us=promoted[0].at_us + 1_000 * of) for of in (1_000, 2_000)]
    assert len(reasons([*story.events, *promoted, *looks], "a", "has no lease of it")) == wrong


@pytest.mark.parametrize(("order", "wrong"), [("broker-a:4", 0), ("", 1)])
def test_what_an_operator_says_of_an_order_each_front_says(order: str, wrong: int) -> None:
    story = calm()
    said = fault(story, "order-topic", TOPIC, BOUNDS.arrival_ms + 1_000, details={"order": "broker-a:4"})
    at_us = said[0].at_us + 1_000 * (BOUNDS.arrival_ms - 1_000)
    route = Route(at_us=at_us, who=FRONT, topic=TOPIC, order=order)
    assert len(reasons([*story.events, *said, route], "d", "says of the order")) == wrong


@pytest.mark.parametrize(("named", "wrong"), [(3, 0), (2, 1)])
def test_what_a_front_lists_is_who_lives(named: int, wrong: int) -> None:
    story = calm()
    truth = next(event for event in story.events if isinstance(event, Expected))
    listed = Route(who=FRONT, topic=LISTED, brokers=truth.table.leases[:named])
    story.tell(listed)
    story.calm(BOUNDS.converge_ms + 1_000)
    assert len(reasons(story.events, "d", f"what {FRONT} knows of {LISTED} is not true")) == wrong
    story.tell(replace(listed, brokers=()))
    assert reasons(story.events, "f", "has none") == []
