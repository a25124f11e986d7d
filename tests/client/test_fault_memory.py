"""Who is left alone, for how long, and how a broker comes back."""

from __future__ import annotations

import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sharedroutes.client.faults.broker import Result
from sharedroutes.client.faults.config import FaultConfig, Tuning
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.client.observers import Event
from sharedroutes.client.observers.events import BrokerIsolated, BrokerReturned
from sharedroutes.registry import InvalidInput

AT_ONCE = FaultConfig(slow_start_s=0)


def _fail(memory: FaultMemory, name: str, now: float) -> None:
    memory.record(name, Result(0.0, failed=True), now)


def _succeed(memory: FaultMemory, name: str, now: float, latency_s: float = 0.001) -> None:
    memory.record(name, Result(latency_s, failed=False), now)


# --- isolation ----------------------------------------------------------------------------------------------


def test_a_good_answer_restricts_nobody() -> None:
    memory = FaultMemory()
    _succeed(memory, "a", 0.0, latency_s=0.549)
    assert memory.quiet


def test_a_failing_broker_is_left_alone_until_its_time_is_over() -> None:
    memory = FaultMemory(AT_ONCE)
    _fail(memory, "a", 100.0)
    assert memory.verdict(109.9).blocked == ("a",)
    assert not memory.quiet
    assert memory.verdict(110.0).blocked == ()
    assert memory.quiet


@pytest.mark.parametrize(
    ("first", "then", "until"),
    [
        (Result(0.0, failed=True), Result(0.001, failed=False), 10.0),
        (Result(15.0, failed=False), Result(0.55, failed=False), 30.0),
        (Result(0.55, failed=False), Result(0.0, failed=True), 11.0),
    ],
    ids=["a good answer ends none", "a shorter one cuts none", "a longer one extends it"],
)
def test_an_isolation_is_only_ever_extended(first: Result, then: Result, until: float) -> None:
    memory = FaultMemory(AT_ONCE)
    memory.record("a", first, 0.0)
    memory.record("a", then, 1.0)
    assert memory.verdict(until - 0.1).blocked == ("a",)
    assert memory.verdict(until).blocked == ()


def test_without_a_ladder_one_failure_isolates_nobody() -> None:
    memory = FaultMemory(FaultConfig(ladder=None))
    _fail(memory, "a", 0.0)
    _succeed(memory, "a", 0.0, latency_s=60.0)
    assert memory.quiet


def test_the_worst_come_first() -> None:
    memory = FaultMemory()
    memory.suspect(frozenset("xy"))
    _succeed(memory, "slow", 0.0, latency_s=1.0)
    _fail(memory, "failed", 0.0)
    memory.record("unreachable", Result(0.0, failed=True, reachable=False), 0.0)
    _succeed(memory, "slowest", 0.0, latency_s=20.0)
    assert memory.verdict(0.0).blocked == ("unreachable", "slowest", "failed", "slow", "x", "y")


def test_the_verdict_is_the_same_object_while_nothing_changes() -> None:
    memory = FaultMemory()
    _fail(memory, "a", 0.0)
    verdict = memory.verdict(1.0)
    _fail(memory, "a", 2.0)
    _succeed(memory, "b", 2.0)
    memory.states(3.0)
    assert memory.verdict(11.9) is verdict
    returning = memory.verdict(12.0)
    assert returning is not verdict
    memory.states(12.1)
    assert memory.verdict(12.4) is returning


def test_an_older_time_of_another_thread_does_not_turn_time_back() -> None:
    told: list[Event] = []
    memory = FaultMemory(tell=told.append)
    _fail(memory, "a", 0.0)
    assert memory.verdict(10.0).blocked == ()
    for late in (lambda: _succeed(memory, "b", 9.0, latency_s=1.0), lambda: memory.states(9.0)):
        late()
        assert memory.verdict(9.0).blocked == ("b",)
    memory.probed("b", reachable=True, now=9.0)
    assert [event for event in told if isinstance(event, BrokerIsolated)] == [
        BrokerIsolated("a", "failure", 10.0),
        BrokerIsolated("b", "latency", 2.0),
    ]


def test_reading_takes_no_lock_while_nothing_changes() -> None:
    memory = FaultMemory()
    _fail(memory, "a", 0.0)
    with memory._lock:
        assert memory.verdict(9.9).blocked == ("a",)
        assert not memory.quiet


@pytest.mark.parametrize("latency_s", [-0.1, float("nan"), float("inf")])
def test_a_latency_that_is_none_is_refused_and_changes_nothing(latency_s: float) -> None:
    memory = FaultMemory()
    with pytest.raises(InvalidInput, match=f"latency_s: {latency_s}"):
        _succeed(memory, "a", 0.0, latency_s=latency_s)
    assert memory.states(0.0) == {}


# --- the way back -------------------------------------------------------------------------------------------


def test_a_broker_comes_back_with_a_share_that_grows_to_all() -> None:
    memory = FaultMemory(FaultConfig(slow_start_s=10.0), tuning=Tuning(smallest_share=0.25))
    _fail(memory, "a", 0.0)
    seen = [dict(memory.verdict(10.0 + second).shares).get("a", 1.0) for second in range(12)]
    assert seen == pytest.approx([0.25, 0.25, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0])
    assert memory.quiet


def test_the_memory_is_not_quiet_during_slow_start() -> None:
    memory = FaultMemory(FaultConfig(slow_start_s=10.0))
    _fail(memory, "a", 0.0)
    assert memory.verdict(19.9).blocked == ()
    assert not memory.quiet


def test_a_failure_during_slow_start_isolates_again() -> None:
    memory = FaultMemory()
    _fail(memory, "a", 0.0)
    _fail(memory, "a", 12.0)
    verdict = memory.verdict(12.0)
    assert (verdict.blocked, dict(verdict.shares)) == (("a",), {})


# --- brokers that are started anew --------------------------------------------------------------------------


def test_a_broker_that_was_started_anew_begins_with_a_clean_slate() -> None:
    memory = FaultMemory()
    for name in ("a", "b"):
        _fail(memory, name, 0.0)
    memory.forget("a", 1.0)
    assert memory.verdict(1.0).blocked == ("b",)
    assert "a" not in memory.states(1.0)
    memory.forget("b", 1.0)
    assert memory.quiet


def test_a_result_from_before_the_restart_is_ignored() -> None:
    memory = FaultMemory()
    memory.forget("a", 1.0)
    memory.record("a", Result(1.5, failed=True, began_at=0.5), 2.0)
    assert memory.quiet
    assert memory.states(2.0) == {}


def test_restarts_from_before_the_first_result_are_remembered() -> None:
    memory = FaultMemory()
    memory.forget("a", 1.0)
    memory.suspect(frozenset("b"))
    _succeed(memory, "c", 1.0)
    memory.record("a", Result(1.0, failed=True, began_at=0.0), 1.0)
    assert "a" not in memory.states(1.0)


def test_a_result_from_after_the_restart_counts() -> None:
    memory = FaultMemory()
    memory.forget("a", 1.0)
    memory.record("a", Result(0.5, failed=True, began_at=1.0), 1.5)
    assert memory.verdict(1.5).blocked == ("a",)


def test_a_result_that_does_not_say_when_it_began_counts_after_a_restart() -> None:
    memory = FaultMemory()
    memory.forget("a", 1.0)
    memory.record("a", Result(10.0, failed=True), 1.0)
    assert memory.verdict(1.0).blocked == ("a",)


def test_the_restart_of_one_broker_does_not_hide_the_failures_of_another() -> None:
    memory = FaultMemory()
    memory.forget("a", 1.0)
    memory.record("b", Result(1.5, failed=True, began_at=0.5), 2.0)
    assert memory.verdict(2.0).blocked == ("b",)


def test_a_late_result_is_still_ignored_when_others_were_recorded_meanwhile() -> None:
    memory = FaultMemory()
    _succeed(memory, "x", 0.0)
    memory.forget("a", 1.0)
    _succeed(memory, "y", 3_600.0)  # nothing was recorded for long: what is old is dropped now
    memory.record("a", Result(3_600.0, failed=True, began_at=0.0), 3_600.0)
    assert memory.quiet


# --- suspicion of others ------------------------------------------------------------------------------------


def test_a_broker_that_others_cannot_reach_is_avoided_while_it_is_named() -> None:
    memory = FaultMemory()
    memory.suspect(frozenset("ab"))
    assert memory.verdict(0.0).blocked == ("a", "b")
    memory.suspect(frozenset("b"))
    assert memory.verdict(0.0).blocked == ("b",)
    memory.suspect(frozenset())
    assert memory.quiet


def test_a_success_of_our_own_overrules_the_others_for_as_long_as_they_insist() -> None:
    memory = FaultMemory()
    memory.suspect(frozenset("a"))
    _succeed(memory, "a", 1.0)
    assert memory.quiet
    memory.suspect(frozenset("a"))
    assert memory.quiet
    memory.suspect(frozenset())
    memory.suspect(frozenset("a"))
    assert memory.verdict(2.0).blocked == ("a",)


def test_a_failure_of_our_own_does_not_overrule_the_others() -> None:
    memory = FaultMemory()
    memory.suspect(frozenset("a"))
    _fail(memory, "a", 0.0)
    assert memory.states(100.0)["a"].reason == "suspected"
    assert memory.verdict(100.0).blocked == ("a",)


def test_a_suspected_broker_that_is_started_anew_is_suspected_no_more() -> None:
    memory = FaultMemory()
    memory.suspect(frozenset("a"))
    memory.forget("a", 0.0)
    assert memory.quiet
    memory.suspect(frozenset("a"))
    assert memory.quiet


# --- what it tells ------------------------------------------------------------------------------------------


def test_isolation_and_return_are_told_once_each() -> None:
    told: list[Event] = []
    memory = FaultMemory(tell=told.append)
    _fail(memory, "a", 0.0)
    _fail(memory, "a", 1.0)
    _succeed(memory, "a", 2.0, latency_s=20.0)
    assert told == [BrokerIsolated("a", "failure", 10.0)]
    memory.verdict(32.0)
    memory.verdict(40.0)
    assert told[1:] == [BrokerReturned("a")]


def test_a_return_that_nobody_saw_is_told_before_the_next_isolation() -> None:
    told: list[Event] = []
    memory = FaultMemory(tell=told.append)
    _fail(memory, "a", 0.0)
    _succeed(memory, "a", 50.0, latency_s=1.0)
    assert told[1:] == [BrokerReturned("a"), BrokerIsolated("a", "latency", 2.0)]


def test_a_restart_of_an_isolated_broker_is_told_as_its_return() -> None:
    told: list[Event] = []
    memory = FaultMemory(tell=told.append)
    _fail(memory, "a", 0.0)
    memory.forget("a", 1.0)
    memory.forget("a", 1.0)
    assert told[1:] == [BrokerReturned("a")]


def test_it_tells_with_no_lock_held() -> None:
    locked: list[bool] = []
    memory = FaultMemory(tell=lambda _: locked.append(memory._lock.locked()))
    _fail(memory, "a", 0.0)
    memory.verdict(10.0)
    _fail(memory, "a", 20.0)
    memory.states(30.0)
    _fail(memory, "a", 40.0)
    memory.forget("a", 41.0)
    assert locked == [False] * 6


# --- what it shows ------------------------------------------------------------------------------------------


def test_a_state_shows_why_and_for_how_long_a_broker_is_left_alone() -> None:
    memory = FaultMemory()
    _succeed(memory, "a", 0.0, latency_s=0.1)
    _fail(memory, "a", 1.0)
    state = memory.states(4.0)["a"]
    assert (state.isolated_for_s, state.reason, state.share) == (7.0, "failure", 0.0)
    assert (state.consecutive_failures, state.success_rate) == (1, 0.5)
    assert state.reachable
    assert not state.suspected


def test_a_state_of_a_healthy_broker_shows_no_restriction() -> None:
    memory = FaultMemory()
    _succeed(memory, "a", 0.0)
    state = memory.states(0.0)["a"]
    assert (state.isolated_for_s, state.reason, state.share, state.ejections) == (0.0, None, 1.0, 0)


# --- bounds -------------------------------------------------------------------------------------------------


def test_brokers_without_results_for_long_are_dropped() -> None:
    memory = FaultMemory(tuning=Tuning(drop_after_s=100.0, window_s=10.0))
    for number in range(1_000):
        _succeed(memory, f"broker-{number}", float(number))
    assert set(memory.states(1_000.0)) <= {f"broker-{number}" for number in range(870, 1_000)}


def test_an_isolated_broker_is_not_dropped() -> None:
    memory = FaultMemory(tuning=Tuning(drop_after_s=5.0, window_s=5.0))
    _fail(memory, "a", 0.0)
    for now in range(1, 10):
        _succeed(memory, f"broker-{now}", float(now))
    assert memory.verdict(9.5).blocked == ("a",)
    assert "a" in memory.states(9.5)


def test_restarts_are_not_remembered_for_ever() -> None:
    memory = FaultMemory(tuning=Tuning(drop_after_s=100.0, window_s=10.0))
    for number in range(1_000):
        memory.forget(f"broker-{number}", float(number))
        _succeed(memory, "a", float(number))
        memory.states(float(number))
    assert len(memory._restarted_at) <= 125


def test_threads_share_a_memory() -> None:
    told: list[Event] = []
    memory, names, threads = FaultMemory(tell=told.append), "abcdef", 6
    start = threading.Barrier(threads)

    def hammer(seed: int) -> float:
        rng, now = random.Random(seed), 0.0
        start.wait()
        for _ in range(1_000):
            now += rng.random()
            memory.record(rng.choice(names), Result(rng.random() * 20, failed=rng.random() < 0.5), now)
            assert set(memory.verdict(now).blocked) <= set(names)
            memory.forget(rng.choice(names), now)
            memory.suspect(frozenset(rng.choices(names, k=2)))
            memory.states(now)
        return now

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(threads) as pool:
            latest = max(pool.map(hammer, range(threads)))
    finally:
        sys.setswitchinterval(interval_s)
    memory.suspect(frozenset())
    assert memory.verdict(latest + 1_000).blocked == ()
    assert memory.quiet
    isolated = sum(isinstance(event, BrokerIsolated) for event in told)
    assert isolated == sum(isinstance(event, BrokerReturned) for event in told)
