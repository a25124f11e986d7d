"""Rules that hold however the outcomes fall: when attempts begin, how many there are, and with whom."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hypothesis import event, given
from hypothesis import strategies as st

from sharedroutes.client import AttemptsFailed, RetryPolicy
from sharedroutes.client.attempts.log import AttemptLog
from sharedroutes.client.faults.config import FaultConfig
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.client.selection import PublishView, RoundRobin
from sharedroutes.registry import MessageQueue
from sharedroutes.registry.model import BrokerData, QueueData, TopicRoute
from tests.client.attempting import RESET, Bench

START: Final = 50.0
SECONDS = st.floats(0.0, 4.0, allow_nan=False)
SOME_BROKERS = st.sets(st.sampled_from("abcde"))
BROKERS = st.sets(st.sampled_from("abcde"), min_size=1)


@dataclass(frozen=True)
class Step:
    """What happens to one attempt: how long the choice and the block take, how it ends, who is isolated."""

    choice_s: float
    block_s: float
    error: Exception | None
    isolated: set[str]
    turn: int


STEPS = st.lists(
    st.builds(
        Step,
        choice_s=SECONDS,
        block_s=SECONDS,
        error=st.sampled_from([RESET, RESET, RESET, RESET, None, KeyError("x")]),
        isolated=SOME_BROKERS,
        turn=st.integers(0, 100),
    ),
    min_size=1,
    max_size=12,
)
POLICIES = st.builds(
    RetryPolicy,
    retries=st.integers(0, 10),
    deadline_s=st.none() | st.floats(0.1, 20.0),
    attempt_timeout_s=st.none() | st.floats(0.1, 5.0),
    pause_s=st.floats(0.0, 1.0),
)


class Route:
    """Queues of some brokers, chosen from in RocketMQ's order: MQFaultStrategy.selectOneMessageQueue."""

    def __init__(self, names: set[str]) -> None:
        self.queues = [MessageQueue("t", name, 0, f"{name}:1") for name in sorted(names)]
        self.isolated: set[str] = set()
        self.turn = 0

    def pick(self, avoid: frozenset[str]) -> MessageQueue:
        for unwanted in (self.isolated | avoid, avoid, set()):
            wanted = [queue for queue in self.queues if queue.broker_name not in unwanted]
            if wanted:
                return wanted[self.turn % len(wanted)]
        raise AssertionError("a route without queues")


class Faults:
    """The fault memory and the view of a route as the client uses them, at times that the test says."""

    def __init__(self, names: set[str], config: FaultConfig) -> None:
        datas = tuple(QueueData(name, 2, 2, 6) for name in sorted(names))
        brokers = tuple(BrokerData("c", name, {0: f"{name}:1"}) for name in sorted(names))
        self.view = PublishView(
            TopicRoute("t", datas, brokers), RoundRobin(), itertools.count(), max_isolated_share=0.5
        )
        self.rng = random.Random(1)
        self.memory = FaultMemory(config, self.rng)
        self.now = START

    def pick(self, avoid: frozenset[str]) -> MessageQueue:
        return self.view.pick(self.memory.verdict(self.now), avoid, self.rng)


@dataclass
class Run:
    """The attempts at one operation: with whom and when they began, and when the last one ended."""

    begun: list[tuple[str, float]]
    ended: float
    failed: AttemptsFailed | None = None


def run(log: AttemptLog, steps: list[Step], choose_at: Callable[[Step, float], MessageQueue]) -> Run:
    done = Run([], START)
    try:
        for step in itertools.takewhile(lambda _: not log.over, steps):
            queue = choose_at(step, done.ended)
            now = done.ended + step.choice_s
            now += log.pause_s(queue, now)
            attempt = log.begin(queue, now)
            done.begun.append((queue.broker_name, now))
            timeout_s = attempt.timeout_s(now)
            done.ended = now + (step.block_s if timeout_s is None else min(step.block_s, timeout_s))
            log.leave(attempt, step.error, done.ended)
    except AttemptsFailed as failed:
        done.failed = failed
    return done


def check(done: Run, names: set[str], policy: RetryPolicy) -> None:
    event("gave up" if done.failed else "went on")
    tried = [name for name, _ in done.begun]
    assert 1 <= len(tried) <= policy.retries + 1
    if policy.deadline_s is not None:
        end = max(START + policy.deadline_s, done.begun[0][1])  # the first one is made however late it is
        assert all(at < end for _, at in done.begun[1:])
        assert done.ended <= end + 0.001  # the least timeout there is
    if len(names) > 1:
        assert all(one != after for one, after in itertools.pairwise(tried))
    assert len(set(tried)) == min(len(tried), len(names))  # nobody again before everybody had a turn
    if done.failed:
        assert [one.broker_name for one in done.failed.failures] == tried


@given(names=BROKERS, policy=POLICIES, steps=STEPS)
def test_the_rules_of_attempts(names: set[str], policy: RetryPolicy, steps: list[Step]) -> None:
    bench, route = Bench(), Route(names)
    log = bench.log(policy)

    def choose_at(step: Step, now: float) -> MessageQueue:
        route.isolated, route.turn = step.isolated, step.turn
        log.until(now)
        return log.choose(route.pick)

    done = run(log, steps, choose_at)
    check(done, names, policy)
    assert [name for name, _ in bench.records] == [name for name, _ in done.begun]


@given(
    names=BROKERS,
    policy=POLICIES,
    operations=st.lists(STEPS, min_size=1, max_size=6),
    config=st.builds(FaultConfig, detect=st.booleans(), consecutive_failures=st.integers(0, 3)),
)
def test_the_rules_of_attempts_with_a_memory_of_faults(
    names: set[str], policy: RetryPolicy, operations: list[list[Step]], config: FaultConfig
) -> None:
    faults = Faults(names, config)
    for steps in operations:
        log = AttemptLog("t", policy, faults.memory.record)

        def choose_at(step: Step, now: float, log: AttemptLog = log) -> MessageQueue:
            faults.now = max(faults.now, now)
            if step.turn % 10 == 0:
                faults.memory.forget(min(names), now)  # started anew
            log.until(now)
            return log.choose(faults.pick)

        check(run(log, steps, choose_at), names, policy)
