"""An agent that is told to end beside a broker: what it does with the lease, and when."""

from __future__ import annotations

import pytest

from sharedroutes.broker_agent.planner.events import (
    BrokerUp,
    Done,
    Drain,
    Event,
    HandOver,
    Heartbeat,
    Pause,
    Stop,
    Unregister,
    WakeAt,
    Withdraw,
)
from sharedroutes.broker_agent.planner.intent import LEAST_WATCH_S
from sharedroutes.broker_agent.planner.status import Phase
from tests.broker_agent.desk import (
    BROKER,
    DOWN,
    FENCED,
    GONE,
    HEARTBEAT_S,
    HELD,
    OK,
    STOP_DEADLINE_S,
    UNCHANGED,
    Desk,
)


@pytest.fixture
def desk() -> Desk:
    """Return a planner whose broker has just been registered."""
    return Desk.registered()


def test_a_broker_that_is_up_is_served_while_it_is_watched(desk: Desk) -> None:
    desk.send(HandOver(20.0))
    assert desk.phase() is Phase.HANDING_OVER
    desk.now += HEARTBEAT_S
    assert desk.send(BrokerUp()) == Heartbeat(HELD)
    assert "watching it for 20 s" in desk.said[-2] + desk.said[-1]


@pytest.mark.parametrize("watch_s", [0.0, 20.0])
def test_after_that_the_lease_is_renewed_and_left_behind(desk: Desk, watch_s: float) -> None:
    desk.now += 1.0
    desk.send(HandOver(watch_s))
    for _ in range(5):
        action = desk.actions[0]
        assert isinstance(action, WakeAt)
        desk.now = action.at_s
        assert desk.send(BrokerUp()) == Heartbeat(HELD)
        began_s = desk.now
        if desk.send(OK) == Done():
            break
    assert desk.actions == [Done()]
    assert began_s >= 101.0 + max(watch_s, LEAST_WATCH_S)
    assert "handed over" in desk.said[-1]


def test_a_broker_that_ends_meanwhile_is_taken_out_at_once(desk: Desk) -> None:
    desk.send(HandOver(20.0))
    assert desk.send(GONE) == Unregister(HELD, "agent stopped")


def test_a_broker_whose_end_is_noticed_a_moment_after_the_signal_is_taken_out(desk: Desk) -> None:
    desk.send(HandOver(0.0))
    desk.now += LEAST_WATCH_S / 2
    assert desk.send(GONE) == Unregister(HELD, "agent stopped")


@pytest.mark.parametrize("events", [(Pause(),), (Drain(10.0), UNCHANGED)])
def test_a_broker_that_its_operator_takes_out_is_taken_out_at_once(desk: Desk, events: list[Event]) -> None:
    desk.send(*events, HandOver(20.0))
    assert desk.phase() is Phase.STOPPING
    withdraws = [action for action in desk.all_actions if isinstance(action, Withdraw)]
    assert [one.broker for one in withdraws] == [BROKER]


def test_a_store_that_is_away_does_not_keep_it_for_longer_than_it_has(desk: Desk) -> None:
    desk.send(HandOver(0.0))
    desk.now += LEAST_WATCH_S
    assert desk.send(BrokerUp()) == Heartbeat(HELD)
    assert isinstance(desk.send(DOWN), WakeAt)
    desk.now += STOP_DEADLINE_S
    assert desk.send(DOWN) == Done()
    assert "handed over without a last heartbeat, the store does not answer" in desk.said[-1]


def test_a_drain_during_the_watch_goes_its_way(desk: Desk) -> None:
    desk.send(HandOver(60.0), Drain(10.0))
    assert desk.phase() is Phase.DRAINING


def test_an_agent_that_was_replaced_ends_without_a_word_to_the_store(desk: Desk) -> None:
    desk.send(HandOver(20.0))
    desk.now += HEARTBEAT_S
    desk.send(BrokerUp())
    assert desk.send(FENCED) == Done()


def test_a_stop_during_the_watch_takes_the_broker_out(desk: Desk) -> None:
    desk.send(HandOver(20.0))
    assert desk.send(Stop()) == Unregister(HELD, "agent stopped")


def test_told_again_it_watches_no_longer(desk: Desk) -> None:
    desk.send(HandOver(600.0))
    assert desk.send(HandOver(0.0)) == WakeAt(desk.now + LEAST_WATCH_S)


def test_an_agent_that_has_registered_nothing_ends_at_once() -> None:
    desk = Desk()
    assert desk.send(HandOver(20.0)) == Done()
