"""Who meets an entry of the stream that cannot be read looks again at all that it uses."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.faults.checker.history import Change, Event, Route
from tests.faults.checker.story import BOUNDS, BROKERS, CLIENTS, Story, reasons

TOPIC = "of nobody"


def kept(*waits_ms: int) -> list[str]:
    """Return what is wrong when clients have topics for so long after unreadable words of their ends."""
    story = Story()
    story.begin()
    story.calm(BOUNDS.back_ms)
    brokers = next(event for event in story.events if isinstance(event, Route)).brokers
    events: list[Event] = []
    for number, ms in enumerate(waits_ms):
        ended_us = 1_000 * story.now_ms
        events.append(Change(at_us=ended_us, who="auditor", id=f"9-{number + 1}"))
        for who in CLIENTS:
            had = Route(at_us=ended_us - 1, who=who, topic=f"{TOPIC} {number}", brokers=brokers)
            events += [had, replace(had, at_us=ended_us + 1_000 * ms, brokers=None)]
        story.calm(BOUNDS.reread_ms + 5_000)
    return reasons([*story.events, *events], "d", "cannot be read")


@pytest.mark.parametrize(("more_ms", "count"), [(-500, 0), (-50, 0), (50, 2)])
def test_a_topic_that_left_the_table_is_gone_within_the_bound(more_ms: int, count: int) -> None:
    assert len(kept(BOUNDS.reread_ms + more_ms)) == count


@pytest.mark.parametrize(("waits_ms", "count"), [((20, 20, 20), 1), ((20, 20, 400), 0), ((20, 20), 0)])
def test_clients_do_not_all_read_again_at_once(waits_ms: tuple[int, ...], count: int) -> None:
    assert len([reason for reason in kept(*waits_ms) if "at once" in reason]) == count


@pytest.mark.parametrize(("position", "count"), [("0-0", 1), ("1-0", 0)])
def test_a_follower_does_not_go_on_from_a_stream_without_entries(position: str, count: int) -> None:
    story = Story()
    story.begin()
    story.calm()
    story._last_id = position
    story.reset("start")
    story.calm()
    story.own(BROKERS[0])
    assert len(reasons(story.events, "c", "may be old")) == count
