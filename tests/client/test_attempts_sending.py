"""Attempts whose end a callback tells: late, twice, from many threads."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sharedroutes.client import AttemptsFailed, RetryPolicy
from sharedroutes.client.attempts.attempt import AsyncSending, Sending
from tests.client.attempting import QUEUES, RESET, Bench

THREADS = 8


@pytest.fixture
def bench() -> Bench:
    return Bench()


def sending(bench: Bench, policy: RetryPolicy | None = None) -> Sending:
    return Sending.begin(bench.log(policy), bench.select)


def test_a_success_that_is_told_later_counts(bench: Bench) -> None:
    send = sending(bench)
    assert (send.queue, send.number) == (QUEUES[0], 1)
    assert send.timeout_s is not None
    assert 0 < send.timeout_s <= 3.0
    assert send.succeeded()
    assert bench.recorded == [("a", False)]


def test_a_failure_that_is_told_later_leads_to_another_broker(bench: Bench) -> None:
    again = sending(bench).failed(RESET)
    assert again is not None
    assert (again.queue.broker_name, again.number) == ("b", 2)
    assert again.succeeded()
    assert bench.recorded == [("a", True), ("b", False)]


def test_when_all_fail_the_last_callback_hears_of_all(bench: Bench) -> None:
    send = sending(bench, RetryPolicy(retries=1)).failed(RESET)
    assert send is not None
    with pytest.raises(AttemptsFailed) as failed:
        send.failed(TimeoutError("late"))
    assert [failure.broker_name for failure in failed.value.failures] == ["a", "b"]


def test_an_error_that_is_not_the_brokers_is_raised_again(bench: Bench) -> None:
    error = KeyError("x")
    with pytest.raises(KeyError) as raised:
        sending(bench).failed(error)
    assert raised.value is error
    assert bench.recorded == [("a", False)]


def test_an_answer_after_the_failure_of_its_attempt_is_not_counted(bench: Bench) -> None:
    first = sending(bench)
    second = first.failed(TimeoutError())
    assert second is not None
    assert not first.succeeded()
    assert first.failed(RESET) is None
    assert second.succeeded()
    assert not second.succeeded()
    assert bench.recorded == [("a", True), ("b", False)]


def test_the_only_broker_is_tried_again_at_once(bench: Bench) -> None:  # a callback must not wait
    bench.queues = QUEUES[:1]
    again = sending(bench, RetryPolicy(pause_s=3_600.0)).failed(RESET)
    assert again is not None
    assert again.queue == QUEUES[0]


def test_no_attempt_begins_after_the_deadline(bench: Bench) -> None:
    with pytest.raises(AttemptsFailed, match="deadline"):
        sending(bench, RetryPolicy(deadline_s=1e-9)).failed(RESET)


def test_of_many_threads_that_tell_the_end_one_is_heard(bench: Bench) -> None:
    together = threading.Barrier(THREADS)

    def tell(send: Sending, number: int) -> bool:
        together.wait()
        return send.succeeded() if number % 2 else send.failed(RESET) is not None

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(50):
            send = sending(bench)
            heard = list(pool.map(tell, [send] * THREADS, range(THREADS)))
            assert heard.count(True) == 1
    assert len(bench.records) == 50


async def test_in_an_event_loop_it_is_the_same(bench: Bench) -> None:
    first = await AsyncSending.begin(bench.log(RetryPolicy(retries=1)), bench.select_later)
    assert (first.queue, first.number) == (QUEUES[0], 1)
    second = await first.failed(RESET)
    assert second is not None
    assert (second.queue, second.number) == (QUEUES[1], 2)
    assert not first.succeeded()
    assert await first.failed(RESET) is None
    with pytest.raises(AttemptsFailed):
        await second.failed(RESET)
    assert bench.recorded == [("a", True), ("b", True)]


async def test_a_callback_that_is_told_of_the_callers_end_passes_it_on(bench: Bench) -> None:
    send = await AsyncSending.begin(bench.log(), bench.select_later)
    with pytest.raises(asyncio.CancelledError):
        await send.failed(asyncio.CancelledError())
    assert bench.recorded == []
