"""What the planner does in one situation at a time; test_planner_machine.py mixes them."""

from __future__ import annotations

import pytest

from sharedroutes.broker_agent.planner.events import (
    Answered,
    BrokerUp,
    CallFailed,
    Done,
    Heartbeat,
    Register,
    Stop,
    TopicsLoaded,
    Unregister,
    WakeAt,
    Woken,
)
from sharedroutes.registry import (
    BrokerOwned,
    CorruptData,
    StaleEpoch,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
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
    STOP_DEADLINE_S,
    TABLE,
    TABLE_LOST,
    UNLISTED,
    Desk,
    granted,
    held_of,
    refused,
    table_of,
)

SLOW_S = 3.0


@pytest.fixture
def desk() -> Desk:
    """Return a planner that has seen nothing yet."""
    return Desk()


@pytest.fixture
def serving() -> Desk:
    """Return a planner whose broker has just been registered."""
    return Desk.registered()


def test_nothing_is_registered_before_broker_and_topics_are_there(desk: Desk) -> None:
    assert desk.send(TopicsLoaded(TABLE)) is None
    assert desk.send(BrokerUp()) == Register(BROKER, TABLE, None, take_over=True, admit=True)


def test_a_broker_that_is_not_there_at_first_is_waited_for(desk: Desk) -> None:
    assert desk.send(TopicsLoaded(TABLE), GONE) is None
    assert desk.said == ["broker-a:0: the broker is gone, waiting for it: 10.0.0.1:10911: refused"]
    assert desk.send(BrokerUp()) == Register(BROKER, TABLE, None, take_over=True, admit=True)


def test_a_broker_without_topics_waits_for_them(desk: Desk) -> None:
    assert desk.send(BrokerUp()) is None
    assert desk.send(TopicsLoaded(TABLE)) == Register(BROKER, TABLE, None, take_over=True, admit=True)


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
    newer = table_of("a", "b")
    assert serving.send(TopicsLoaded(newer)) == Register(BROKER, newer, HELD, take_over=True)
    serving.answer(Register(BROKER, newer, None, take_over=True))
    assert "wrote its changed table" in serving.said[-1]


def test_tables_that_come_during_a_call_wait_and_only_the_last_is_written(serving: Desk) -> None:
    serving.wait()
    last = table_of("z")
    assert serving.send(TopicsLoaded(table_of("b")), TopicsLoaded(last)) is None
    assert serving.send(OK) == Register(BROKER, last, HELD, take_over=True)


def test_the_death_of_the_broker_ends_its_lease_at_once(serving: Desk) -> None:
    assert serving.send(GONE) == Unregister(HELD, "broker gone")
    assert serving.send(DONE) is None
    assert "the broker is gone, clients are told so: 10.0.0.1:10911: refused" in serving.said[0]


def test_a_broker_that_is_back_is_registered_with_what_was_held(serving: Desk) -> None:
    serving.send(GONE, DONE)
    assert serving.send(BrokerUp()) == Register(BROKER, TABLE, HELD, take_over=True)


def test_a_broker_that_dies_during_its_registration_is_unregistered_after_it(desk: Desk) -> None:
    register = desk.send(BrokerUp(), TopicsLoaded(TABLE))
    assert desk.send(GONE) is None
    assert desk.answer(register) == Unregister(HELD, "broker gone")


def test_an_unregistration_that_is_not_answered_is_repeated(serving: Desk) -> None:
    serving.send(GONE, DOWN)
    assert serving.wait() == Unregister(HELD, "broker gone")


def test_a_broker_that_is_back_before_that_is_simply_registered(serving: Desk) -> None:
    serving.send(GONE, DOWN)
    assert serving.send(BrokerUp()) == Register(BROKER, TABLE, HELD, take_over=True)


def test_an_absent_store_is_tried_until_it_is_there_and_reported_once(desk: Desk) -> None:
    call = desk.send(BrokerUp(), TopicsLoaded(TABLE))
    waits_s = []
    for error in [StoreUnavailable("refused"), StoreTimeout("hung")] * 6:
        desk.send(CallFailed(error))
        waits_s.append(desk.waited_s())
        call = desk.wait()
    assert waits_s[0] <= 0.1
    assert all(wait_s <= HEARTBEAT_S for wait_s in waits_s)
    assert waits_s[-1] >= HEARTBEAT_S / 2
    desk.answer(call)
    troubles = [text for text in desk.said if "trying again" in text]
    assert troubles == ["broker-a:0: refused; trying again until it works"]
    assert desk.heard("works again, after") == 1


def test_ten_thousand_failures_do_not_break_the_waiting(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(TABLE))
    for _ in range(10_000):
        desk.send(DOWN)
        assert desk.waited_s() <= HEARTBEAT_S
        desk.wait()


def test_a_lost_lease_is_registered_again_at_once_with_jitter(serving: Desk) -> None:
    serving.wait()
    serving.send(LEASE_LOST)
    assert serving.waited_s() <= 0.2
    assert serving.wait() == Register(BROKER, TABLE, HELD, take_over=True)


def test_a_lost_table_is_registered_again_at_once_with_jitter(serving: Desk) -> None:
    serving.wait()
    serving.send(TABLE_LOST)
    assert serving.waited_s() <= 0.2
    assert serving.wait() == Register(BROKER, TABLE, HELD, take_over=True)
    assert serving.said == ["broker-a:0: the store has lost the table of the broker: registering again"]


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
        assert serving.wait() == Register(BROKER, TABLE, None, take_over=False)
        serving.send(refused())
    assert serving.heard("another agent has taken the broker over") == 1
    assert serving.heard("another agent serves this broker: on standby") == 1


def test_a_write_that_is_fenced_leads_to_standby_too(serving: Desk) -> None:
    serving.send(TopicsLoaded(table_of("b")), STALE)
    assert isinstance(serving.actions[0], WakeAt)
    register = serving.wait()
    assert isinstance(register, Register)
    assert (register.held, register.take_over) == (None, False)


def test_an_agent_on_standby_that_got_the_broker_works_as_before(serving: Desk) -> None:
    serving.wait()
    serving.send(FENCED)
    serving.answer(serving.wait(), epoch=9)
    assert serving.wait() == Heartbeat(held_of(TABLE, 9))


def test_a_standby_whose_broker_dies_has_nothing_to_unregister(serving: Desk) -> None:
    serving.wait()
    serving.send(FENCED)
    assert serving.send(GONE) is None
    assert serving.send(BrokerUp()) == Register(BROKER, TABLE, None, take_over=False)


def test_an_owned_broker_is_reported_once_for_each_owner_and_claimed_when_its_lease_ends(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(TABLE))
    for remaining_ms, owner in ((15_000, "10.0.0.2:1"), (15_000, "10.0.0.2:1"), (1_000, "10.0.0.3:1")):
        desk.send(CallFailed(BrokerOwned("broker-a", 0, owner, remaining_ms)))
        assert 1.0 <= desk.waited_s() <= 1.1  # looks in between: the other may leave before its time
        assert desk.wait() == REGISTER
    assert [text.split(" (state version 0)")[0] for text in desk.said[1:]] == [
        "broker-a:0: is held by 10.0.0.2:1",
        "broker-a:0: is held by 10.0.0.3:1",
    ]


@pytest.mark.parametrize("remaining_ms", [5, 700])
def test_a_standby_tries_right_after_the_end_of_the_lease_it_waits_for(desk: Desk, remaining_ms: int) -> None:
    desk.send(BrokerUp(), TopicsLoaded(TABLE))
    desk.send(CallFailed(BrokerOwned("broker-a", 0, "10.0.0.2:1", remaining_ms)))
    assert 0 < desk.waited_s() - remaining_ms / 1000 <= 0.1


def test_a_table_that_cannot_be_written_does_not_cost_the_lease(serving: Desk) -> None:
    newer = table_of("a", "b")
    serving.send(TopicsLoaded(newer))
    heartbeats = 0
    for _ in range(30):
        error = CorruptData("{sharedroutes}:changes", "is a list")
        call = serving.actions[0]
        serving.send(CallFailed(error) if isinstance(call, Register) else OK)
        heartbeats += isinstance(serving.wait(), Heartbeat)
    assert heartbeats >= 5
    assert serving.heard("is a list") == 1
    assert not serving.heard("works again")


def test_refused_credentials_are_reported_once(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(TABLE))
    for _ in range(5):
        desk.send(CallFailed(StoreRefused("the store refuses these credentials: WRONGPASS")))
        assert isinstance(desk.wait(), Register)
    assert desk.heard("WRONGPASS") == 1


def test_foreign_data_in_a_topic_is_named_once(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(TABLE))
    held = held_of(TABLE, corrupt_keys=("{sharedroutes}:topic:a",))
    desk.send(Answered(held), TopicsLoaded(table_of("b")), Answered(held))
    assert desk.heard("foreign data stands in {sharedroutes}:topic:a") == 1


def test_topics_under_foreign_data_are_tried_now_and_then_without_a_word(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(TABLE))
    foreign, mended = held_of(TABLE, corrupt_keys=("{sharedroutes}:topic:a",)), HELD
    desk.send(Answered(foreign))
    desk.said.clear()
    for outcome in (foreign, mended):
        began_s = desk.now
        while not isinstance(desk.wait(), Register):
            desk.send(OK)
        assert 25 < desk.now - began_s < 35
        assert desk.said == []
        desk.send(Answered(outcome))
    assert desk.said == ["broker-a:0: the foreign data is gone: all topics are served"]
    for _ in range(20):
        assert isinstance(desk.wait(), Heartbeat)
        desk.send(OK)


def test_a_broker_that_a_foreign_key_leaves_out_of_a_list_registers_once_to_learn_which(
    serving: Desk,
) -> None:
    assert isinstance(serving.wait(), Heartbeat)
    assert isinstance(serving.send(UNLISTED), Register)
    key = "{sharedroutes}:deadlines"
    serving.send(granted(corrupt_keys=(key,)))
    assert serving.said == [
        f"broker-a:0: foreign data stands in {key}: the broker is served without what they list; move it away"
    ]
    assert serving.status().corrupt_keys == (key,)
    assert isinstance(serving.wait(), Heartbeat)
    serving.send(UNLISTED)
    assert isinstance(serving.wait(), Heartbeat)


def test_stopping_unregisters_and_then_ends(serving: Desk) -> None:
    assert serving.send(Stop()) == Unregister(HELD, "agent stopped")
    assert serving.send(DONE) == Done()


def test_stopping_waits_for_the_call_that_is_under_way(serving: Desk) -> None:
    serving.wait()
    assert isinstance(serving.send(Stop()), WakeAt)
    assert serving.send(OK) == Unregister(HELD, "agent stopped")


def test_stopping_without_a_lease_just_ends(desk: Desk) -> None:
    assert desk.send(BrokerUp(), Stop()) == Done()


def test_stopping_does_not_wait_for_the_next_try(serving: Desk) -> None:
    serving.wait()
    serving.send(DOWN)
    assert serving.send(Stop()) == Unregister(HELD, "agent stopped")


def test_stopping_ends_by_its_deadline_when_the_store_does_not_answer(serving: Desk) -> None:
    serving.send(Stop())
    (_, wake) = serving.actions
    assert wake == WakeAt(serving.now + STOP_DEADLINE_S)
    serving.now += STOP_DEADLINE_S
    assert serving.send(Woken()) == Done()
    assert "not unregistered, the store does not answer; the lease ends within 15.0 s" in serving.said[-1]


def test_stopping_a_broker_that_was_taken_over_ends_without_harm(serving: Desk) -> None:
    serving.send(Stop())
    assert serving.send(STALE) == Done()


def test_a_table_that_cannot_be_written_in_time_does_not_keep_the_lease_from_being_renewed(
    serving: Desk,
) -> None:
    action = serving.send(TopicsLoaded(table_of("b")))
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
