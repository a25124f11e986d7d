"""Ejection: brokers that fail too often are left alone for longer and longer."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from sharedroutes.client.faults.broker import Result, Results
from sharedroutes.client.faults.config import FaultConfig, Tuning
from sharedroutes.client.faults.memory import FaultMemory

TIMES = FaultConfig(base_isolation_s=30, max_isolation_s=300, slow_start_s=0)
BY_COUNT = replace(TIMES, ladder=None, consecutive_failures=3, min_success_rate=0)
BY_RATE = replace(BY_COUNT, consecutive_failures=0, min_success_rate=0.5)
STEADY = Tuning(jitter_share=0.0, min_results=10)


def _memory(config: FaultConfig) -> FaultMemory:
    return FaultMemory(config, tuning=STEADY)


def _fail(memory: FaultMemory, now: float, times: int = 1) -> None:
    for _ in range(times):
        memory.record("a", Result(0.0, failed=True), now)


def _succeed(memory: FaultMemory, now: float, times: int = 1) -> None:
    for _ in range(times):
        memory.record("a", Result(0.01, failed=False), now)


def _isolated_for_s(memory: FaultMemory, now: float) -> float:
    return memory.states(now)["a"].isolated_for_s


def test_failures_in_a_row_eject_a_broker() -> None:
    memory = _memory(BY_COUNT)
    _fail(memory, 0.0, times=2)
    assert memory.quiet
    _fail(memory, 0.0)
    assert memory.verdict(29.9).blocked == ("a",)
    assert memory.states(29.9)["a"].reason == "consecutive"
    assert memory.verdict(30.0).blocked == ()


def test_a_success_in_between_begins_the_count_anew() -> None:
    memory = _memory(BY_COUNT)
    for _ in range(5):
        _fail(memory, 0.0, times=2)
        _succeed(memory, 0.0)
    assert memory.quiet


def test_a_broker_that_fails_at_once_on_its_return_is_ejected_for_longer() -> None:
    memory = _memory(BY_COUNT)
    _fail(memory, 0.0, times=3)
    _fail(memory, 30.0)
    assert _isolated_for_s(memory, 30.0) == 60.0
    _fail(memory, 90.0)
    assert _isolated_for_s(memory, 90.0) == 90.0


def test_failures_of_an_ejected_broker_do_not_lengthen_its_ejection() -> None:
    memory = _memory(BY_COUNT)
    _fail(memory, 0.0, times=100)
    assert _isolated_for_s(memory, 0.0) == 30.0
    assert memory.states(0.0)["a"].ejections == 1


def test_an_ejection_has_a_longest_time() -> None:
    memory, now = _memory(BY_COUNT), 0.0
    _fail(memory, now, times=3)
    for _ in range(20):
        now += _isolated_for_s(memory, now)
        _fail(memory, now)
    assert _isolated_for_s(memory, now) == 300.0


def test_each_healthy_period_makes_up_for_one_ejection() -> None:
    memory = _memory(BY_COUNT)
    _fail(memory, 0.0, times=3)
    _fail(memory, 30.0)  # the second ejection, until 90
    seen = [memory.states(now)["a"].ejections for now in (90.0, 119.0, 120.0, 149.0, 150.0, 999.0)]
    assert seen == [2, 2, 1, 1, 0, 0]


def test_what_was_made_up_for_is_not_counted_by_the_next_ejection() -> None:
    memory = _memory(BY_COUNT)
    _fail(memory, 0.0, times=3)
    _fail(memory, 30.0)  # until 90
    _fail(memory, 120.0)  # one made up for: the second again
    assert _isolated_for_s(memory, 120.0) == 60.0


def test_the_time_of_an_isolation_by_the_ladder_is_not_healthy() -> None:
    memory = _memory(replace(TIMES, consecutive_failures=3))
    _fail(memory, 0.0, times=3)  # until 30
    memory.record("a", Result(20.0, failed=False), 40.0)  # 30 s for a slow answer, until 70
    assert [memory.states(now)["a"].ejections for now in (69.0, 99.0, 100.0)] == [1, 1, 0]


def test_ejections_that_were_made_up_for_do_not_return_with_the_next_isolation() -> None:
    for config in (replace(TIMES, detect=True, ladder=None), TIMES):
        memory = _memory(config)
        _fail(memory, 0.0, times=5)
        memory.record("a", Result(0.0, failed=False), 1.0)
        assert memory.states(61.0)["a"].ejections == 0
        _fail(memory, 61.0)
        assert memory.states(62.0)["a"].ejections == 0


def test_too_low_a_success_rate_ejects_a_broker() -> None:
    memory = _memory(BY_RATE)
    _succeed(memory, 0.0, times=5)
    _fail(memory, 0.0, times=5)
    assert memory.quiet
    _fail(memory, 0.0)
    assert memory.verdict(0.0).blocked == ("a",)
    assert memory.states(0.0)["a"].reason == "success-rate"


def test_too_few_results_say_nothing() -> None:
    memory = _memory(BY_RATE)
    _fail(memory, 0.0, times=9)
    assert memory.quiet


def test_results_that_left_the_window_do_not_count() -> None:
    memory = _memory(BY_RATE)
    _fail(memory, 0.0, times=9)
    _fail(memory, 30.0, times=9)
    assert memory.quiet


def test_after_an_ejection_the_rate_is_of_new_results() -> None:
    memory = _memory(replace(BY_RATE, base_isolation_s=5))
    _fail(memory, 0.0, times=10)
    _fail(memory, 5.0, times=9)
    assert memory.verdict(5.0).blocked == ()
    _fail(memory, 5.0)
    assert memory.verdict(5.0).blocked == ("a",)


def test_ejection_can_be_turned_off() -> None:
    memory = _memory(replace(BY_COUNT, consecutive_failures=0))
    _fail(memory, 0.0, times=1_000)
    assert memory.quiet


@given(
    steps=st.lists(st.tuples(st.floats(0, 60), st.booleans(), st.floats(0, 30)), max_size=60),
    jitter_share=st.floats(0, 1),
    detect=st.booleans(),
    seed=st.integers(0, 100),
)
def test_no_isolation_is_longer_than_the_longest_with_its_jitter(
    *, steps: list[tuple[float, bool, float]], jitter_share: float, detect: bool, seed: int
) -> None:
    config = FaultConfig(consecutive_failures=2, base_isolation_s=10, max_isolation_s=40, detect=detect)
    tuning = Tuning(min_results=4, jitter_share=jitter_share)
    memory, now = FaultMemory(config, random.Random(seed), tuning=tuning), 0.0
    for pause_s, failed, latency_s in steps:
        now += pause_s
        memory.record("a", Result(latency_s, failed=failed), now)
        assert _isolated_for_s(memory, now) <= 40 * (1 + jitter_share) + 1e-6
    verdict = memory.verdict(now + 40 * (1 + jitter_share) + config.slow_start_s + 0.001)
    assert (verdict.blocked, dict(verdict.shares), memory.quiet) == ((), {}, True)


def test_two_clients_do_not_end_an_ejection_at_the_same_time() -> None:
    ends = []
    for seed in range(2):
        memory = FaultMemory(BY_COUNT, random.Random(seed))
        _fail(memory, 0.0, times=3)
        ends.append(_isolated_for_s(memory, 0.0))
    assert ends[0] != ends[1]
    assert all(30 <= end <= 36 for end in ends)


# --- the window of results ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=40), st.integers(0, 30))
@example([(0, True), (2, False)], 0)
@example([(0, True), (2, False)], 10)
def test_the_window_holds_the_results_of_its_five_parts(steps: list[tuple[int, bool]], later: int) -> None:
    results = Results(10.0)
    steps = sorted(steps)
    for now, failed in steps:
        results.record(float(now), failed=failed)
    end = (steps[-1][0] if steps else 0) + later
    within = [failed for now, failed in steps if now // 2 > end // 2 - 5]
    assert results.counts(float(end)) == (within.count(False), within.count(True))
    results.clear()
    assert results.counts(float(end)) == (0, 0)
