"""The follower of the registry for asyncio; method for method the same as Follower."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Protocol, Self, TypeVar

from .. import plans
from ..checks import check_seconds
from ..concurrency_async import end, is_cancelled
from ..errors import CorruptData, RegistryError, StoreTimeout
from ..keys import Keys
from ..plans import Plan
from .core import MOST_AT_ONCE, NAP_S, Do, FollowCore, FollowHealth, FollowItem, Step

T = TypeVar("T")

_log = logging.getLogger("sharedroutes.registry")


class _Doorbell(Protocol):
    async def wait(self, timeout_s: float) -> bytes | None: ...

    async def aclose(self) -> None: ...


class _Store(Protocol):
    keys: Keys

    def doorbell(self) -> _Doorbell: ...

    async def run(self, plan: Plan[T]) -> T: ...


class AsyncFollower:
    """An endless iterator of what happens to a registry, from `async with` or start() to aclose().

    See AsyncRouteStore.follow. A task of its own reads; for one event loop.
    """

    def __init__(
        self, store: _Store, position: str | None, *, table: bool, idle_s: float | None, tail_s: float
    ) -> None:
        if idle_s is not None:
            check_seconds("idle_s", idle_s, 0)
        self._core = FollowCore(store.keys.changes, position, table=table, tail_s=tail_s)
        self._store = store
        self._idle_s = idle_s
        self._news = asyncio.Event()
        """Set when there may be items, and at the end."""

        self._room = asyncio.Event()
        """Set when items were taken, and at the end."""

        self._closing = False
        self._bell: _Doorbell | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Begin to follow; does nothing when it has begun. Raises RuntimeError after aclose()."""
        if self._closing:
            raise RuntimeError("the follower was closed: make a new one")
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="sharedroutes-follower")

    async def aclose(self) -> None:
        """End the iteration at once, in whatever task, and the follower's own task."""
        self._closing = True
        self._news.set()
        self._room.set()
        if self._task is not None:
            await end(self._task)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FollowItem:
        """Return what happened next; raise StoreRefused if the store refused at the first contact.

        May be cancelled: nothing is lost by it.
        """
        deadline = None if self._idle_s is None else monotonic() + self._idle_s
        while not self._closing:
            item = self._core.take()
            if item is not None:
                if self._core.has_room:
                    self._room.set()
                return item
            if self._core.refused is not None:
                raise self._core.refused
            if self._task is None or self._task.done():
                raise RuntimeError("the follower does not run: use `async with`, or call start()")
            left_s = None if deadline is None else deadline - monotonic()
            if left_s is not None and left_s <= 0:
                return self._core.idle()
            await _wait(self._news, left_s)
        raise StopAsyncIteration

    def health(self) -> FollowHealth:
        """Return how far the follower can be trusted to know what happens."""
        return self._core.health(monotonic())

    # --- the follower's own task ----------------------------------------------------------------------------

    async def _run(self) -> None:
        """Follow until it is cancelled; whatever the store does, this goes on."""
        try:
            while not self._closing and not is_cancelled() and self._core.refused is None:
                try:
                    await self._do(self._core.next_step(monotonic()))
                except RegistryError as error:
                    await self._failed(error)
                except Exception as error:  # noqa: BLE001 - one that dies would leave its consumer waiting
                    _log.exception("a fault in the follower; it begins anew")
                    await self._failed(error)
        finally:
            self._news.set()
            await self._drop_bell()

    async def _do(self, step: Step) -> None:
        core = self._core
        if step.do is Do.HEAR:
            await self._hear(step.wait_s)
            return
        if step.do is Do.PAUSE:
            await asyncio.sleep(step.wait_s)
            return
        if step.do is Do.AWAIT_ROOM:
            await _wait(self._room, step.wait_s)
        elif step.do is Do.READ_PLACE:
            core.found_place(await self._store.run(plans.last_change_id(self._store.keys)), monotonic())
        elif step.do is Do.READ_TABLE:
            core.found_table(await self._store.run(plans.whole_table(self._store.keys)), monotonic())
        else:
            plan = plans.changes_since(self._store.keys, step.position, MOST_AT_ONCE)
            core.found_page(await self._store.run(plan), monotonic())
        self._news.set()
        await self._hear(0.0)  # else what rings piles up while there is much to read

    async def _hear(self, timeout_s: float) -> None:
        """Wait for a doorbell, then take in what rang meanwhile."""
        try:
            if self._bell is None and self._core.bell_due(monotonic()):
                self._bell = self._store.doorbell()
            if self._bell is None:
                await asyncio.sleep(min(timeout_s, NAP_S))
                return
            if self._core.is_deaf:
                raise StoreTimeout("changes are not heard of any more")
            for _ in range(MOST_AT_ONCE):
                message = await self._bell.wait(timeout_s)
                if message is None:
                    return
                timeout_s = 0.0
                self._core.heard(message)
                self._news.set()
        except RegistryError as error:
            await self._drop_bell()
            self._core.bell_failed(error, monotonic())

    async def _failed(self, error: Exception) -> None:
        if not isinstance(error, CorruptData):  # after a failover, the doorbell may hang on the wrong server
            await self._drop_bell()
        self._core.failed(error, monotonic())
        self._news.set()

    async def _drop_bell(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            with suppress(Exception):  # what cannot even be closed is gone already
                await bell.aclose()


async def _wait(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait until the event is set anew, or the time is over."""
    event.clear()
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
