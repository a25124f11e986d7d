"""Answers of brokers that have a message less safely than they should: no blame, and another is tried."""

from __future__ import annotations

from typing import Any, Final

import pytest

from sharedroutes.client import (
    NOT_STORED_CODES,
    ROCKETMQ_POLICY,
    AttemptsFailed,
    BrokerRefused,
    FaultConfig,
    NotStored,
    RetryPolicy,
)
from sharedroutes.client.attempts.log import Answer, AttemptLog
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.client.observers.events import AttemptEnded
from tests.client.attempting import QUEUES, RESET, Bench, failed, not_stored

GOOD: Final = "SEND_OK"
NOT: Final = ("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")
ILLEGAL: Final = BrokerRefused(13)


async def run(bench: Bench, *outcomes: object, policy: RetryPolicy | None = None) -> tuple[list[str], Any]:
    """Return who was tried and what the attempts hold in the end."""
    left, tried = iter(outcomes), []

    def operation(attempt: Any, queue: Any) -> None:
        tried.append(queue.broker_name)
        outcome = next(left)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome != GOOD:
            attempt.not_stored(outcome)

    if bench.in_tasks:
        later = bench.async_attempts(policy)
        async for async_attempt in later:
            async with async_attempt as queue:
                operation(async_attempt, queue)
        return tried, later.answer
    attempts = bench.attempts(policy)
    for attempt in attempts:
        with attempt as queue:
            operation(attempt, queue)
    return tried, attempts.answer


WELL: Final = False
FAILED: Final = True
RUNS: Final[dict[str, tuple[tuple[object, ...], RetryPolicy | None, list[bool], object]]] = {
    "another broker stores it": ((NOT[0], GOOD), None, [WELL, WELL], None),
    "nobody stores it, and the last answer stands": (NOT, None, [WELL] * 3, NOT[2]),
    "an answer stands though later brokers fail": (
        *((NOT[0], RESET, RESET), None),
        *([WELL, FAILED, FAILED], NOT[0]),
    ),
    "an answer stands though a later broker refuses": ((NOT[0], ILLEGAL), None, [WELL, WELL], NOT[0]),
    "a success after an answer and failures": ((RESET, NOT[0], GOOD), None, [FAILED, WELL, WELL], None),
    "an answer may be anything, even None": ((None, RESET, RESET), None, [WELL, FAILED, FAILED], None),
    "by RocketMQ's policy, the first answer": ((NOT[0],), ROCKETMQ_POLICY, [WELL], NOT[0]),
    "nobody is tried after the deadline": ((NOT[0],), RetryPolicy(deadline_s=1e-9), [WELL], NOT[0]),
}
"""Outcomes and policy; whether each broker that was tried is to blame, and the answer in the end."""


@pytest.mark.parametrize("case", RUNS)
async def test_another_broker_is_tried_without_blame_and_the_last_answer_stands(
    bench: Bench, case: str
) -> None:
    outcomes, policy, blamed, answer = RUNS[case]
    assert await run(bench, *outcomes, policy=policy) == ([*"abc"][: len(blamed)], answer)
    assert bench.recorded == list(zip("abc", blamed, strict=False))


async def test_an_error_of_the_callers_passes_though_there_is_an_answer(bench: Bench) -> None:
    with pytest.raises(KeyError):
        await run(bench, NOT[0], KeyError("x"))


def test_an_error_in_the_block_is_worth_more_than_the_answer_before_it() -> None:
    bench = Bench()
    attempts = bench.attempts(RetryPolicy(retries=0))

    def send() -> None:
        for attempt in attempts:
            with attempt:
                attempt.not_stored(NOT[0])
                raise RESET

    with pytest.raises(AttemptsFailed):
        send()
    assert attempts.answer is None
    assert bench.recorded == [("a", True)]


async def test_the_only_broker_is_asked_again_and_the_answer_stands(bench: Bench) -> None:
    bench.queues = QUEUES[:1]
    assert await run(bench, *NOT, policy=RetryPolicy(pause_s=0.0)) == (["a"] * 3, NOT[2])


def test_it_cannot_be_said_before_the_block() -> None:
    for attempt in Bench().attempts():
        with pytest.raises(RuntimeError, match="has not begun"):
            attempt.not_stored(NOT[0])
        with attempt:
            pass


def test_time_that_runs_out_between_two_attempts_ends_the_loop() -> None:
    log = Bench().log(RetryPolicy(deadline_s=3.0))
    assert log.next(0.0)
    log.enter()
    assert log.leave(log.begin(QUEUES[0], 0.0), None, 1.0, answer=Answer(NOT[0]))
    assert not log.next(3.0)
    assert log.over


def test_a_pause_beyond_the_deadline_is_left_out_when_there_is_an_answer() -> None:
    log = Bench().log(RetryPolicy(deadline_s=3.0, pause_s=2.0))
    assert log.leave(log.begin(QUEUES[0], 0.0), None, 2.5, answer=Answer(NOT[0]))
    assert log.pause_s(QUEUES[0], 2.5) == 0.0


def test_it_is_told_as_no_success_and_no_fault_of_the_broker() -> None:
    bench = Bench()
    log = bench.log()
    log.leave(log.begin(QUEUES[0], 0.0), None, 0.5, answer=Answer(NOT[0]))
    assert bench.events == [AttemptEnded("t", "a", 0.5, "error")]


def test_the_fault_memory_takes_it_for_a_good_answer() -> None:
    memory = FaultMemory(FaultConfig(consecutive_failures=1))
    log = AttemptLog("t", RetryPolicy(), memory.record)
    assert log.leave(log.begin(QUEUES[0], 0.0), None, 0.01, answer=Answer(NOT[0]))
    assert memory.quiet
    assert memory.states(0.01)["a"].consecutive_failures == 0


def test_the_codes_are_those_that_rocketmqs_client_does_not_raise() -> None:
    assert {10, 11, 12} == NOT_STORED_CODES


# ---- by callbacks


async def test_a_callback_is_led_to_another_broker(bench: Bench) -> None:
    one = await bench.first()
    two = await not_stored(one, NOT[0])
    assert (two.queue.broker_name, two.number) == ("b", 2)
    assert await not_stored(one, NOT[0]) is None  # it was told before
    assert not one.succeeded()
    assert two.succeeded()
    assert bench.recorded == [("a", False), ("b", False)]


async def test_the_last_callback_gets_the_last_answer(bench: Bench) -> None:
    two = await not_stored(await bench.first(RetryPolicy(retries=1)), NOT[0])
    with pytest.raises(NotStored, match="FLUSH_SLAVE_TIMEOUT") as end:
        await not_stored(two, NOT[1])
    assert (end.value.topic, end.value.answer) == ("t", NOT[1])
    assert await not_stored(two, NOT[1]) is None  # once


@pytest.mark.parametrize("error", [RESET, ILLEGAL], ids=repr)
async def test_a_callback_that_failed_last_gets_the_answer_of_an_earlier_one(
    bench: Bench, error: Exception
) -> None:
    two = await not_stored(await bench.first(RetryPolicy(retries=1)), NOT[0])
    with pytest.raises(NotStored) as end:
        await failed(two, error)
    assert end.value.answer == NOT[0]


async def test_by_rocketmqs_policy_a_callback_gets_its_answer_back(bench: Bench) -> None:
    with pytest.raises(NotStored) as end:
        await not_stored(await bench.first(ROCKETMQ_POLICY), NOT[0])
    assert end.value.answer == NOT[0]
    assert bench.recorded == [("a", False)]
