"""Runs in threads what may hang for ever, such as a read of a lost disk: they keep no process alive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the work returns, or raise what it raises; it goes on when the caller is cancelled.

    Unlike asyncio.to_thread: asyncio.run and the interpreter wait at their end for the threads of that.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # what has been asked for is done, whoever is cancelled
    thread = threading.Thread(
        target=_run, args=(future, lambda: work(*args, **kwargs)), name="sharedroutes read", daemon=True
    )
    thread.start()
    return await asyncio.wrap_future(future)


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
