"""Tasks that have to come to their end, and threads for which nobody waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from sharedroutes.registry.concurrency import Aside
from sharedroutes.registry.concurrency_async import close_fully, end


class _Closing:
    """Closes as it is told."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close

    async def aclose(self) -> None:
        await self._close()


async def test_what_closes_is_finished_although_it_is_cancelled_again_and_again() -> None:
    may_end, ended = asyncio.Event(), asyncio.Event()

    async def close() -> None:
        await may_end.wait()
        ended.set()

    task = asyncio.create_task(close_fully(_Closing(close)))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_failure_to_close_is_told() -> None:
    async def close() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - its own
        await close_fully(_Closing(close))


async def test_tasks_end_although_one_swallows_a_cancellation() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end(task)
    assert task.done()


def test_work_aside_may_wait_for_its_own_end_as_an_observer_does_that_closes_its_client() -> None:
    aside, has_returned = Aside(), threading.Event()

    def work() -> None:
        aside.finish(10.0)
        has_returned.set()

    aside.begin(work)
    assert has_returned.wait(10.0)


def test_work_for_which_the_system_has_no_thread_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    aside, done = Aside(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        aside.begin(done.set)
    assert not aside.is_busy
    aside.begin(done.set)
    assert done.wait(10.0)
