"""Whether agents still work, as their counters tell it."""

from __future__ import annotations

from typing import Any

import pytest

from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.process.supervision import Progress


def status(phase: Phase = Phase.SERVING, **counts: Any) -> list[tuple[AgentStatus, float]]:
    return [(AgentStatus(name="broker-a:0", broker=None, phase=phase, phase_s=0.0, **counts), 1.0)]


def test_an_agent_that_stops_calling_the_store_is_stuck_until_it_calls_again() -> None:
    progress = Progress(patience_s=3.0)
    for now in range(8):
        progress.look(status(heartbeats=7), float(now))
        assert bool(progress.any_stuck) is (now > 6)  # six times the longest call, and longer than 3 s
    assert progress.stuck("broker-a:0") == "broker-a:0: serving, and has not called the store for 7 s"
    progress.look(status(heartbeats=8), 8.0)
    assert not progress.any_stuck
    assert progress.stuck("broker-a:0") == ""


@pytest.mark.parametrize("count", ["heartbeats", "registrations", "failures", "fenced"])
def test_any_call_is_progress_also_one_that_fails(count: str) -> None:
    progress = Progress()
    for now in range(100):
        progress.look(status(Phase.REGISTERING, **{count: now}), float(now))
        assert not progress.any_stuck


WORKING = {Phase.SERVING, Phase.HANDING_OVER, Phase.REGISTERING}


@pytest.mark.parametrize("phase", sorted(set(Phase) - WORKING))
def test_an_agent_that_has_nothing_to_call_is_not_stuck(phase: Phase) -> None:
    progress = Progress()
    for now in range(100):
        progress.look(status(phase), float(now))
    assert not progress.any_stuck


def test_a_registration_of_many_topics_is_given_a_minute() -> None:
    progress = Progress()
    for now in range(61):
        progress.look(status(Phase.REGISTERING), float(now))
        assert not progress.any_stuck
    progress.look(status(Phase.REGISTERING), 61.0)
    assert progress.any_stuck


def test_a_process_that_was_stopped_is_given_time_to_go_on() -> None:
    progress = Progress(longest_s=2.0, patience_s=1.0)
    progress.look(status(heartbeats=7), 0.0)
    progress.look(status(heartbeats=7), 1_000_000.0)
    assert not progress.any_stuck
