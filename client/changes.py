"""Changes of routes, as an iterator and as calls of a listener."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Final, Self, TypeAlias
from weakref import WeakSet

from .routes import Route, RouteChange

_log: Final = logging.getLogger("sharedroutes.client")

Listener: TypeAlias = Callable[[RouteChange], None]
AsyncListener: TypeAlias = Callable[[RouteChange], Awaitable[None] | None]
RouteOf: TypeAlias = Callable[[str], Route | None]


class Watches:
    """All watches of a client, for as long as they are used; thread-safe."""

    def __init__(self) -> None:
        self._all: WeakSet[Watch] = WeakSet()
        self._lock = threading.Lock()
        self._over = False

    def add(self, watch: Watch) -> None:
        """Tell a watch of every change from now on; after close(), close it."""
        with self._lock:
            self._all.add(watch)
            if self._over:
                watch.end()

    def remove(self, watch: Watch) -> None:
        """Tell a watch of changes no more."""
        with self._lock:
            self._all.discard(watch)

    def tell(self, topics: Collection[str]) -> None:
        """Tell all watches of these topics."""
        with self._lock:
            watches = list(self._all)
        for watch in watches:
            watch.tell(topics)

    def close(self) -> None:
        """Close all watches, and those to come."""
        with self._lock:
            self._over = True
            watches = list(self._all)
        for watch in watches:
            watch.end()

    def begin_copy(self) -> None:
        """Close all watches in a copy of the process, where nothing waits and locks may be held."""
        for watch in list(self._all):
            watch.over = True
        self._all = WeakSet()
        self._lock = threading.Lock()


class Watch:
    """The changes of topics that were not taken yet, each topic once, however often it changed; thread-safe.

    It begins with the next change, and ends by close() or with the client. `topics` None = all that the
    client knows. `wake` is called when there is something to take, and at the end.
    """

    def __init__(
        self, watches: Watches, route: RouteOf, topics: Collection[str] | None, wake: Callable[[], None]
    ) -> None:
        self._watches = watches
        self._route = route
        self._topics = None if topics is None else frozenset(topics)
        self._wake_up = wake
        self._lock = threading.Lock()
        self._changed: OrderedDict[str, None] = OrderedDict()
        self.over = False
        """Whether it has ended."""

        watches.add(self)

    def close(self) -> None:
        """End it, wherever it is."""
        self.end()
        self._watches.remove(self)

    def end(self) -> None:
        """Wake the thread or task that waits, for the last time."""
        self.over = True
        self._wake_up()

    def tell(self, topics: Collection[str]) -> None:
        """Note changes, and wake the thread or task that waits for them."""
        concerned = [topic for topic in topics if self._topics is None or topic in self._topics]
        if concerned:
            with self._lock:
                self._changed.update(dict.fromkeys(concerned))
            self._wake_up()

    def take(self) -> RouteChange | None:
        """Return the topic that changed first of those not taken yet, and its route; None = there is none."""
        with self._lock:
            topic = self._changed.popitem(last=False)[0] if self._changed else None
        return None if topic is None else RouteChange(topic, self._route(topic))


class Changes(Watch, Iterator[RouteChange]):
    """What topics have now, and then each change of them, until it or the client is closed.

    `begin` makes the topics known, at once; None = changes alone are wanted.
    """

    def __init__(
        self,
        watches: Watches,
        route: RouteOf,
        topics: Collection[str] | None,
        begin: Callable[[], None] | None = None,
    ) -> None:
        if begin is not None:
            begin()
        self._wake = threading.Event()
        super().__init__(watches, route, topics, self._wake.set)
        if begin is not None:
            self.tell(topics or ())

    def __next__(self) -> RouteChange:
        while True:
            self._wake.clear()  # before looking: what comes after that wakes us again
            if self.over:
                raise StopIteration
            change = self.take()
            if change is not None:
                return change
            self._wake.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def listen(
    watches: Watches, route: RouteOf, topics: Collection[str] | None, listener: Listener
) -> Callable[[], None]:
    """Call a listener at each change, on a thread of its own; return what ends that."""
    changes = Changes(watches, route, topics)

    def run() -> None:
        for change in changes:
            try:
                listener(change)
            except Exception:  # noqa: BLE001 - the next change is to be told all the same
                _log.exception("a listener failed at a change of %s", change.topic)

    threading.Thread(target=run, name="sharedroutes-listener", daemon=True).start()
    return changes.close


class AsyncChanges(Watch, AsyncIterator[RouteChange]):
    """What Changes is, for asyncio; `begin` is awaited when the first change is asked for."""

    def __init__(
        self,
        watches: Watches,
        route: RouteOf,
        topics: Collection[str] | None,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._begin = begin
        self._wake = asyncio.Event()
        super().__init__(watches, route, topics, self._wake.set)
        if begin is not None:
            self.tell(topics or ())

    async def __anext__(self) -> RouteChange:
        if self._begin is not None:
            await self._begin()
            self._begin = None
        while True:
            self._wake.clear()
            if self.over:
                raise StopAsyncIteration
            change = self.take()
            if change is not None:
                return change
            await self._wake.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def listen_async(
    watches: Watches, route: RouteOf, topics: Collection[str] | None, listener: AsyncListener
) -> Callable[[], None]:
    """Call a listener at each change, and await it if it can be, in a task; return what ends that."""
    changes = AsyncChanges(watches, route, topics)
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
