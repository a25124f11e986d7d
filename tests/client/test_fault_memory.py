"""The latency ladder and who is left alone because of it."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sharedroutes.client import Ladder
from sharedroutes.client.faults import LADDER, FaultMemory
from sharedroutes.registry import InvalidInput

# (milliseconds, seconds of isolation): RocketMQ 5.1.4 and later, on both sides of every step.
STEPS = [
    (0, 0),
    (49, 0),
    (50, 0),
    (99, 0),
    (100, 0),
    (549, 0),
    (550, 2),
    (1_799, 2),
    (1_800, 5),
    (2_999, 5),
    (3_000, 6),
    (4_999, 6),
    (5_000, 10),
    (14_999, 10),
    (15_000, 30),
    (3_600_000, 30),
]
FAILURE_S = 10


@pytest.mark.parametrize(("latency_ms", "isolation_s"), STEPS)
def test_the_ladder_is_rocketmqs(latency_ms: int, isolation_s: int) -> None:
    assert LADDER.isolation_s(latency_ms / 1000, failed=False) == isolation_s


@pytest.mark.parametrize("latency_ms", [0, 50, 3_000, 60_000])
def test_a_failure_counts_the_same_however_quickly_it_came(latency_ms: int) -> None:
    assert LADDER.isolation_s(latency_ms / 1000, failed=True) == FAILURE_S


def test_a_ladder_of_ones_own_is_used() -> None:
    ladder = Ladder(latency_ms=(10,), isolation_ms=(700,), failure_latency_ms=5)
    assert ladder.isolation_s(0.010, failed=False) == 0.7
    assert ladder.isolation_s(0.009, failed=False) == 0
    assert ladder.isolation_s(1, failed=True) == 0


@pytest.mark.parametrize(
    ("latency_ms", "isolation_ms"),
    [((), ()), ((1, 2), (0,)), ((2, 1), (0, 0)), ((1, 2), (0, -1))],
    ids=["empty", "lengths differ", "not ascending", "negative"],
)
def test_a_ladder_that_makes_no_sense_is_refused(
    latency_ms: tuple[int, ...], isolation_ms: tuple[int, ...]
) -> None:
    with pytest.raises(InvalidInput, match="ladder"):
        Ladder(latency_ms=latency_ms, isolation_ms=isolation_ms)


def test_a_failing_broker_is_left_alone_until_its_time_is_over() -> None:
    memory = FaultMemory()
    memory.record("a", 0.0, failed=True, now=100.0)
    assert memory.blocked(109.9) == {"a"}
    assert memory.blocked(110.0) == frozenset()
    assert memory.quiet


def test_a_good_answer_does_not_end_an_isolation() -> None:
    memory = FaultMemory()
    memory.record("a", 0.0, failed=True, now=0.0)
    memory.record("a", 0.001, failed=False, now=1.0)
    assert memory.blocked(9.0) == {"a"}


def test_a_shorter_isolation_does_not_cut_a_longer_one() -> None:
    memory = FaultMemory()
    memory.record("a", 15.0, failed=False, now=0.0)
    memory.record("a", 0.55, failed=False, now=1.0)
    assert memory.blocked(29.9) == {"a"}


def test_a_longer_isolation_extends_a_shorter_one() -> None:
    memory = FaultMemory()
    memory.record("a", 0.55, failed=False, now=0.0)
    memory.record("a", 0.0, failed=True, now=1.0)
    assert memory.blocked(10.9) == {"a"}


def test_a_broker_that_was_started_anew_begins_with_a_clean_slate() -> None:
    memory = FaultMemory()
    for name in ("a", "b"):
        memory.record(name, 0.0, failed=True, now=0.0)
    memory.forget("a")
    assert memory.blocked(1.0) == {"b"}
    memory.forget("b")
    assert memory.quiet


def test_the_blocked_set_is_the_same_object_while_nothing_changes() -> None:
    memory = FaultMemory()
    memory.record("a", 0.0, failed=True, now=0.0)
    assert memory.blocked(1.0) is memory.blocked(9.0)


class FaultMemoryAgainstModel(RuleBasedStateMachine):
    """Any outcomes at any time: those are blocked whose longest isolation has not ended."""

    names = st.sampled_from("abc")

    def __init__(self) -> None:
        super().__init__()
        self.memory = FaultMemory()
        self.now = 0.0
        self.until: dict[str, float] = {}

    @rule(name=names, step=st.sampled_from(STEPS))
    def answers(self, name: str, step: tuple[int, int]) -> None:
        latency_ms, isolation_s = step
        self.memory.record(name, latency_ms / 1000, failed=False, now=self.now)
        self.until[name] = max(self.until.get(name, 0.0), self.now + isolation_s)

    @rule(name=names)
    def fails(self, name: str) -> None:
        self.memory.record(name, 0.0, failed=True, now=self.now)
        self.until[name] = max(self.until.get(name, 0.0), self.now + FAILURE_S)

    @rule(name=names)
    def is_started_anew(self, name: str) -> None:
        self.memory.forget(name)
        self.until.pop(name, None)

    @rule(seconds=st.sampled_from([0.001, 1.0, 1.999, 4.0, 9.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def somebody_chooses(self) -> None:
        blocked = self.memory.blocked(self.now)
        assert blocked == {name for name, end in self.until.items() if end > self.now}
        assert self.memory.quiet == (not blocked)

    @invariant()
    def quiet_means_nobody(self) -> None:
        assert not self.memory.quiet or all(end <= self.now for end in self.until.values())


TestFaultMemoryAgainstModel = FaultMemoryAgainstModel.TestCase
TestFaultMemoryAgainstModel.settings = settings(max_examples=100, stateful_step_count=30)


def test_threads_share_a_memory() -> None:
    memory, names, threads = FaultMemory(), "abcdef", 6
    start = threading.Barrier(threads)

    def hammer(seed: int) -> float:
        rng, now = random.Random(seed), 0.0
        start.wait()
        for _ in range(2_000):
            now += rng.random()
            memory.record(rng.choice(names), rng.random() * 20, failed=rng.random() < 0.5, now=now)
            assert memory.blocked(now) <= set(names)
            memory.forget(rng.choice(names))
        return now

    with ThreadPoolExecutor(threads) as pool:
        latest = max(pool.map(hammer, range(threads)))
    assert memory.blocked(latest + 31) == frozenset()
    assert memory.quiet
