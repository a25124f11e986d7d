"""Who was fenced may own a broker again as soon as the other owner has given it up."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import Change, Event, Fault, Lease, Record, State
from tests.faults.checker.late_alterations import taken_back
from tests.faults.checker.story import BROKERS, Story, reasons

TOOK = "took the live lease"


def taken() -> tuple[list[Event], State]:
    """Return a history in which somebody takes a live lease back, and when it says so."""
    story = Story()
    story.begin()
    story.take_over(BROKERS[0])
    story.end()
    events = taken_back(story.events, Random(1))
    assert events is not None
    fenced = next(event for event in events if isinstance(event, State) and event.state == "fenced")
    owner = next(
        event
        for event in events
        if isinstance(event, State) and event.state == "owner" and event.at_us > fenced.at_us
    )
    return events, owner


@pytest.mark.parametrize("later_us", [-1, 1_000])
def test_a_lease_that_its_owner_gave_up_is_free_also_if_that_is_seen_after_it_was_taken(
    later_us: int,
) -> None:
    events, owner = taken()
    assert reasons(events, "g", TOOK)
    record = Record(kind=ChangeKind.DOWN, broker=owner.broker, epoch=(owner.epoch or 0) - 1, reason="closed")
    looks = [look for look in events if isinstance(look, Lease) and look.epoch == owner.epoch]
    down = Change(at_us=looks[0].at_us + later_us, who="auditor", id="9-9", record=record)
    assert reasons([*events, down], "g", TOOK) == []


def test_what_the_store_may_have_lost_since_the_last_look_says_nothing() -> None:
    events, owner = taken()
    seen = max(of.at_us for of in events if isinstance(of, Lease) and of.at_us < owner.at_us)
    fenced = next(of for of in events if isinstance(of, State) and of.state == "fenced")
    looked = next(of for of in events if isinstance(of, Lease) and of.epoch == owner.epoch)
    events = [of for of in events if of not in (fenced, owner, looked)]
    events += [
        replace(fenced, at_us=seen + 3),
        replace(owner, at_us=seen + 4),
        replace(looked, at_us=seen + 5),
    ]
    assert reasons(events, "g", TOOK)
    begin = Fault(at_us=seen + 1, who="scheduler", name="flushall", target="it", phase="begin", loses=True)
    assert reasons([*events, begin, replace(begin, at_us=seen + 2, phase="end")], "g", TOOK) == []
