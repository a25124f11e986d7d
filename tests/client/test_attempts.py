"""Trying an operation on one broker after another; every case for threads and for asyncio."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from sharedroutes.client import AttemptsFailed, NoRoute, RetryPolicy
from sharedroutes.client.attempts.log import Pick
from sharedroutes.registry import InvalidInput, StoreUnavailable
from tests.client.attempting import QUEUES, RESET, Bench, script

SUCCESSES: Final[dict[str, tuple[tuple[object, ...], list[tuple[str, bool]]]]] = {
    "at once": (("done",), [("a", False)]),
    "after a refused connection": ((ConnectionRefusedError(), "done"), [("a", True), ("b", False)]),
    "after a broken answer": ((EOFError(), "done"), [("a", True), ("b", False)]),
    "after a timeout": ((TimeoutError(), "done"), [("a", True), ("b", False)]),
    "at the last attempt": ((RESET, OSError(), "done"), [("a", True), ("b", True), ("c", False)]),
    "with a false value": ((None,), [("a", False)]),
}


@pytest.mark.parametrize("case", SUCCESSES)
async def test_the_first_success_is_the_result(bench: Bench, case: str) -> None:
    outcomes, recorded = SUCCESSES[case]
    assert await bench.run(script(*outcomes)) == outcomes[-1]
    assert bench.recorded == recorded
    assert bench.numbers == list(range(1, len(outcomes) + 1))
    assert all(result.latency_s >= 0 for _, result in bench.records)


async def test_brokers_that_failed_are_avoided_by_the_next_attempts(bench: Bench) -> None:
    await bench.run(script(RESET, RESET, "done"))
    assert bench.avoided == [frozenset(), {"a"}, {"a", "b"}]


async def test_when_all_fail_every_cause_is_told(bench: Bench) -> None:
    errors = (ConnectionRefusedError("one"), TimeoutError("two"), EOFError("three"))
    with pytest.raises(AttemptsFailed, match="2 retries") as failed:
        await bench.run(script(*errors))
    assert failed.value.__cause__ is errors[-1]
    assert failed.value.topic == "t"
    assert tuple(failure.cause for failure in failed.value.failures) == errors
    assert [
        (failure.number, failure.broker_name, failure.queue_id, failure.address)
        for failure in failed.value.failures
    ] == [(n, queue.broker_name, 0, queue.address) for n, queue in enumerate(QUEUES[:3], start=1)]
    assert all(failure.latency_s >= 0 for failure in failed.value.failures)
    assert 0 == failed.value.failures[0].began_s <= failed.value.failures[1].began_s
    for told in ("one", "two", "three", *(queue.address for queue in QUEUES[:3])):
        assert told in str(failed.value)
    assert bench.recorded == [("a", True), ("b", True), ("c", True)]


async def test_no_attempt_begins_after_the_deadline(bench: Bench) -> None:
    with pytest.raises(AttemptsFailed, match="deadline of 1e-09 s") as failed:
        await bench.run(script(RESET), deadline_s=1e-9)
    assert len(failed.value.failures) == 1


async def test_an_attempt_that_succeeds_after_the_deadline_counts(bench: Bench) -> None:
    assert await bench.run(script("done"), deadline_s=1e-9) == "done"


async def test_without_a_deadline_the_retries_decide(bench: Bench) -> None:
    assert await bench.run(script(RESET, RESET, RESET, "done"), retries=3, deadline_s=None) == "done"


@pytest.mark.parametrize(
    "error",
    [
        *(KeyError("x"), ValueError("y"), NoRoute("t", "nobody holds")),
        *(FileNotFoundError("payload"), StoreUnavailable("away")),  # OSErrors too
    ],
    ids=repr,
)
async def test_an_error_that_is_not_the_brokers_passes_and_isolates_nobody(
    bench: Bench, error: Exception
) -> None:
    with pytest.raises(type(error)) as raised:
        await bench.run(script(error))
    assert raised.value is error
    assert bench.recorded == [("a", False)]


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(), GeneratorExit()], ids=repr
)
async def test_what_ends_the_caller_passes_and_says_nothing_of_the_broker(
    bench: Bench, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        await bench.run(script(error))
    assert raised.value is error
    assert bench.recorded == []


async def test_the_policy_says_which_errors_are_the_brokers(bench: Bench) -> None:
    assert await bench.run(script(KeyError("x"), "done"), retry_on=(KeyError,)) == "done"
    with pytest.raises(ConnectionResetError):
        await bench.run(script(RESET), retry_on=(KeyError,))
    assert bench.recorded == [("a", True), ("b", False), ("a", False)]


def test_attempts_whose_caller_was_ended_are_over() -> None:
    tries = Bench().attempts()
    with pytest.raises(KeyboardInterrupt), next(tries):
        raise KeyboardInterrupt
    assert list(tries) == []


async def test_when_all_have_failed_the_one_before_the_last_is_tried(bench: Bench) -> None:
    bench.queues = QUEUES[1::-1]
    assert await bench.run(script(RESET, RESET, RESET, "done"), retries=3, pause_s=0.0) == "done"
    assert [name for name, _ in bench.recorded] == ["b", "a", "b", "a"]


async def test_no_queue_to_try_passes_and_records_nothing(bench: Bench) -> None:
    def nobody(until: float) -> Pick:
        raise NoRoute("t", "nobody holds")

    bench.select = nobody  # type: ignore[method-assign]  # without brokers
    with pytest.raises(NoRoute):
        await bench.run(script("never reached"))
    assert bench.recorded == []


async def enter_none(bench: Bench) -> None:
    if bench.in_tasks:
        async for _ in bench.async_attempts():
            pass
    else:
        for _ in bench.attempts():
            pass


async def test_an_attempt_that_is_passed_over_is_an_error(bench: Bench) -> None:
    with pytest.raises(RuntimeError, match="with attempt as queue"):
        await enter_none(bench)
    assert bench.recorded == []


async def test_a_block_that_ends_without_an_error_ends_the_loop(bench: Bench) -> None:
    rounds = 0
    if bench.in_tasks:
        async for attempt in bench.async_attempts():
            rounds += 1
            async with attempt:
                continue
    else:
        for blocking_attempt in bench.attempts():
            rounds += 1
            with blocking_attempt:
                continue
    assert rounds == 1
    assert bench.recorded == [("a", False)]


async def test_a_break_inside_the_block_is_a_success(bench: Bench) -> None:
    if bench.in_tasks:
        async for attempt in bench.async_attempts():
            async with attempt:
                break
    else:
        for blocking_attempt in bench.attempts():
            with blocking_attempt:
                break
    assert bench.recorded == [("a", False)]


def test_attempts_that_are_over_stay_over() -> None:
    tries = Bench().attempts()
    with next(tries):
        pass
    assert list(tries) == list(tries) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retries", -1),
        ("retries", 0.5),
        ("deadline_s", 0.0),
        ("deadline_s", -1.0),
        ("deadline_s", float("nan")),
        ("attempt_timeout_s", 0.0),
        ("pause_s", -0.1),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_by_name(name: str, value: float) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=name):
        RetryPolicy(**settings)


async def test_a_policy_that_names_such_an_error_wins(bench: Bench) -> None:
    errors = script(*[FileNotFoundError("payload")] * 2)
    with pytest.raises(AttemptsFailed):
        await bench.run(errors, retries=1, retry_on=(FileNotFoundError,))
    assert bench.recorded == [("a", True), ("b", True)]
