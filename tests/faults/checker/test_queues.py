"""A change of what a topic has arrives at clients, and who comes is told once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import Change, Event, Fault, Lease, Record, Replica, Route
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, TOPIC, Story, address_of, calm, reasons

BROKER: str = BROKERS[0]


def late(after_ms: int, fault: str) -> list[str]:
    """Return what is wrong when a client learns so long after a lookup how many queues a broker has."""
    story = Story()
    story.begin()
    story.calm(BOUNDS.back_ms + 1_000)
    begin_ms = story.now_ms
    story.tell(Fault(who="scheduler", name=fault, target="somebody", phase="begin"))
    fresh = Route(who="auditor", topic=TOPIC, fresh=True)
    for _ in range(2 * BOUNDS.arrival_ms // 100):
        story.now_ms += 100
        queues = 8 if story.now_ms - begin_ms > BOUNDS.arrival_ms // 3 else 4
        known = 8 if story.now_ms - begin_ms > BOUNDS.arrival_ms // 3 + after_ms else 4
        story.tell(replace(fresh, queues=((BROKER, queues),)))
        story.tell(Route(who=CLIENTS[0], topic=TOPIC, queues=((BROKER, known),)))
    return reasons(story.events, "d", "as it was")


@pytest.mark.parametrize(
    ("after_ms", "fault", "wrong"),
    [
        (BOUNDS.heard_ms - 100, "topics-change", False),
        (BOUNDS.heard_ms + 500, "topics-change", True),
        (BOUNDS.heard_ms + 500, "deaf", False),
        (BOUNDS.arrival_ms + 500, "deaf", True),
    ],
)
def test_a_client_knows_soon_how_many_queues_a_broker_has(after_ms: int, fault: str, *, wrong: bool) -> None:
    assert bool(late(after_ms, fault)) == wrong


@pytest.mark.parametrize(
    ("age_ms", "server", "is_changed", "wrong"),
    [
        (1_000, "", False, 1),
        (2_000 - BOUNDS.heard_ms - 10, "", False, 1),
        (2_000 - BOUNDS.heard_ms + 10, "", False, 0),
        (3_000, "", False, 0),
        (None, "", False, 0),
        (1_000, "a replica", False, 0),
        (1_000, "", True, 0),
    ],
)
def test_what_a_client_says_was_so_when_the_store_confirmed_it(
    age_ms: int | None, server: str, *, is_changed: bool, wrong: int
) -> None:
    story = calm()
    fresh = Route(who="auditor", topic=TOPIC, fresh=True)
    story.tell(replace(fresh, queues=((BROKER, 4),)))
    story.now_ms += 1_000
    story.tell(replace(fresh, queues=((BROKER, 8),)))
    story.now_ms += 2_000 - 1
    story.tell(Route(who=CLIENTS[0], topic=TOPIC, queues=((BROKER, 4),), age_ms=age_ms, server=server))
    if is_changed:
        story.change(Record(kind=ChangeKind.TOPICS, broker=BROKER, changed=(TOPIC,)))
    assert len(reasons(story.events, "d", "as it was not")) == wrong


@pytest.mark.parametrize(("epoch", "wrong"), [(0, 1), (1, 0)])
def test_an_owner_whose_lease_goes_on_comes_once(epoch: int, wrong: int) -> None:
    story = Story()
    story.begin()
    epoch += story.epoch(BROKER)
    story.change(Record(kind=ChangeKind.UP, broker=BROKER, epoch=epoch, address=address_of(BROKER)))
    story.calm()
    assert len(reasons(story.events, "g", "has come twice")) == wrong


@pytest.mark.parametrize(("is_gone_between", "wrong"), [(False, len(CLIENTS)), (True, 0)])
def test_a_view_shows_who_has_come_unless_it_left_again_meanwhile(
    *, is_gone_between: bool, wrong: int
) -> None:
    story = calm()
    story.crash(BROKER)
    came_us = max(change.at_us for change in story.events if isinstance(change, Change))
    others = tuple(Replica(broker, 0, address_of(broker)) for broker in BROKERS[1:])

    def unseen(event: Event) -> Event:
        is_said = isinstance(event, Route) and not event.fresh
        return replace(event, brokers=others) if is_said and event.at_us > came_us else event

    def gone(event: Event) -> Event:
        is_between = 0 < event.at_us - came_us < 500 * BOUNDS.arrival_ms
        is_its = isinstance(event, Lease) and event.broker == BROKER
        return (
            Lease(at_us=event.at_us, who="auditor", broker=BROKER, id=0) if is_its and is_between else event
        )

    events = [gone(unseen(event)) if is_gone_between else unseen(event) for event in story.events]
    assert len(reasons(events, "d", "does not know of")) == wrong
