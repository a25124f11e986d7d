"""A lookup finds who speaks for each group, and nobody sends to a slave."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.faults.checker.history import Lease, Replica, Route, Sent
from tests.faults.checker.story import BROKERS, CLIENTS, TOPIC, Story, address_of, reasons

BROKER: str = BROKERS[0]
MASTER = Replica(BROKER, 0, address_of(BROKER))
SLAVE = Replica(BROKER, 1, "127.0.0.1:1")


def begun() -> Story:
    """Return a story in which a slave has just come."""
    story = Story()
    story.begin()
    lease = Lease(who="auditor", broker=BROKER, id=1, epoch=1, address=SLAVE.address, left_ms=900)
    story.tell(lease)
    return story


@pytest.mark.parametrize(
    ("brokers", "wrong"),
    [
        ((MASTER, SLAVE), []),
        ((MASTER, MASTER._replace(id=1)), [f"{MASTER.address} is two replicas of a group in a lookup"]),
        ((SLAVE,), [f"nobody speaks for {BROKER} in a lookup, whose slave may"]),
        ((SLAVE._replace(id=0),), []),
    ],
)
def test_a_lookup_finds_a_master_or_who_stands_in_and_each_address_once(
    brokers: tuple[Replica, ...], wrong: list[str]
) -> None:
    story = begun()
    story.tell(Route(who="auditor", topic=TOPIC, brokers=brokers, fresh=True))
    assert reasons(story.events, "a") == wrong


def test_nobody_sends_to_a_slave_before_it_is_the_master() -> None:
    story = begun()
    sent = Sent(
        who=CLIENTS[0], message="m", topic=TOPIC, broker=BROKER, address=SLAVE.address, attempt=1, ok=False
    )
    story.tell(sent)
    assert reasons(story.events, "a") == [f"{CLIENTS[0]} sends to {SLAVE.address}, which is a slave"]
    story = begun()
    gone = Lease(who="auditor", broker=BROKER, id=1)
    story.tell(gone)
    story.tell(replace(gone, id=0, epoch=2, address=SLAVE.address, left_ms=900))
    story.tell(sent)
    assert reasons(story.events, "a") == []
