"""What the planner does in one situation at a time; test_planner_machine.py mixes them."""

from __future__ import annotations

import pytest

from sharedroutes.broker_agent.planner.events import (
    BrokerUp,
    CallFailed,
    Done,
    Heartbeat,
    HeartbeatAnswered,
    Register,
    Registered,
    Stop,
    TopicsLoaded,
    Unregister,
    Unregistered,
    WakeAt,
)
from sharedroutes.registry import (
    BrokerOwned,
    CorruptData,
    LeaseStatus,
    StaleEpoch,
    StoreRefused,
    StoreTimeout,
    StoreUnavailable,
)
from tests.broker_agent.desk import BROKER, FILE, GONE, HEARTBEAT_S, SLOW_S, Desk, file_of, held_of


@pytest.fixture
def desk() -> Desk:
    """Return a planner that has seen nothing yet."""
    return Desk()


@pytest.fixture
def registered(desk: Desk) -> Desk:
    """Return a planner whose broker is registered, just now."""
    desk.answer(desk.send(BrokerUp(), TopicsLoaded(FILE)))
    desk.said.clear()
    return desk


def test_nothing_is_registered_before_broker_and_topics_are_there(desk: Desk) -> None:
    assert desk.send(TopicsLoaded(FILE)) is None
    assert desk.send(BrokerUp()) == Register(BROKER, FILE, None, take_over=True, admit=True)


def test_a_broker_that_is_not_there_at_first_is_waited_for(desk: Desk) -> None:
    assert desk.send(TopicsLoaded(FILE), GONE) is None
    assert desk.said == ["broker-a:0: the broker is gone, waiting for it: 10.0.0.1:10911: refused"]
    assert desk.send(BrokerUp()) == Register(BROKER, FILE, None, take_over=True, admit=True)


def test_a_broker_without_topics_waits_for_them(desk: Desk) -> None:
    assert desk.send(BrokerUp()) is None
    assert desk.send(TopicsLoaded(FILE)) == Register(BROKER, FILE, None, take_over=True, admit=True)


def test_a_registration_is_followed_by_heartbeats(registered: Desk) -> None:
    for _ in range(3):
        assert 0.9 * HEARTBEAT_S <= registered.waited_s() <= HEARTBEAT_S
        assert registered.wait() == Heartbeat(held_of(FILE))
        registered.send(HeartbeatAnswered(LeaseStatus.OK))
    assert registered.said == []


def test_heartbeats_keep_their_interval_when_answers_are_slow(registered: Desk) -> None:
    registered.wait()
    registered.now += 2.0
    registered.send(HeartbeatAnswered(LeaseStatus.OK))
    assert registered.waited_s() <= HEARTBEAT_S - 2.0


def test_one_heartbeat_in_ten_looks_at_the_listings(registered: Desk) -> None:
    looks = []
    for _ in range(30):
        beat = registered.wait()
        assert isinstance(beat, Heartbeat)
        looks.append(beat.listings)
        registered.send(HeartbeatAnswered(LeaseStatus.OK))
    assert [number for number, look in enumerate(looks) if look] == [1, 11, 21]


def test_a_changed_table_is_registered_at_once_with_what_is_held(registered: Desk) -> None:
    newer = file_of("a", "b")
    assert registered.send(TopicsLoaded(newer)) == Register(BROKER, newer, held_of(FILE), take_over=True)
    registered.answer(Register(BROKER, newer, None, take_over=True))
    assert "wrote its changed table" in registered.said[-1]


def test_tables_that_come_during_a_call_wait_and_only_the_last_is_written(registered: Desk) -> None:
    registered.wait()
    last = file_of("z")
    assert registered.send(TopicsLoaded(file_of("b")), TopicsLoaded(last)) is None
    assert registered.send(HeartbeatAnswered(LeaseStatus.OK)) == Register(
        BROKER, last, held_of(FILE), take_over=True
    )


def test_the_death_of_the_broker_ends_its_lease_at_once(registered: Desk) -> None:
    assert registered.send(GONE) == Unregister(held_of(FILE), "broker gone")
    assert registered.send(Unregistered()) is None
    assert "the broker is gone, clients are told so: 10.0.0.1:10911: refused" in registered.said[0]


def test_a_broker_that_is_back_is_registered_with_what_was_held(registered: Desk) -> None:
    registered.send(GONE, Unregistered())
    assert registered.send(BrokerUp()) == Register(BROKER, FILE, held_of(FILE), take_over=True)


def test_a_broker_that_dies_during_its_registration_is_unregistered_after_it(desk: Desk) -> None:
    register = desk.send(BrokerUp(), TopicsLoaded(FILE))
    assert desk.send(GONE) is None
    assert desk.answer(register) == Unregister(held_of(FILE), "broker gone")


def test_an_unregistration_that_is_not_answered_is_repeated(registered: Desk) -> None:
    registered.send(GONE, CallFailed(StoreUnavailable("down")))
    assert registered.wait() == Unregister(held_of(FILE), "broker gone")


def test_a_broker_that_is_back_before_that_is_simply_registered(registered: Desk) -> None:
    registered.send(GONE, CallFailed(StoreUnavailable("down")))
    assert registered.send(BrokerUp()) == Register(BROKER, FILE, held_of(FILE), take_over=True)


def test_an_absent_store_is_tried_until_it_is_there_and_reported_once(desk: Desk) -> None:
    call = desk.send(BrokerUp(), TopicsLoaded(FILE))
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
    assert sum("works again, after" in text for text in desk.said) == 1


def test_ten_thousand_failures_do_not_break_the_waiting(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(FILE))
    for _ in range(10_000):
        desk.send(CallFailed(StoreUnavailable("down")))
        assert desk.waited_s() <= HEARTBEAT_S
        desk.wait()


def test_a_lost_lease_is_registered_again_at_once_with_jitter(registered: Desk) -> None:
    registered.wait()
    registered.send(HeartbeatAnswered(LeaseStatus.LEASE_LOST))
    assert registered.waited_s() <= 0.2
    assert registered.wait() == Register(BROKER, FILE, held_of(FILE), take_over=True)


def test_a_lost_table_is_registered_again_at_once_with_jitter(registered: Desk) -> None:
    registered.wait()
    registered.send(HeartbeatAnswered(LeaseStatus.TABLE_LOST))
    assert registered.waited_s() <= 0.2
    assert registered.wait() == Register(BROKER, FILE, held_of(FILE), take_over=True)
    assert registered.said == ["broker-a:0: the store has lost the table of the broker: registering again"]


@pytest.mark.parametrize("known_epoch", [0, 4], ids=["emptied", "rolled back"])
def test_a_store_that_lost_data_gets_a_new_registration(registered: Desk, known_epoch: int) -> None:
    registered.wait()
    registered.send(HeartbeatAnswered(LeaseStatus.LEASE_LOST))
    registered.wait()
    registered.send(CallFailed(StaleEpoch("broker-a", 0, 5, known_epoch)))
    assert registered.waited_s() <= 0.2
    assert registered.wait() == Register(BROKER, FILE, None, take_over=True)


def test_a_fenced_agent_goes_to_standby_and_takes_nothing_back(registered: Desk) -> None:
    registered.wait()
    registered.send(HeartbeatAnswered(LeaseStatus.FENCED))
    for _ in range(3):
        assert registered.waited_s() >= 1.0
        assert registered.wait() == Register(BROKER, FILE, None, take_over=False)
        registered.send(CallFailed(BrokerOwned("broker-a", 0, BROKER.address, 12_000)))
    assert sum("another agent has taken the broker over" in text for text in registered.said) == 1
    assert sum("another agent serves this broker: on standby" in text for text in registered.said) == 1


def test_a_write_that_is_fenced_leads_to_standby_too(registered: Desk) -> None:
    registered.send(TopicsLoaded(file_of("b")), CallFailed(StaleEpoch("broker-a", 0, 1, 2)))
    assert isinstance(registered.actions[0], WakeAt)
    register = registered.wait()
    assert isinstance(register, Register)
    assert (register.held, register.take_over) == (None, False)


def test_an_agent_on_standby_that_got_the_broker_works_as_before(registered: Desk) -> None:
    registered.wait()
    registered.send(HeartbeatAnswered(LeaseStatus.FENCED))
    registered.answer(registered.wait(), epoch=9)
    assert registered.wait() == Heartbeat(held_of(FILE, 9))


def test_a_standby_whose_broker_dies_has_nothing_to_unregister(registered: Desk) -> None:
    registered.wait()
    registered.send(HeartbeatAnswered(LeaseStatus.FENCED))
    assert registered.send(GONE) is None
    assert registered.send(BrokerUp()) == Register(BROKER, FILE, None, take_over=False)


def test_an_owned_broker_is_reported_once_for_each_owner_and_claimed_when_its_lease_ends(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(FILE))
    for remaining_ms, owner in ((15_000, "10.0.0.2:1"), (15_000, "10.0.0.2:1"), (1_000, "10.0.0.3:1")):
        desk.send(CallFailed(BrokerOwned("broker-a", 0, owner, remaining_ms)))
        assert 1.0 <= desk.waited_s() <= 1.1  # looks in between: the other may leave before its time
        assert desk.wait() == Register(BROKER, FILE, None, take_over=True)
    assert [text.split(" (state version 0)")[0] for text in desk.said[1:]] == [
        "broker-a:0: is held by 10.0.0.2:1",
        "broker-a:0: is held by 10.0.0.3:1",
    ]


@pytest.mark.parametrize("remaining_ms", [5, 700])
def test_a_standby_tries_right_after_the_end_of_the_lease_it_waits_for(desk: Desk, remaining_ms: int) -> None:
    desk.send(BrokerUp(), TopicsLoaded(FILE))
    desk.send(CallFailed(BrokerOwned("broker-a", 0, "10.0.0.2:1", remaining_ms)))
    assert 0 < desk.waited_s() - remaining_ms / 1000 <= 0.1


def test_a_table_that_cannot_be_written_does_not_cost_the_lease(registered: Desk) -> None:
    newer = file_of("a", "b")
    registered.send(TopicsLoaded(newer))
    heartbeats = 0
    for _ in range(30):
        error = CorruptData("{sharedroutes}:changes", "is a list")
        call = registered.actions[0]
        registered.send(
            CallFailed(error) if isinstance(call, Register) else HeartbeatAnswered(LeaseStatus.OK)
        )
        heartbeats += isinstance(registered.wait(), Heartbeat)
    assert heartbeats >= 5
    assert sum("is a list" in text for text in registered.said) == 1
    assert not any("works again" in text for text in registered.said)


def test_refused_credentials_are_reported_once(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(FILE))
    for _ in range(5):
        desk.send(CallFailed(StoreRefused("the store refuses these credentials: WRONGPASS")))
        assert isinstance(desk.wait(), Register)
    assert sum("WRONGPASS" in text for text in desk.said) == 1


def test_foreign_data_in_a_topic_is_named_once(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(FILE))
    held = held_of(FILE, corrupt_keys=("{sharedroutes}:topic:a",))
    desk.send(Registered(FILE, held), TopicsLoaded(file_of("b")), Registered(FILE, held))
    assert sum("foreign data stands in {sharedroutes}:topic:a" in text for text in desk.said) == 1


def test_topics_under_foreign_data_are_tried_now_and_then_without_a_word(desk: Desk) -> None:
    desk.send(BrokerUp(), TopicsLoaded(FILE))
    foreign, mended = held_of(FILE, corrupt_keys=("{sharedroutes}:topic:a",)), held_of(FILE)
    desk.send(Registered(FILE, foreign))
    desk.said.clear()
    for outcome in (foreign, mended):
        began_s = desk.now
        while not isinstance(desk.wait(), Register):
            desk.send(HeartbeatAnswered(LeaseStatus.OK))
        assert 25 < desk.now - began_s < 35
        assert desk.said == []
        desk.send(Registered(FILE, outcome))
    assert desk.said == ["broker-a:0: the foreign data is gone: all topics are served"]
    for _ in range(20):
        assert isinstance(desk.wait(), Heartbeat)
        desk.send(HeartbeatAnswered(LeaseStatus.OK))


def test_a_broker_that_a_foreign_key_leaves_out_of_a_list_registers_once_to_learn_which(
    registered: Desk,
) -> None:
    assert isinstance(registered.wait(), Heartbeat)
    assert isinstance(registered.send(HeartbeatAnswered(LeaseStatus.UNLISTED)), Register)
    key = "{sharedroutes}:deadlines"
    registered.send(Registered(FILE, held_of(FILE, corrupt_keys=(key,))))
    assert registered.said == [
        f"broker-a:0: foreign data stands in {key}: the broker is served without what they list; move it away"
    ]
    assert registered.planner.status(registered.now).corrupt_keys == (key,)
    assert isinstance(registered.wait(), Heartbeat)
    registered.send(HeartbeatAnswered(LeaseStatus.UNLISTED))
    assert isinstance(registered.wait(), Heartbeat)


def test_stopping_unregisters_and_then_ends(registered: Desk) -> None:
    assert registered.send(Stop()) == Unregister(held_of(FILE), "agent stopped")
    assert registered.send(Unregistered()) == Done()


def test_stopping_waits_for_the_call_that_is_under_way(registered: Desk) -> None:
    registered.wait()
    assert registered.send(Stop()) is None
    assert registered.send(HeartbeatAnswered(LeaseStatus.OK)) == Unregister(held_of(FILE), "agent stopped")


def test_stopping_without_a_lease_just_ends(desk: Desk) -> None:
    assert desk.send(BrokerUp(), Stop()) == Done()


def test_stopping_does_not_wait_for_the_next_try(registered: Desk) -> None:
    registered.wait()
    registered.send(CallFailed(StoreUnavailable("down")))
    assert registered.send(Stop()) == Unregister(held_of(FILE), "agent stopped")


def test_stopping_a_broker_that_was_taken_over_ends_without_harm(registered: Desk) -> None:
    registered.send(Stop())
    assert registered.send(CallFailed(StaleEpoch("broker-a", 0, 1, 2))) == Done()


def test_a_table_that_cannot_be_written_in_time_does_not_keep_the_lease_from_being_renewed(
    registered: Desk,
) -> None:
    action = registered.send(TopicsLoaded(file_of("b")))
    renewed_at_s = registered.now
    for _ in range(40):
        if isinstance(action, Heartbeat):
            assert registered.now - renewed_at_s <= HEARTBEAT_S + 2 * SLOW_S
            renewed_at_s = registered.now
            action = registered.send(HeartbeatAnswered(LeaseStatus.OK))
        else:
            assert isinstance(action, Register)
            registered.now += SLOW_S
            action = registered.send(CallFailed(StoreTimeout("too slow")))
        action = action if not isinstance(action, WakeAt) else registered.wait()
    assert registered.now - renewed_at_s <= HEARTBEAT_S + 2 * SLOW_S
