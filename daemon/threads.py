"""Runs in threads what may take long or hang for ever, such as a read of a lost disk."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_malloc_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""Of glibc alone."""


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what the work returns, or raise what it raises; it goes on when the caller is cancelled.

    Its thread is a daemon, unlike those of asyncio.to_thread, for which asyncio.run and the interpreter wait
    at their end.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # the work is done, whoever is cancelled
    thread = threading.Thread(
        target=_run, args=(future, lambda: work(*args, **kwargs)), name="sharedroutes read", daemon=True
    )
    thread.start()
    return await asyncio.wrap_future(future)


async def in_thread_if(
    is_large: bool,  # noqa: FBT001 - always an expression
    work: Callable[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Return what the work returns, done in a thread where it is large, so that no heartbeat waits."""
    return await in_thread(work, *args, **kwargs) if is_large else work(*args, **kwargs)


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Keep Python's garbage collector from looking again and again at much that holds no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def trim_memory() -> None:
    """Return to the system what the allocator keeps: 1 MB after a table of 10,000 topics, in 0.2 ms."""
    if _malloc_trim is not None:
        _malloc_trim(0)


def _run(future: Future[T], work: Callable[[], T]) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
