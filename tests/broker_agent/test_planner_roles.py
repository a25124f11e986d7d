"""What the planner does when the broker's role changes, and when its operator takes it out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from sharedroutes.broker_agent.planner.events import (
    Answered,
    CallFailed,
    Drain,
    Event,
    HandOver,
    Heartbeat,
    OwnerLeft,
    Pause,
    Register,
    Resume,
    RoleFound,
    RoleUnknown,
    SetWritePerm,
    Stop,
    TopicsLoaded,
    Unregister,
    Withdraw,
    Woken,
)
from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.registry import (
    BrokerWithdrawn,
    StoreRefused,
)
from sharedroutes.remoting.broker.probing import BrokerGone, BrokerUp
from tests.broker_agent.desk import (
    BROKER,
    CHANGED,
    DONE,
    DOWN,
    FENCED,
    GONE,
    HEARTBEAT_S,
    HELD,
    LEASE_LOST,
    MOVED,
    OK,
    OTHER_TABLE,
    REGISTER,
    SLAVE,
    STALE,
    STAND_BY,
    START,
    TABLE,
    TTL_S,
    UNCHANGED,
    Action,
    Desk,
    Done,
    WakeAt,
    granted,
    held_of,
    refused,
)

STILL: Final = "this process stood still for at least {} s: stopped, or the machine slept"
TAKE: Final = SetWritePerm("broker-a", allowed=False)
GIVE_BACK: Final = SetWritePerm("broker-a", allowed=True)
TAKE_OUT: Final = Withdraw(BROKER, "drained")


@pytest.fixture
def desk() -> Desk:
    """Return a planner whose broker has just been registered."""
    return Desk.registered()


@pytest.fixture
def draining(desk: Desk) -> Desk:
    """Return a planner that has just taken the write permission away, for a drain of a minute."""
    desk.send(Drain(60.0), CHANGED)
    return desk


def test_a_demoted_master_is_registered_as_the_slave_it_is_now(desk: Desk) -> None:
    assert desk.send(RoleFound(SLAVE)) == replace(REGISTER, broker=SLAVE)
    desk.send(granted(epoch=2, broker=SLAVE))
    assert desk.wait() == Heartbeat(held_of(TABLE, 2, broker=SLAVE))
    assert desk.said == [
        "broker-a:1: the broker is 1 at 10.0.0.1:10911, it was 0 at 10.0.0.1:10911",
        "broker-a:1: registered: 10.0.0.1:10911, 1 topics, version 0",
    ]


def test_the_lease_of_a_former_role_is_not_renewed(desk: Desk) -> None:
    desk.send(RoleFound(SLAVE), DOWN)
    for _ in range(10):
        assert isinstance(desk.wait(), Register)
        desk.send(DOWN)


def test_a_role_that_is_found_again_changes_nothing(desk: Desk) -> None:
    (wake,) = desk.actions
    assert desk.send(RoleFound(BROKER)) == wake
    assert desk.said == []


def test_another_address_is_told_after_the_old_one_was_taken_back_and_the_broker_found_there(
    desk: Desk,
) -> None:
    assert desk.send(RoleFound(MOVED)) == Unregister(HELD, "moved to another address")
    assert desk.send(DONE) is None
    assert desk.status().broker_up is None
    assert desk.phase() is Phase.STARTING
    assert desk.send(BrokerUp()) == replace(REGISTER, broker=MOVED)


def test_a_role_that_changes_while_it_is_registered_is_registered_again(desk: Desk) -> None:
    desk.send(TopicsLoaded(OTHER_TABLE), RoleFound(SLAVE))
    assert desk.send(granted(OTHER_TABLE)) == replace(REGISTER, broker=SLAVE, table=OTHER_TABLE)


def test_a_broker_without_a_role_leaves_until_it_has_one(desk: Desk) -> None:
    assert desk.send(RoleUnknown("a master is being elected")) == Unregister(HELD, "no role")
    assert desk.phase() is Phase.BROKER_GONE
    assert desk.send(DONE) is None
    assert desk.send(RoleFound(BROKER)) == replace(REGISTER, held=HELD)


def test_a_new_role_ends_the_standby_of_the_former(desk: Desk) -> None:
    desk.wait()
    desk.send(FENCED)
    assert desk.phase() is Phase.STANDBY
    assert desk.send(RoleFound(SLAVE)) == replace(REGISTER, broker=SLAVE)


def test_a_standby_that_learns_more_of_its_broker_takes_nothing_back(desk: Desk) -> None:
    desk.wait()
    desk.send(FENCED)
    more = replace(BROKER, zone_name="z")
    assert desk.send(RoleFound(more)) == replace(STAND_BY, broker=more)


def test_a_slave_from_before_acting_masters_brings_no_topics(desk: Desk) -> None:
    action = desk.send(RoleFound(replace(SLAVE, enable_acting_master=None)))
    assert isinstance(action, Register)
    assert action.table.topics == {}


def test_a_paused_broker_leaves_at_once_and_comes_back_with_a_resume(desk: Desk) -> None:
    assert desk.send(Pause()) == Withdraw(BROKER, "paused")
    assert desk.send(DONE) is None
    assert desk.phase() is Phase.PAUSED
    assert desk.send(TopicsLoaded(OTHER_TABLE)) is None
    assert desk.send(Resume()) == replace(REGISTER, table=OTHER_TABLE, admit=True)


def test_a_drained_broker_loses_the_write_permission_then_waits_then_leaves_and_gives_it_back(
    desk: Desk,
) -> None:
    assert desk.send(Drain(12.0)) == TAKE
    began_s = desk.now
    desk.send(CHANGED)
    assert desk.phase() is Phase.DRAINING
    assert desk.until(Withdraw) == TAKE_OUT
    assert desk.now == began_s + 12.0
    assert desk.send(DONE) == GIVE_BACK
    assert desk.send(CHANGED) is None
    assert desk.phase() is Phase.PAUSED


def test_the_lease_is_renewed_while_a_drain_waits(desk: Desk) -> None:
    desk.send(Drain(4 * TTL_S), CHANGED)
    renewed_at_s = desk.now
    while not isinstance(desk.wait(), Withdraw):
        assert desk.now - renewed_at_s <= HEARTBEAT_S
        renewed_at_s = desk.now
        desk.send(OK)


@pytest.mark.parametrize(
    ("answers", "then"),
    [
        pytest.param([UNCHANGED], None, id="somebody else took it"),
        pytest.param([DOWN, UNCHANGED], GIVE_BACK, id="taken by the try that was not answered"),
    ],
)
def test_a_write_permission_is_given_back_only_if_this_agent_took_it(
    desk: Desk, answers: list[Event], then: Action | None
) -> None:
    desk.send(Drain(1.0))
    for answer in answers:
        assert desk.until(SetWritePerm) == TAKE
        desk.send(answer)
    desk.until(Withdraw)
    assert desk.send(DONE) == then


def test_a_write_permission_that_may_not_be_taken_does_not_keep_the_broker(desk: Desk) -> None:
    desk.send(Drain(60.0))
    assert desk.send(CallFailed(StoreRefused("NOPERM"))) == TAKE_OUT
    assert desk.send(DONE) is None
    assert desk.heard("NOPERM")


@pytest.mark.parametrize(("taken", "call"), [(CHANGED, SetWritePerm), (UNCHANGED, WakeAt)])
def test_a_drain_that_is_called_off_gives_back_what_it_took(desk: Desk, taken: Event, call: type) -> None:
    desk.send(Drain(60.0), taken)
    assert isinstance(desk.send(Resume(), OK), call)
    desk.send(CHANGED)
    for _ in range(20):
        assert isinstance(desk.wait(), Heartbeat)
        desk.send(OK)
    assert desk.phase() is Phase.SERVING


def test_a_broker_that_dies_in_a_drain_stays_out(draining: Desk) -> None:
    assert draining.send(GONE) == Unregister(HELD, "broker gone")
    assert draining.send(DONE) == TAKE_OUT
    assert draining.send(DONE) == GIVE_BACK
    assert draining.send(CHANGED, BrokerUp()) is None
    assert draining.phase() is Phase.PAUSED


def test_a_broker_that_is_not_registered_is_drained_at_once(desk: Desk) -> None:
    desk.send(GONE)
    assert desk.send(DONE, Drain(60.0)) == TAKE_OUT
    assert desk.send(DONE, BrokerUp()) is None


@pytest.mark.parametrize("lost", [FENCED, LEASE_LOST])
def test_a_broker_that_loses_its_lease_in_a_drain_is_not_registered_anew(draining: Desk, lost: Event) -> None:
    draining.until(Heartbeat)
    assert draining.send(lost) == TAKE_OUT
    assert draining.send(DONE) == GIVE_BACK
    assert draining.send(CHANGED) is None
    assert draining.phase() is Phase.PAUSED


def test_a_broker_that_another_agent_took_while_it_was_gone_is_not_taken_back_to_be_drained(
    desk: Desk,
) -> None:
    desk.send(GONE)
    assert desk.send(STALE) is None or isinstance(desk.actions[0], WakeAt)
    desk.send(Drain(30.0), BrokerUp())
    assert desk.phase() is Phase.PAUSED
    assert not any(isinstance(action, Register) for action in desk.actions)


@pytest.fixture
def standby() -> Desk:
    """Return a planner whose broker another agent serves."""
    desk = Desk(*START, refused())
    desk.said.clear()
    return desk


def test_a_drain_at_a_standby_takes_the_broker_out_whoever_serves_it(standby: Desk) -> None:
    assert standby.phase() is Phase.STANDBY
    assert standby.send(Drain(12.0)) == TAKE
    standby.send(CHANGED)
    assert standby.phase() is Phase.DRAINING
    assert standby.status().trouble.startswith("another agent serves this broker")
    assert standby.waited_s() == 12.0
    assert standby.wait() == TAKE_OUT
    assert standby.status().may_be_served
    assert standby.send(DONE) == GIVE_BACK
    assert standby.send(CHANGED) is None
    status = standby.status()
    assert (status.phase, status.may_be_served, status.trouble) == (Phase.PAUSED, False, "")


def test_a_pause_at_a_standby_takes_the_broker_out_at_once(standby: Desk) -> None:
    assert standby.send(Pause()) == Withdraw(BROKER, "paused")


def test_a_drain_at_a_standby_that_is_called_off_leaves_the_owner_alone(standby: Desk) -> None:
    standby.send(Drain(12.0), CHANGED)
    assert standby.send(Resume()) == GIVE_BACK
    retried = standby.send(CHANGED)
    assert retried == replace(REGISTER, admit=True)
    standby.send(refused())
    assert standby.wait() == REGISTER
    assert standby.phase() is Phase.STANDBY


def test_a_broker_of_another_address_is_not_drained_by_who_stands_by_for_it() -> None:
    owned = refused("10.0.0.2:1")
    desk = Desk(*START, owned)
    assert desk.send(Drain(60.0)) == TAKE_OUT
    desk.send(owned)
    status = desk.status()
    assert (status.phase, status.may_be_served) == (Phase.PAUSED, True)
    assert "is held by 10.0.0.2:1" in status.trouble
    assert desk.wait() == TAKE_OUT
    assert desk.send(DONE) is None
    assert not desk.status().may_be_served


def test_a_broker_that_an_operator_took_out_elsewhere_stays_out_until_a_resume(standby: Desk) -> None:
    kept_out = CallFailed(BrokerWithdrawn("broker-a", 0, BROKER.address))
    for _ in range(3):
        assert standby.wait() == replace(REGISTER, take_over=not standby.said)
        standby.send(kept_out)
        assert standby.phase() is Phase.PAUSED
    (said,) = standby.said
    assert said.startswith("broker-a:0: an operator has taken the broker out of the registry: until a resume")
    assert standby.send(Resume()) == replace(STAND_BY, admit=True)


def test_a_resume_is_heeded_although_it_comes_while_a_call_is_under_way(standby: Desk) -> None:
    standby.wait()
    assert standby.send(Resume()) is None
    kept_out = CallFailed(BrokerWithdrawn("broker-a", 0, BROKER.address))
    standby.send(kept_out)
    assert standby.wait() == replace(STAND_BY, admit=True)


def test_a_resume_asks_at_once_whether_another_agent_has_taken_the_broker_out(desk: Desk) -> None:
    assert desk.send(Resume()) == Heartbeat(HELD)
    desk.send(FENCED)
    assert desk.wait() == replace(STAND_BY, admit=True)


def test_a_resume_of_a_broker_that_serves_lets_a_later_pause_elsewhere_hold(desk: Desk) -> None:
    desk.send(Resume(), OK)
    assert desk.wait() == Heartbeat(HELD)
    desk.send(FENCED)
    assert desk.wait() == STAND_BY


def test_a_drained_broker_whose_role_changes_is_taken_out_under_its_new_id_too(desk: Desk) -> None:
    assert desk.send(Pause(), DONE) is None
    assert desk.send(RoleFound(SLAVE)) == Withdraw(SLAVE, "paused")
    assert desk.send(DONE) is None


def test_an_agent_that_stops_does_not_wait_for_the_broker_of_another_address(desk: Desk) -> None:
    desk.send(Pause(), Stop())
    assert desk.send(refused("10.0.0.2:1")) == Done()


def test_a_standby_looks_at_once_when_the_owner_leaves(standby: Desk) -> None:
    assert standby.waited_s() > 0.9
    standby.send(OwnerLeft())
    assert standby.waited_s() <= 0.03
    assert standby.planner.is_standby
    assert standby.wait() == REGISTER


def test_a_standby_does_not_bring_a_broker_back_that_ended_a_moment_after_its_fronts_said_so(
    standby: Desk,
) -> None:
    standby.send(OwnerLeft())
    assert standby.waited_s() >= 0.01
    assert standby.send(BrokerGone("closed")) is None


def test_a_standby_looks_once_more_when_the_owner_leaves_during_its_look(standby: Desk) -> None:
    standby.wait()
    standby.send(OwnerLeft(), refused())
    assert standby.waited_s() <= 0.03
    standby.wait()
    standby.send(refused())
    assert standby.waited_s() > 0.9


def test_who_serves_the_broker_does_not_mind_that_an_owner_left(desk: Desk) -> None:
    before = desk.waited_s()
    desk.send(OwnerLeft())
    assert (desk.waited_s(), desk.planner.is_standby) == (before, False)


def test_a_write_permission_is_taken_before_a_changed_table_is_written(desk: Desk) -> None:
    desk.wait()
    desk.send(TopicsLoaded(OTHER_TABLE), Drain(60.0))
    assert desk.send(OK) == TAKE


def test_a_slave_is_drained_without_a_touch_at_its_masters_write_permission(desk: Desk) -> None:
    desk.send(RoleFound(SLAVE), granted(epoch=2, broker=SLAVE))
    began_s = desk.now
    desk.send(Drain(12.0))
    assert desk.until(Withdraw) == Withdraw(SLAVE, "drained")
    assert desk.now == began_s + 12.0
    assert desk.send(DONE) is None


def test_a_write_permission_that_was_found_taken_is_told(desk: Desk) -> None:
    desk.send(RoleFound(SLAVE))
    desk.send(Answered(held_of(TABLE, 2, broker=SLAVE), wiped=True))
    assert "`sharedroutes lift broker-a` gives it back" in desk.said[-1]


def test_who_does_not_know_whether_it_has_a_lease_may_be_served(desk: Desk) -> None:
    desk.send(Pause(), DOWN)
    assert desk.status().may_be_served
    assert desk.wait() == Withdraw(BROKER, "paused")
    desk.send(DONE)
    assert not desk.status().may_be_served


def test_a_registration_that_was_perhaps_made_is_ended_when_the_broker_goes(desk: Desk) -> None:
    desk.wait()
    desk.send(LEASE_LOST)
    assert isinstance(desk.wait(), Register)
    desk.send(DOWN)
    assert desk.send(GONE) == Unregister(HELD, "broker gone")


def test_an_agent_that_stops_in_a_drain_ends_it_and_gives_the_permission_back_first(draining: Desk) -> None:
    assert draining.send(Stop()) == TAKE_OUT
    assert draining.send(DONE) == GIVE_BACK
    assert draining.send(CHANGED) == Done()


def test_a_process_that_was_not_allowed_to_run_says_so(desk: Desk) -> None:
    desk.now += desk.waited_s() + 2 * TTL_S
    assert isinstance(desk.send(Woken()), Heartbeat)
    desk.send(LEASE_LOST)
    assert desk.said[0] == f"broker-a:0: {STILL.format(30.0)}"


@pytest.mark.parametrize(("late_s", "still_s"), [(TTL_S, [15.0]), (0.0, [])])
def test_a_process_that_stood_still_during_a_heartbeat_says_so_but_not_of_a_slow_answer(
    desk: Desk, late_s: float, still_s: list[float]
) -> None:
    desk.wait()
    desk.now += HEARTBEAT_S + late_s
    desk.send(OK)
    assert desk.said == [f"broker-a:0: {STILL.format(seconds)}" for seconds in still_s]


def test_only_the_first_drain_counts_and_is_logged_until_a_resume(desk: Desk) -> None:
    desk.send(Drain(5.0), CHANGED)
    began_s = desk.now
    desk.send(Drain(500.0))
    desk.until(Withdraw)
    assert desk.now == began_s + 5.0
    desk.send(DONE, Drain(7.0), Pause(), Drain(7.0))
    assert (desk.heard("draining: "), desk.heard("paused: ")) == (1, 1)


LEADS_TO: Final[dict[Phase, tuple[Event, ...]]] = {
    Phase.STARTING: (RoleFound(MOVED), DONE),
    Phase.BROKER_GONE: (GONE,),
    Phase.REGISTERING: (RoleFound(SLAVE),),
    Phase.SERVING: (),
    Phase.HANDING_OVER: (HandOver(20.0),),
    Phase.STANDBY: (TopicsLoaded(OTHER_TABLE), STALE),
    Phase.DRAINING: (Drain(60.0), CHANGED),
    Phase.PAUSED: (Pause(),),
    Phase.STOPPING: (Stop(),),
}
"""What leads from serving to each phase."""


@pytest.mark.parametrize("expected", Phase)
def test_the_status_tells_the_phase(desk: Desk, expected: Phase) -> None:
    desk.send(*LEADS_TO[expected])
    assert desk.phase() is expected


def test_a_broker_whose_lease_must_have_ended_is_not_said_to_be_served(desk: Desk) -> None:
    desk.now += TTL_S
    assert desk.phase() is Phase.REGISTERING


def test_the_status_counts_and_tells_what_is_wrong(desk: Desk) -> None:
    desk.wait()
    desk.send(OK)
    desk.wait()
    desk.send(DOWN)
    desk.now += 2.0
    status = desk.status()
    assert (status.registrations, status.heartbeats, status.failures, status.fenced) == (1, 1, 1, 0)
    assert (status.epoch, status.topics, status.in_step, status.broker_up) == (1, 1, True, True)
    assert (status.trouble, status.trouble_s) == ("down; trying again until it works", 2.0)
