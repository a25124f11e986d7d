"""Reading the change stream as a core decides, and the follower for asyncio: all I/O, and no decision."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from ..checks import check_seconds
from ..concurrency_async import LONGEST_WAIT_S, Aside, Background, Condition
from ..config import RegistryConfig
from ..errors import CorruptData, RegistryError
from ..keys import Keys
from ..plans import Plan
from .core import FollowCore, FollowHealth, FollowItem
from .stream import MOST_AT_ONCE, Core, Do, Step, Stopped, Take, until

if TYPE_CHECKING:
    from ..connection.links_async import AsyncSubscription

T = TypeVar("T")

_log = logging.getLogger("sharedroutes.registry")


class _AsyncStore(Protocol):
    config: RegistryConfig
    keys: Keys

    def doorbell(self) -> AsyncSubscription[bytes]: ...

    async def run(self, plan: Plan[T]) -> T: ...


class AsyncStreamReader:
    """Does in the background what a core decides, from start() to stop(), whatever the store answers."""

    def __init__(self, store: _AsyncStore, core: Core, name: str) -> None:
        self._store = store
        self._core = core
        self._bell: AsyncSubscription[bytes] | None = None
        self._patience_s = store.config.call_deadline_s + 1
        self._background = Background(self.run, name, patience_s=self._patience_s)
        self._aside = Aside()
        self.news = Condition()
        """Guards the core; told of whatever the core took in, and of the end."""

        self.is_over = False
        """Whether stop() was called."""

    @property
    def is_running(self) -> bool:
        """Whether it has begun and not ended."""
        return self._background.is_running

    def start(self) -> None:
        """Begin; does nothing when it has begun."""
        with self.news:
            self._background.start()

    async def stop(self) -> None:
        """Wake who waits for news, and wait for the end of the reading."""
        with self.news:
            self.is_over = True
            self.news.notify_all()
        await self._background.stop()

    async def finish(self) -> None:
        """Wait for the end of work aside, but not for ever."""
        await self._aside.finish(self._patience_s)

    async def run(self) -> None:
        """Do one step after the other, in the foreground."""
        try:
            while not (self.is_over or self._background.is_stopping):
                if not await self._go_on():
                    return
        finally:
            with self.news:
                self.news.notify_all()
            await self._drop_bell()

    async def _go_on(self) -> bool:
        """Do the next step; return whether there may be another one."""
        try:
            with self.news:
                step = self._core.next_step(monotonic())
            await self._do(step)
        except Stopped:
            return False
        except Exception as error:  # noqa: BLE001 - one that dies would leave all who rely on it waiting
            if not isinstance(error, RegistryError):
                _log.exception("a fault in the follower; it begins anew")
            if not isinstance(error, CorruptData):  # after a failover, it may hang on the wrong server
                await self._drop_bell()
            self._tell(self._core.failed, error, monotonic())
            return True
        return step.do is not Do.STOP

    async def _do(self, step: Step) -> None:
        if step.do is Do.STOP:
            return
        if step.do is Do.HEAR:
            await self._hear(step.wait_s)
            return
        if step.do is Do.PAUSE:
            await self._background.pause(step.wait_s)
            return
        if step.do is Do.AWAIT_ROOM:
            with self.news:  # unless there is room meanwhile
                if not self.is_over and self._core.next_step(monotonic()) == step:
                    await self.news.wait(step.wait_s)
        elif step.work is not None:
            if not self._aside.is_busy:
                self._aside.begin(step.work())
        elif step.plan is not None and step.take is not None:
            await self._read(step, step.plan, step.take)
        if step.hears:
            await self._hear(0.0)

    async def _read(self, step: Step, plan: Plan[Any], take: Take) -> None:
        begin = monotonic()
        try:
            result = await self._store.run(until(lambda: self.is_over, plan))
        except RegistryError as error:
            if step.failed is None:
                raise
            step.failed(error, monotonic())
        else:
            now = monotonic()
            self._tell(take, result, now, now - begin)

    async def _hear(self, timeout_s: float) -> None:
        """Wait for a doorbell, then take in what rang meanwhile."""
        state = self._core.bell
        if state.is_deaf:
            state.renew()
            await self._drop_bell()
        if self._bell is None and monotonic() < state.due_at:
            await self._background.pause(min(timeout_s, state.due_at - monotonic()))
            return
        try:
            if self._bell is None:
                self._bell = self._store.doorbell()
            timeout_s = min(timeout_s, LONGEST_WAIT_S)
            for _ in range(MOST_AT_ONCE):  # a steady stream must not keep us from reading what is due
                message = await self._bell.wait(timeout_s)
                if message is None:
                    return
                timeout_s = 0.0
                self._tell(self._core.heard, message, monotonic())
        except RegistryError as error:
            await self._drop_bell()
            self._tell(self._core.bell_failed, error, monotonic())

    def _tell(self, take: Callable[..., None], *what: object) -> None:
        with self.news:
            take(*what)
            self.news.notify_all()

    async def _drop_bell(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            with suppress(Exception):  # what cannot even be closed is gone already
                await bell.aclose()


class AsyncFollower:
    """An endless iterator of what happens to a registry, from `async with` or start() to aclose().

    See AsyncRouteStore.follow. It is read in the background, whatever the consumer does meanwhile.
    """

    def __init__(
        self, store: _AsyncStore, position: str | None, *, table: bool, idle_s: float | None, tail_s: float
    ) -> None:
        if idle_s is not None:
            check_seconds("idle_s", idle_s, 0)
        self._idle_s = idle_s
        self._core = FollowCore(store.keys, position, table=table, tail_s=tail_s)
        self._reader = AsyncStreamReader(store, self._core, "sharedroutes-follower")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Begin to follow; does nothing when it has begun. Raises RuntimeError after aclose()."""
        if self._reader.is_over:
            raise RuntimeError("the follower was closed: make a new one")
        self._reader.start()

    async def aclose(self) -> None:
        """End the iteration at once, wherever it is, and the reading in the background."""
        await self._reader.stop()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FollowItem:
        """Return what happened next; raise StoreRefused if the store refused at the first contact.

        May be interrupted: nothing is lost by it.
        """
        deadline = None if self._idle_s is None else monotonic() + self._idle_s
        reader = self._reader
        with reader.news:
            while not reader.is_over:
                item = self._core.take()
                if item is not None:
                    if self._core.has_room:
                        reader.news.notify_all()
                    return item
                if self._core.refused is not None:
                    raise self._core.refused
                if not reader.is_running:  # not so in a forked child
                    raise RuntimeError("the follower does not run: use `async with`, or call start()")
                left_s = None if deadline is None else deadline - monotonic()
                if left_s is not None and left_s <= 0:
                    return self._core.idle()
                await reader.news.wait(left_s)
        raise StopAsyncIteration

    def health(self) -> FollowHealth:
        """Return how far the follower can be trusted to know what happens."""
        with self._reader.news:
            return self._core.health(monotonic())
