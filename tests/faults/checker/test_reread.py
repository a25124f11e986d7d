"""Who meets an entry of the stream that cannot be read looks again at all that it uses."""

from __future__ import annotations

from operator import attrgetter

import pytest
from msgspec.structs import replace

from tests.faults.checker.history import Change, Event, Route
from tests.faults.checker.report import check
from tests.faults.checker.story import BOUNDS, CLIENTS, Story

TOPIC = "of nobody"


def late(ms: int) -> list[str]:
    """Return what is wrong when clients have a topic for so long after an unreadable word of its end."""
    story = Story()
    story.begin()
    story.calm(BOUNDS.back_ms)
    ended_us = 1_000 * story.now_ms
    brokers = next(event for event in story.events if isinstance(event, Route)).brokers
    events: list[Event] = [Change(at_us=ended_us, who="auditor", id="9-9")]
    for who in CLIENTS:
        had = Route(at_us=ended_us - 1, who=who, topic=TOPIC, brokers=brokers)
        events += [had, replace(had, at_us=ended_us + 1_000 * ms, brokers=None)]
    story.calm(BOUNDS.reread_ms + 5_000)
    found = check(sorted([*story.events, *events], key=attrgetter("at_us"))).verdicts["d"].violations
    return [violation.reason for violation in found if "cannot be read" in violation.reason]


@pytest.mark.parametrize(("more_ms", "count"), [(-500, 0), (-50, 0), (50, 2)])
def test_a_topic_that_left_the_table_is_gone_within_the_bound(more_ms: int, count: int) -> None:
    assert len(late(BOUNDS.reread_ms + more_ms)) == count
