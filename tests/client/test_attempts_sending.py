"""Attempts whose end a callback tells: late, twice, from many threads; every case for asyncio, too."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sharedroutes.client import AttemptsFailed, RetryPolicy
from sharedroutes.client.attempts.attempt import Sending
from tests.client.attempting import QUEUES, RESET, Bench, failed

THREADS = 8


async def test_a_success_that_is_told_later_counts(bench: Bench) -> None:
    send = await bench.first()
    assert (send.queue, send.number) == (QUEUES[0], 1)
    assert send.timeout_s is not None
    assert 0 < send.timeout_s <= 3.0
    assert send.succeeded()
    assert bench.recorded == [("a", False)]


async def test_a_failure_that_is_told_later_leads_to_another_broker(bench: Bench) -> None:
    again = await failed(await bench.first(), RESET)
    assert (again.queue.broker_name, again.number) == ("b", 2)
    assert again.succeeded()
    assert bench.recorded == [("a", True), ("b", False)]


async def test_when_all_fail_the_last_callback_hears_of_all(bench: Bench) -> None:
    send = await failed(await bench.first(RetryPolicy(retries=1)), RESET)
    with pytest.raises(AttemptsFailed) as end:
        await failed(send, TimeoutError("late"))
    assert [failure.broker_name for failure in end.value.failures] == ["a", "b"]


async def test_an_error_that_is_not_the_brokers_is_raised_again(bench: Bench) -> None:
    error = KeyError("x")
    with pytest.raises(KeyError) as raised:
        await failed(await bench.first(), error)
    assert raised.value is error
    assert bench.recorded == [("a", False)]


async def test_a_callback_that_is_told_of_the_callers_end_passes_it_on(bench: Bench) -> None:
    with pytest.raises(asyncio.CancelledError):
        await failed(await bench.first(), asyncio.CancelledError())
    assert bench.recorded == []


async def test_an_answer_after_the_failure_of_its_attempt_is_not_counted(bench: Bench) -> None:
    first = await bench.first()
    second = await failed(first, TimeoutError())
    assert not first.succeeded()
    assert await failed(first, RESET) is None
    assert second.succeeded()
    assert not second.succeeded()
    assert bench.recorded == [("a", True), ("b", False)]


async def test_the_only_broker_is_tried_again_at_once(bench: Bench) -> None:  # a callback must not wait
    bench.queues = QUEUES[:1]
    again = await failed(await bench.first(RetryPolicy(pause_s=3_600.0)), RESET)
    assert again.queue == QUEUES[0]


async def test_no_attempt_begins_after_the_deadline(bench: Bench) -> None:
    with pytest.raises(AttemptsFailed, match="deadline"):
        await failed(await bench.first(RetryPolicy(deadline_s=1e-9)), RESET)


def test_of_many_threads_that_tell_the_end_one_is_heard() -> None:
    bench, together = Bench(), threading.Barrier(THREADS)

    def tell(send: Sending, number: int) -> bool:
        together.wait()
        return send.succeeded() if number % 2 else send.failed(RESET) is not None

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(50):
            send = Sending.begin(bench.log(), bench.select)
            heard = list(pool.map(tell, [send] * THREADS, range(THREADS)))
            assert heard.count(True) == 1
    assert len(bench.records) == 50
