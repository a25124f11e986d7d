"""A lease that began and ended between two looks is known from the stream alone."""

from __future__ import annotations

from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import Change, Event, Fault, Lease, Record, Replica, Route
from tests.faults.checker.story import BROKERS, CLIENTS, TOPIC, Story, address_of, reasons

BROKER = BROKERS[0]


def crashed() -> tuple[list[Event], int]:
    """Return a history in which a broker is gone, and a time at which it is."""
    story = Story()
    story.begin()
    story.crash(BROKER)
    story.end()
    gone = [event for event in story.events if isinstance(event, Lease) and event.epoch is None]
    return story.events, gone[2].at_us


def test_a_lookup_may_name_what_began_since_the_last_look_and_nothing_else() -> None:
    events, gone_us = crashed()
    address = address_of(BROKER)
    named = (Replica(BROKER, 0, address),)
    lookup = Route(at_us=gone_us + 200, who="auditor", topic=TOPIC, brokers=named, fresh=True)
    assert any("as the store said before this lookup" in reason for reason in reasons([*events, lookup], "a"))
    for later_us, broker, is_right in (
        (100, BROKER, True),
        (300, BROKER, True),  # it is seen in the stream after it began
        (-100, BROKER, False),
        (100, BROKERS[1], False),
        (3_000_000, BROKER, False),
    ):
        record = Record(kind=ChangeKind.UP, broker=broker, epoch=gone_us, address=address)
        up = Change(at_us=gone_us + later_us, who="auditor", id="9-9", record=record)
        assert (reasons([*events, lookup, up], "a") == []) is is_right, later_us


AGAIN = "again, which had no lease since"


def is_named_again(*more: Event) -> bool:
    """Whether it is a violation that a client names somebody 200 us after a look that did not see it."""
    events, gone_us = crashed()
    named = (Replica(BROKER, 0, address_of(BROKER)),)
    back = Route(at_us=gone_us + 200, who=CLIENTS[0], topic=TOPIC, brokers=named)
    found = reasons([*events, back, *(replace(event, at_us=back.at_us + event.at_us) for event in more)], "a")
    return any(AGAIN in reason for reason in found)


def test_a_client_may_name_who_came_just_before_the_store_lost_that() -> None:
    assert is_named_again()
    loss = Fault(at_us=20_000, name="kill-store", target="it", phase="begin", loses=True)
    assert not is_named_again(loss)
    assert is_named_again(replace(loss, at_us=110_000))


def test_a_client_may_name_who_came_and_went_between_two_looks() -> None:
    record = Record(kind=ChangeKind.UP, broker=BROKER, epoch=1, address=address_of(BROKER))
    up = Change(at_us=20_000, who="auditor", id="9-9", record=record)
    assert not is_named_again(up)
    stands_in = replace(up, record=replace(record, id=1))  # as a slave in the place of its master
    assert not is_named_again(stands_in)
    assert is_named_again(replace(up, at_us=110_000))
