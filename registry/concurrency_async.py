"""What asyncio and redis-py lack together: tasks that end, and connections that are closed, for certain.

The blocking modules use `concurrency` instead, by the same names (tools/unasync.py).
"""

from __future__ import annotations

import asyncio
from asyncio import Lock, sleep
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final, Protocol, TypeVar

from .concurrency import DiskThread

__all__ = ["Lock", "sleep"]  # imported to be imported from here

LONGEST_WAIT_S: Final = inf
"""The longest wait in one go: `stop` interrupts a task in any wait."""

_CANCEL_AGAIN_S: Final = 0.1
_LOOK_S: Final = 0.01


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until all have ended: a cancellation that meets a timeout inside redis-py can get lost."""
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_CANCEL_AGAIN_S)


class Closes(Protocol):
    """What has connections to close."""

    async def aclose(self) -> None:
        """Close them."""


T = TypeVar("T", bound=Closes)


async def close_fully(thing: Closes) -> None:
    """Close something to the end, although this task is cancelled meanwhile; then be cancelled."""
    task = asyncio.ensure_future(thing.aclose())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


@asynccontextmanager
async def closing_fully(thing: T) -> AsyncIterator[T]:
    """Give something to a `with` block, and close it fully at its end."""
    try:
        yield thing
    finally:
        await close_fully(thing)


async def learn_nodes(client: Any) -> None:
    """Make the client of a Cluster learn its nodes before it is asked for one of them."""
    await client.initialize()


def is_cancelled() -> bool:
    """Whether this task was asked to end; before Python 3.12, asyncio.wait_for may swallow the exception."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Background:
    """Runs a coroutine function in a task, from start() to stop().

    The function checks `is_stopping` and waits by `pause`; it may also be called in another task.
    """

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]], name: str, *, patience_s: float) -> None:  # noqa: ARG002
        self._run = run
        self._name = name
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_stopping(self) -> bool:
        """Whether the function should return: stop() was called, or this task was cancelled."""
        return self._stopped or is_cancelled()

    @property
    def is_running(self) -> bool:
        """Whether the task runs."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start the task, unless that was done."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Cancel the task and wait for its end."""
        self._stopped = True
        if self._task is not None:
            await end(self._task)

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Condition:
    """Lets the tasks of one event loop wait for one another.

    `with` is there for the blocking twin: nothing else runs between two awaits.
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def notify_all(self) -> None:
        """Wake all tasks that wait."""
        for event in self._waiting:
            event.set()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait until notify_all() is called, or the time is over."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(event)


async def run_blocking(work: Callable[[], None]) -> None:
    """Call a function that waits for the disk or the network in a thread: the event loop must not wait."""
    await asyncio.to_thread(work)


class Aside(DiskThread):
    """What is done aside for a reader in a task."""

    async def finish(self, patience_s: float) -> None:
        """Wait for the end of what was begun, for at most so long: a disk may hang."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self.is_busy:  # noqa: ASYNC110 - a thread sets no event
                    await sleep(_LOOK_S)
