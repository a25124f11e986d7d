"""Waiting for routes to change: as an iterator, and as a call of a listener."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from types import TracebackType
from typing import Final, Self, TypeAlias

from .core import ClientCore
from .route import RouteChange
from .watching import Watch

_log: Final = logging.getLogger("sharedroutes.client")

Listener: TypeAlias = Callable[[RouteChange], None]
AsyncListener: TypeAlias = Callable[[RouteChange], Awaitable[None] | None]


class Changes(Iterator[RouteChange]):
    """What topics have now, and then each change of them, until it or the client is closed."""

    def __init__(self, core: ClientCore, topics: Collection[str] | None, *, with_now: bool = True) -> None:
        self._core = core
        self._wake = threading.Event()
        self._watch = Watch(topics, self._wake.set)
        core.watches.add(self._watch)
        if with_now:
            self._watch.tell(topics or ())

    def __next__(self) -> RouteChange:
        while True:
            self._wake.clear()  # before looking: what comes after that wakes us again
            if self._watch.over:
                raise StopIteration
            topic = self._watch.take()
            if topic is not None:
                return RouteChange(topic, self._core.route(topic))
            self._wake.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration, wherever it is."""
        self._watch.close()
        self._core.watches.remove(self._watch)


def listen(core: ClientCore, topics: Collection[str] | None, listener: Listener) -> Callable[[], None]:
    """Call a listener at each change, on a thread of its own; return what ends that."""
    changes = Changes(core, topics, with_now=False)

    def run() -> None:
        for change in changes:
            try:
                listener(change)
            except Exception:  # noqa: BLE001 - the next change is to be told all the same
                _log.exception("a listener failed at a change of %s", change.topic)

    threading.Thread(target=run, name="sharedroutes-listener", daemon=True).start()
    return changes.close


class AsyncChanges(AsyncIterator[RouteChange]):
    """What Changes is, for asyncio; `begin` makes the topics known, when the first one is asked for."""

    def __init__(
        self,
        core: ClientCore,
        topics: Collection[str] | None,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._core = core
        self._begin = begin
        self._wake = asyncio.Event()
        self._watch = Watch(topics, self._wake.set)
        core.watches.add(self._watch)
        if begin is not None:
            self._watch.tell(topics or ())

    async def __anext__(self) -> RouteChange:
        if self._begin is not None:
            await self._begin()
            self._begin = None
        while True:
            self._wake.clear()
            if self._watch.over:
                raise StopAsyncIteration
            topic = self._watch.take()
            if topic is not None:
                return RouteChange(topic, self._core.route(topic))
            await self._wake.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration, wherever it is."""
        self._watch.close()
        self._core.watches.remove(self._watch)


def listen_async(
    core: ClientCore, topics: Collection[str] | None, listener: AsyncListener
) -> Callable[[], None]:
    """Call a listener at each change, and await it if it can be, in a task; return what ends that."""
    changes = AsyncChanges(core, topics)
    task = asyncio.create_task(_call(changes, listener), name="sharedroutes-listener")
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    return changes.close


async def _call(changes: AsyncChanges, listener: AsyncListener) -> None:
    async for change in changes:
        try:
            called = listener(change)
            if called is not None:
                await called
        except Exception:  # noqa: BLE001 - the next change is to be told all the same
            _log.exception("a listener failed at a change of %s", change.topic)


_TASKS: Final[set[asyncio.Task[None]]] = set()
"""The loop itself keeps tasks alive only weakly."""
