"""What the planner does in one situation at a time; test_planner_machine.py mixes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sharedroutes.broker_agent.planner.events import (
    Answered,
    CallFailed,
    Drain,
    Event,
    HandOver,
    Heartbeat,
    Pause,
    Register,
    Stop,
    TopicsLoaded,
    Unregister,
    Withdraw,
    Woken,
)
from sharedroutes.broker_agent.planner.intent import LEAST_WATCH_S
from sharedroutes.broker_agent.planner.status import Phase
from sharedroutes.registry import CorruptData, LeaseStatus, StaleEpoch, StoreRefused, StoreTimeout
from sharedroutes.remoting.broker.probing import BrokerUp
from tests.broker_agent.desk import (
    BROKER,
    DONE,
    DOWN,
    FENCED,
    GONE,
    HEARTBEAT_S,
    HELD,
    LEASE_LOST,
    OK,
    REGISTER,
    STALE,
    STAND_BY,
    START,
    STOP_DEADLINE_S,
    TABLE,
    UNCHANGED,
    Desk,
    Done,
    WakeAt,
    granted,
    held_of,
    refused,
    table_of,
)

SLOW_S = 3.0
NEWER = table_of("a", "b")
TAKEN_BACK = Unregister(HELD, "broker gone")
STOPPED = Unregister(HELD, "agent stopped")


@pytest.fixture
def desk() -> Desk:
    """Return a planner whose broker is being registered for the first time."""
    return Desk(*START)


@pytest.fixture
def serving() -> Desk:
    """Return a planner whose broker has just been registered."""
    return Desk.registered()


@pytest.mark.parametrize(
    "events",
    [
        (TopicsLoaded(TABLE), BrokerUp()),
        (TopicsLoaded(TABLE), GONE, BrokerUp()),
        (BrokerUp(), TopicsLoaded(TABLE)),
    ],
)
def test_a_broker_is_registered_once_it_is_up_and_its_topics_are_known(events: Sequence[Event]) -> None:
    desk = Desk()
    assert desk.send(*events[:-1]) is None
    assert desk.heard("broker-a:0: the broker is gone, waiting for it: 10.0.0.1:10911: refused") == (
        GONE in events
    )
    assert desk.send(events[-1]) == replace(REGISTER, admit=True)


def test_a_registration_is_followed_by_heartbeats(serving: Desk) -> None:
    for _ in range(3):
        assert 0.9 * HEARTBEAT_S <= serving.waited_s() <= HEARTBEAT_S
        assert serving.wait() == Heartbeat(HELD)
        serving.send(OK)
    assert serving.said == []


def test_heartbeats_keep_their_interval_when_answers_are_slow(serving: Desk) -> None:
    serving.wait()
    serving.now += 2.0
    serving.send(OK)
    assert serving.waited_s() <= HEARTBEAT_S - 2.0


def test_one_heartbeat_in_ten_looks_at_the_listings(serving: Desk) -> None:
    looks = []
    for _ in range(30):
        beat = serving.wait()
        assert isinstance(beat, Heartbeat)
        looks.append(beat.listings)
        serving.send(OK)
    assert [number for number, look in enumerate(looks) if look] == [1, 11, 21]


def test_a_changed_table_is_registered_at_once_with_what_is_held(serving: Desk) -> None:
    assert serving.send(TopicsLoaded(NEWER)) == replace(REGISTER, table=NEWER, held=HELD)
    serving.send(granted(NEWER))
    assert "wrote its changed table" in serving.said[-1]


def test_tables_that_come_during_a_call_wait_and_only_the_last_is_written(serving: Desk) -> None:
    serving.wait()
    assert serving.send(TopicsLoaded(table_of("b")), TopicsLoaded(NEWER)) is None
    assert serving.send(OK) == replace(REGISTER, table=NEWER, held=HELD)


def test_the_death_of_the_broker_ends_its_lease_until_it_is_back(serving: Desk) -> None:
    assert serving.send(GONE) == TAKEN_BACK
    assert serving.send(DONE) is None
    assert serving.said[0] == "broker-a:0: the broker is gone, clients are told so: 10.0.0.1:10911: refused"
    assert serving.send(BrokerUp()) == replace(REGISTER, held=HELD)


def test_a_broker_that_dies_during_its_registration_is_unregistered_after_it(desk: Desk) -> None:
    assert desk.send(GONE) is None
    assert desk.send(granted()) == TAKEN_BACK


def test_an_unregistration_that_is_not_answered_is_repeated_unless_the_broker_is_back(serving: Desk) -> None:
    serving.send(GONE, DOWN)
    assert serving.wait() == TAKEN_BACK
    serving.send(DOWN)
    assert serving.send(BrokerUp()) == replace(REGISTER, held=HELD)


def test_an_absent_store_is_tried_until_it_is_there_and_reported_once(desk: Desk) -> None:
    waits_s = []
    for error in [DOWN, CallFailed(StoreTimeout("hung"))] * 6:
        desk.send(error)
        waits_s.append(desk.waited_s())
        desk.wait()
    assert waits_s[0] <= 0.1
    assert all(wait_s <= HEARTBEAT_S for wait_s in waits_s)
    assert waits_s[-1] >= HEARTBEAT_S / 2
    desk.send(granted())
    troubles = [text for text in desk.said if "trying again" in text]
    assert troubles == ["broker-a:0: down; trying again until it works"]
    assert desk.heard("works again, after") == 1


def test_ten_thousand_failures_do_not_break_the_waiting(desk: Desk) -> None:
    for _ in range(10_000):
        desk.send(DOWN)
        assert desk.waited_s() <= HEARTBEAT_S
        desk.wait()


@pytest.mark.parametrize("status", [LeaseStatus.LEASE_LOST, LeaseStatus.TABLE_LOST])
def test_what_the_store_lost_is_registered_again_at_once_with_jitter(
    serving: Desk, status: LeaseStatus
) -> None:
    serving.wait()
    serving.send(Answered(status))
    assert serving.waited_s() <= 0.2
    assert serving.wait() == replace(REGISTER, held=HELD)
    lost = "lease" if status is LeaseStatus.LEASE_LOST else "table"
    assert serving.said == [f"broker-a:0: the store has lost the {lost} of the broker: registering again"]


@pytest.mark.parametrize("known_epoch", [0, 4], ids=["emptied", "rolled back"])
def test_a_store_that_lost_data_gets_a_new_registration(serving: Desk, known_epoch: int) -> None:
    serving.wait()
    serving.send(LEASE_LOST)
    serving.wait()
    serving.send(CallFailed(StaleEpoch("broker-a", 0, 5, known_epoch)))
    assert serving.waited_s() <= 0.2
    assert serving.wait() == REGISTER


def test_a_fenced_agent_goes_to_standby_and_takes_nothing_back(serving: Desk) -> None:
    serving.wait()
    serving.send(FENCED)
    for _ in range(3):
        assert serving.waited_s() >= 1.0
        assert serving.wait() == STAND_BY
        serving.send(refused())
    assert serving.heard("another agent has taken the broker over") == 1
    assert serving.heard("another agent serves this broker: on standby") == 1


def test_a_write_that_is_fenced_leads_to_standby_too(serving: Desk) -> None:
    serving.send(TopicsLoaded(NEWER), STALE)
    assert serving.wait() == replace(STAND_BY, table=NEWER)


def test_an_agent_on_standby_that_got_the_broker_works_as_before(serving: Desk) -> None:
    serving.wait()
    serving.send(FENCED)
    serving.wait()
    serving.send(granted(epoch=9))
    assert serving.wait() == Heartbeat(held_of(epoch=9))


def test_a_standby_whose_broker_dies_has_nothing_to_unregister(serving: Desk) -> None:
    serving.wait()
    serving.send(FENCED)
    assert serving.send(GONE) is None
    assert serving.send(BrokerUp()) == STAND_BY


def test_an_owned_broker_is_reported_once_for_each_owner_and_claimed_when_its_lease_ends(desk: Desk) -> None:
    for remaining_ms, owner in ((15_000, "10.0.0.2:1"), (15_000, "10.0.0.2:1"), (1_000, "10.0.0.3:1")):
        desk.send(refused(owner, remaining_ms))
        assert 1.0 <= desk.waited_s() <= 1.1  # looks in between: the other may leave before its time
        assert desk.wait() == REGISTER
    assert [text.split(" (state version 0)")[0] for text in desk.said[1:]] == [
        "broker-a:0: is held by 10.0.0.2:1",
        "broker-a:0: is held by 10.0.0.3:1",
    ]


@pytest.mark.parametrize("remaining_ms", [5, 700])
def test_a_standby_tries_right_after_the_end_of_the_lease_it_waits_for(desk: Desk, remaining_ms: int) -> None:
    desk.send(refused("10.0.0.2:1", remaining_ms))
    assert 0 < desk.waited_s() - remaining_ms / 1000 <= 0.1


def test_a_table_that_cannot_be_written_does_not_cost_the_lease(serving: Desk) -> None:
    serving.send(TopicsLoaded(NEWER))
    heartbeats = 0
    for _ in range(30):
        is_write = isinstance(serving.actions[0], Register)
        serving.send(CallFailed(CorruptData("{sharedroutes}:changes", "is a list")) if is_write else OK)
        heartbeats += isinstance(serving.wait(), Heartbeat)
    assert heartbeats >= 5
    assert (serving.heard("is a list"), serving.heard("works again")) == (1, 0)


def test_a_table_that_cannot_be_written_in_time_does_not_keep_the_lease_from_being_renewed(
    serving: Desk,
) -> None:
    action = serving.send(TopicsLoaded(NEWER))
    renewed_at_s = serving.now
    for _ in range(40):
        if isinstance(action, Heartbeat):
            assert serving.now - renewed_at_s <= HEARTBEAT_S + 2 * SLOW_S
            renewed_at_s = serving.now
            action = serving.send(OK)
        else:
            assert isinstance(action, Register)
            serving.now += SLOW_S
            action = serving.send(CallFailed(StoreTimeout("too slow")))
        action = action if not isinstance(action, WakeAt) else serving.wait()
    assert serving.now - renewed_at_s <= HEARTBEAT_S + 2 * SLOW_S


def test_refused_credentials_are_reported_once(desk: Desk) -> None:
    for _ in range(5):
        desk.send(CallFailed(StoreRefused("the store refuses these credentials: WRONGPASS")))
        assert isinstance(desk.wait(), Register)
    assert desk.heard("WRONGPASS") == 1


def test_topics_under_foreign_data_are_named_once_and_tried_now_and_then(desk: Desk) -> None:
    foreign = granted(corrupt_keys=("{sharedroutes}:topic:a",))
    desk.send(foreign, TopicsLoaded(table_of("b")), foreign)
    assert desk.heard("foreign data stands in {sharedroutes}:topic:a") == 1
    desk.said.clear()
    for outcome in (foreign, granted()):
        began_s = desk.now
        while not isinstance(desk.wait(), Register):
            desk.send(OK)
        assert 25 < desk.now - began_s < 35
        assert desk.said == []
        desk.send(outcome)
    assert desk.said == ["broker-a:0: the foreign data is gone: all topics are served"]
    for _ in range(20):
        assert isinstance(desk.wait(), Heartbeat)
        desk.send(OK)


def test_a_broker_that_a_foreign_key_leaves_out_of_a_list_registers_once_to_learn_which(
    serving: Desk,
) -> None:
    unlisted, key = Answered(LeaseStatus.UNLISTED), "{sharedroutes}:deadlines"
    serving.wait()
    assert isinstance(serving.send(unlisted), Register)
    serving.send(granted(corrupt_keys=(key,)))
    assert serving.said == [
        f"broker-a:0: foreign data stands in {key}: the broker is served without what they list; move it away"
    ]
    assert serving.status().corrupt_keys == (key,)
    for _ in range(2):
        assert isinstance(serving.wait(), Heartbeat)
        serving.send(unlisted)


def test_stopping_unregisters_and_then_ends(serving: Desk) -> None:
    assert serving.send(Stop()) == STOPPED
    assert serving.send(DONE) == Done()


def test_stopping_waits_for_the_call_that_is_under_way(serving: Desk) -> None:
    serving.wait()
    assert isinstance(serving.send(Stop()), WakeAt)
    assert serving.send(OK) == STOPPED


def test_stopping_does_not_wait_for_the_next_try(serving: Desk) -> None:
    serving.wait()
    serving.send(DOWN)
    assert serving.send(Stop()) == STOPPED


def test_stopping_ends_by_its_deadline_when_the_store_does_not_answer(serving: Desk) -> None:
    serving.send(Stop())
    assert serving.actions == [STOPPED, WakeAt(serving.now + STOP_DEADLINE_S)]
    serving.now += STOP_DEADLINE_S
    assert serving.send(Woken()) == Done()
    assert "not unregistered, the store does not answer; the lease ends within 15.0 s" in serving.said[-1]


def test_an_answer_that_comes_with_the_deadline_is_no_silence_of_the_store(serving: Desk) -> None:
    serving.send(Stop())
    serving.now += STOP_DEADLINE_S
    assert serving.send(DONE) == Done()
    assert serving.said[-1] == "broker-a:0: unregistered"


def test_stopping_without_a_lease_just_ends() -> None:
    assert Desk(BrokerUp()).send(Stop()) == Done()


def test_stopping_a_broker_that_was_taken_over_ends_without_harm(serving: Desk) -> None:
    serving.send(Stop())
    assert serving.send(STALE) == Done()


def test_a_hand_over_serves_a_broker_that_is_up_while_it_is_watched(serving: Desk) -> None:
    serving.send(HandOver(20.0))
    assert serving.phase() is Phase.HANDING_OVER
    serving.now += HEARTBEAT_S
    assert serving.send(BrokerUp()) == Heartbeat(HELD)
    assert "watching it for 20 s" in serving.said[-2] + serving.said[-1]


@pytest.mark.parametrize("watch_s", [0.0, 20.0])
def test_after_a_hand_over_the_lease_is_renewed_and_left_behind(serving: Desk, watch_s: float) -> None:
    serving.now += 1.0
    serving.send(HandOver(watch_s))
    for _ in range(5):
        action = serving.actions[0]
        assert isinstance(action, WakeAt)
        serving.now = action.at_s
        assert serving.send(BrokerUp()) == Heartbeat(HELD)
        began_s = serving.now
        if serving.send(OK) == Done():
            break
    assert serving.actions == [Done()]
    assert began_s >= 101.0 + max(watch_s, LEAST_WATCH_S)
    assert "handed over" in serving.said[-1]


def test_a_broker_that_ends_during_a_hand_over_is_taken_out_at_once(serving: Desk) -> None:
    serving.send(HandOver(20.0))
    assert serving.send(GONE) == STOPPED


def test_a_broker_whose_end_is_noticed_a_moment_after_the_signal_is_taken_out(serving: Desk) -> None:
    serving.send(HandOver(0.0))
    serving.now += LEAST_WATCH_S / 2
    assert serving.send(GONE) == STOPPED


@pytest.mark.parametrize("events", [(Pause(),), (Drain(10.0), UNCHANGED)])
def test_a_hand_over_of_a_broker_that_its_operator_takes_out_takes_it_out_at_once(
    serving: Desk, events: list[Event]
) -> None:
    serving.send(*events, HandOver(20.0))
    assert serving.phase() is Phase.STOPPING
    withdraws = [action for action in serving.all_actions if isinstance(action, Withdraw)]
    assert [one.broker for one in withdraws] == [BROKER]


def test_a_hand_over_ends_by_the_deadline_when_the_store_does_not_answer(serving: Desk) -> None:
    serving.send(HandOver(0.0))
    serving.now += LEAST_WATCH_S
    assert serving.send(BrokerUp()) == Heartbeat(HELD)
    assert isinstance(serving.send(DOWN), WakeAt)
    serving.now += STOP_DEADLINE_S
    assert serving.send(DOWN) == Done()
    assert "handed over without a last heartbeat, the store does not answer" in serving.said[-1]


def test_a_drain_during_a_hand_over_goes_its_way(serving: Desk) -> None:
    serving.send(HandOver(60.0), Drain(10.0))
    assert serving.phase() is Phase.DRAINING


def test_a_hand_over_to_an_agent_that_is_there_ends_without_a_word_to_the_store(
    serving: Desk,
) -> None:
    serving.send(HandOver(20.0))
    serving.now += HEARTBEAT_S
    serving.send(BrokerUp())
    assert serving.send(FENCED) == Done()


def test_a_stop_during_a_hand_over_takes_the_broker_out(serving: Desk) -> None:
    serving.send(HandOver(20.0))
    assert serving.send(Stop()) == STOPPED


def test_a_second_hand_over_only_shortens_the_watch(serving: Desk) -> None:
    serving.send(HandOver(600.0))
    assert serving.send(HandOver(0.0)) == WakeAt(serving.now + LEAST_WATCH_S)


def test_a_hand_over_of_nothing_ends_at_once() -> None:
    assert Desk().send(HandOver(20.0)) == Done()
