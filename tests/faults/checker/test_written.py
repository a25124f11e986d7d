"""A front that has answered a change says itself what was changed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.faults.checker.history import STORE, Fault, Late, Written
from tests.faults.checker.story import BOUNDS, BROKERS, TOPIC, Story, reasons

FRONT = "front-1"


def written(found: int | None, *more: Fault | Late, written_ms: int = 10) -> list[str]:
    """Return what is wrong when a route has so many queues after a change to eight."""
    story = Story()
    story.begin()
    story.calm(BOUNDS.back_ms)
    at_us = 1_000 * story.now_ms
    asked = Written(
        at_us=at_us,
        who=BROKERS[2],
        front=FRONT,
        topic=TOPIC,
        queues=8,
        found=found,
        began_us=at_us - 1_000 * written_ms,
    )
    around = [replace(event, at_us=at_us + event.at_us) for event in more]
    story.calm()
    return reasons([*story.events, asked, *around], "d", FRONT)


@pytest.mark.parametrize(("found", "wrong"), [(8, 0), (4, 1), (None, 1)])
def test_what_a_front_has_answered_it_says_itself(found: int | None, wrong: int) -> None:
    assert len(written(found)) == wrong


@pytest.mark.parametrize("who", [FRONT, BROKERS[2], STORE])
def test_a_fault_may_come_between_that_concerns_the_front_its_broker_or_the_store(who: str) -> None:
    begin = Fault(at_us=-1, who="scheduler", name="pause-x", target=who, phase="begin", disturbs=(who,))
    end = replace(begin, at_us=1, phase="end")
    assert written(4, begin, end) == []
    other = ("somebody else",)
    assert len(written(4, replace(begin, disturbs=other), replace(end, disturbs=other))) == 1


def test_nobody_waits_for_a_feed_that_the_machine_holds_up() -> None:
    late_ms = BOUNDS.arrival_ms
    assert len(written(4, Late(at_us=-1, who="driver", late_ms=late_ms, process="x"), written_ms=3_000)) == 1
    assert written(4, Late(at_us=-1, who="driver", late_ms=late_ms, process=FRONT), written_ms=3_000) == []


@pytest.mark.parametrize(("who", "wrong"), [(FRONT, 0), (BROKERS[2], 1)])
def test_a_front_may_take_longer_than_its_broker_to_find_the_store_again(who: str, wrong: int) -> None:
    ended_us = -1_000 * (BOUNDS.arrival_ms + BOUNDS.back_ms) // 2
    begin = Fault(
        at_us=ended_us - 1, who="scheduler", name="half-open", target=who, phase="begin", disturbs=(who,)
    )
    assert len(written(4, begin, replace(begin, at_us=ended_us, phase="end"))) == wrong
