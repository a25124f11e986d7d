"""How long attempts may take, one and all together, and who is waited for."""

from __future__ import annotations

import asyncio
from math import inf
from time import monotonic
from typing import Final

import pytest

from sharedroutes.client import AttemptsFailed, RetryPolicy
from tests.client.attempting import QUEUES, RESET, Bench, script
from tests.support import await_until

A, B, C, _ = QUEUES
OVERDUE = "time of the attempt was up"


async def forever() -> None:
    await asyncio.Event().wait()


async def hang(bench: Bench, policy: RetryPolicy) -> None:
    async for attempt in bench.async_attempts(policy):
        async with attempt:
            await forever()


# ---- what the log decides, at times that the test says


SHARES: Final[dict[str, tuple[RetryPolicy, list[tuple[float, float, float]]]]] = {
    "a share of what is left": (
        RetryPolicy(deadline_s=3.0, retries=2),
        [(100.0, 1.0, 100.0), (100.0, 1.5, 101.5), (101.5, 1.5, 101.6)],  # one failed at once
    ),
    "all that is left, if the policy says so": (
        RetryPolicy(deadline_s=3.0, attempt_timeout_s=3.0),
        [(100.0, 3.0, 102.0), (102.5, 0.5, 102.6)],
    ),
    "cut short only while another can follow": (
        RetryPolicy(deadline_s=3.0, attempt_timeout_s=1.0, retries=1),
        [(100.0, 1.0, 101.0), (101.0, 2.0, 101.1)],
    ),
    "no more than the deadline leaves": (
        RetryPolicy(deadline_s=3.0, attempt_timeout_s=2.0),
        [(100.0, 2.0, 102.0), (102.0, 1.0, 102.1)],
    ),
}
"""The policy; when each attempt begins, how long it may take, and when it fails."""


@pytest.mark.parametrize("case", SHARES)
def test_how_long_an_attempt_may_take(case: str) -> None:
    policy, steps = SHARES[case]
    log = Bench().log(policy)
    for queue, (begin, timeout_s, end) in zip(QUEUES, steps, strict=False):
        attempt = log.begin(queue, begin)
        assert attempt.timeout_s(begin) == timeout_s
        assert attempt.timeout_s(begin + 0.25) == timeout_s - 0.25
        if queue is not QUEUES[len(steps) - 1]:
            assert log.leave(attempt, RESET, end)


@pytest.mark.parametrize(
    ("retries", "deadline_s", "share_s"),
    [
        (0, 3.0, 3.0),
        (1, 3.0, 1.5),
        (1_000, 3.0, 1.0),  # not 3 ms, which no broker could keep
        (2, 0.2, 0.1),
        (2, 0.05, 0.05),
    ],
)
def test_a_share_is_never_too_short_to_be_kept(retries: int, deadline_s: float, share_s: float) -> None:
    log = Bench().log(RetryPolicy(retries=retries, deadline_s=deadline_s))
    assert log.begin(A, 0.0).timeout_s(0.0) == pytest.approx(share_s)


def test_without_limits_there_is_no_timeout() -> None:
    assert Bench().log(RetryPolicy(deadline_s=None)).begin(A, 100.0).timeout_s(200.0) is None


def test_a_timeout_is_never_nothing() -> None:  # sockets take 0 for: do not wait
    assert Bench().log(RetryPolicy(deadline_s=3.0)).begin(A, 100.0).timeout_s(200.0) == 0.001


def test_the_deadline_counts_from_before_the_first_queue_is_chosen() -> None:  # it may have to be looked up
    log = Bench().log(RetryPolicy(deadline_s=3.0))
    assert log.until(1_000.0) == 1_003.0
    first = log.begin(A, 1_001.0)
    assert first.timeout_s(1_001.0) == pytest.approx(2.0 / 3)
    assert log.leave(first, RESET, 1_002.9)
    with pytest.raises(AttemptsFailed, match=r"deadline of 3\.0 s") as failed:
        log.begin(B, 1_003.0)  # choosing the queue took the rest
    assert [failure.broker_name for failure in failed.value.failures] == ["a"]
    assert log.over


def test_a_first_queue_that_came_just_in_time_is_tried_once() -> None:
    log = Bench().log(RetryPolicy(deadline_s=3.0))
    assert log.until(0.0) == 3.0
    late = log.begin(A, 3.1)
    with pytest.raises(AttemptsFailed, match="deadline"):
        log.leave(late, RESET, 3.2)


@pytest.mark.parametrize("in_tasks", [False, True], ids=["sync", "async"])
async def test_every_queue_is_chosen_within_the_one_deadline(*, in_tasks: bool) -> None:
    bench = Bench(in_tasks=in_tasks)
    begin = monotonic()
    await bench.run(script(RESET, RESET, None), deadline_s=60.0)
    assert len(bench.untils) == 3
    assert len(set(bench.untils)) == 1
    assert begin + 60.0 <= bench.untils[0] <= monotonic() + 60.0


async def test_without_a_deadline_a_queue_may_take_for_ever_to_choose() -> None:
    bench = Bench()
    await bench.run(script(None), deadline_s=None)
    assert bench.untils == [inf]


def test_a_failure_tells_when_it_began_and_how_long_it_took() -> None:
    log = Bench().log(RetryPolicy(deadline_s=None, retries=1))
    assert log.leave(log.begin(A, 0.0), RESET, 1.5)
    with pytest.raises(AttemptsFailed) as failed:
        log.leave(log.begin(B, 2.0), RESET, 2.25)
    assert [(one.began_s, one.latency_s) for one in failed.value.failures] == [(0.0, 1.5), (2.0, 0.25)]
    assert "2. b, queue 0 (10.0.0.1:2), at 2000 ms, for 250 ms: ConnectionResetError" in str(failed.value)


def test_another_broker_is_tried_at_once_and_a_failed_one_after_a_pause() -> None:
    log = Bench().log(RetryPolicy(deadline_s=3.0, pause_s=0.1))
    assert log.pause_s(A, 0.0) == 0
    assert log.leave(log.begin(A, 0.0), RESET, 0.0)
    assert log.pause_s(B, 0.0) == 0
    pauses = {log.pause_s(A, 0.0) for _ in range(50)}
    assert all(0.05 <= pause_s <= 0.1 for pause_s in pauses)
    assert len(pauses) > 1  # clients of one broker do not come back in step


def test_a_pause_beyond_the_deadline_is_not_begun() -> None:
    log = Bench().log(RetryPolicy(deadline_s=3.0, pause_s=2.0))
    assert log.leave(log.begin(A, 0.0), RESET, 2.5)
    with pytest.raises(AttemptsFailed, match="deadline"):
        log.pause_s(A, 2.5)


def test_a_timer_that_is_early_does_not_make_room_for_another_attempt() -> None:
    log = Bench().log(RetryPolicy(deadline_s=3.0, attempt_timeout_s=3.0))
    with pytest.raises(AttemptsFailed, match="deadline"):
        log.leave(log.begin(A, 0.0), TimeoutError(), 2.999, overdue=True)


# ---- in threads


def test_the_block_learns_how_long_it_may_take() -> None:
    bench = Bench()
    for attempt in bench.attempts(RetryPolicy(deadline_s=3.0, attempt_timeout_s=1.0)):
        with pytest.raises(RuntimeError, match="has not begun"):
            _ = attempt.timeout_s
        with attempt:
            timeout_s = attempt.timeout_s
            assert timeout_s is not None
            assert 0 < timeout_s <= 1.0


@pytest.mark.parametrize("in_tasks", [False, True], ids=["sync", "async"])
async def test_the_only_broker_is_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, *, in_tasks: bool
) -> None:
    slept: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept.append(delay_s)

    monkeypatch.setattr("sharedroutes.client.attempts.attempt.sleep", slept.append)
    monkeypatch.setattr("sharedroutes.client.attempts.attempt.asyncio.sleep", sleep)
    bench = Bench(in_tasks=in_tasks)
    bench.queues = (A,)
    with pytest.raises(AttemptsFailed):
        await bench.run(script(*[RESET] * 3), pause_s=0.5)
    pauses = [pause_s for pause_s in slept if pause_s]  # choosing a queue yields in between
    assert len(pauses) == 2
    assert all(0.25 <= pause_s <= 0.5 for pause_s in pauses)


# ---- in tasks, where the time is kept by force


async def test_an_attempt_that_hangs_is_ended_and_another_broker_tried() -> None:
    bench = Bench()
    async for attempt in bench.async_attempts(RetryPolicy(attempt_timeout_s=0.01)):
        async with attempt as queue:
            if queue.broker_name == "a":
                await forever()
            assert queue.broker_name == "b"
    assert bench.recorded == [("a", True), ("b", False)]
    assert bench.records[0][1].latency_s >= 0.005
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_hanging_attempts_end_with_the_deadline() -> None:
    bench = Bench()
    with pytest.raises(AttemptsFailed, match="deadline") as failed:
        await hang(bench, RetryPolicy(deadline_s=0.02))
    assert isinstance(failed.value.__cause__, TimeoutError)
    assert OVERDUE in str(failed.value)
    assert isinstance(failed.value.__cause__.__cause__, asyncio.CancelledError)  # shows where it hung
    assert bench.recorded == [("a", True)]


async def test_an_attempt_that_is_ended_is_the_brokers_failure_whatever_the_policy_says() -> None:
    bench = Bench()
    with pytest.raises(AttemptsFailed, match=OVERDUE):
        await hang(bench, RetryPolicy(deadline_s=0.01, retry_on=(KeyError,)))
    assert bench.recorded == [("a", True)]


async def test_who_cancels_an_attempt_is_obeyed_and_blames_nobody() -> None:
    bench = Bench()

    task = asyncio.create_task(hang(bench, RetryPolicy(deadline_s=60.0)))
    await await_until(lambda: bench.avoided, description="an attempt is under way")
    await asyncio.sleep(0)
    task.cancel("stop")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.records == []
    assert bench.events == []


async def test_who_cancels_just_as_the_time_is_up_is_obeyed() -> None:
    bench = Bench()

    async def send() -> None:
        task = asyncio.current_task()
        assert task is not None
        async for attempt in bench.async_attempts(RetryPolicy(attempt_timeout_s=0.01)):
            async with attempt:
                try:
                    await forever()
                except asyncio.CancelledError:
                    task.cancel()
                    raise

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(send())
    assert bench.records == []


async def test_a_timeout_of_the_callers_own_is_an_error_like_any_other() -> None:
    bench = Bench()
    async for attempt in bench.async_attempts(RetryPolicy(deadline_s=60.0)):
        async with attempt as queue:
            if queue.broker_name == "a":
                await asyncio.wait_for(forever(), 0.01)
    assert bench.recorded == [("a", True), ("b", False)]


async def test_a_callers_timeout_around_all_attempts_ends_them() -> None:
    bench = Bench()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hang(bench, RetryPolicy(deadline_s=60.0)), 0.01)
    assert bench.records == []


async def test_without_limits_nothing_is_ended() -> None:
    bench = Bench()
    loop = asyncio.get_running_loop()
    async for attempt in bench.async_attempts(RetryPolicy(deadline_s=None)):
        async with attempt:
            assert attempt.timeout_s is None
            answered = loop.create_future()
            loop.call_later(0.01, answered.set_result, None)
            await answered
    assert bench.recorded == [("a", False)]
