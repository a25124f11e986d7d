"""A change of what a topic has arrives at clients, and who comes is told once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import Fault, Record, Route
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
