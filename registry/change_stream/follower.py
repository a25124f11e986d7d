"""The follower of the registry for threads."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Protocol, Self, TypeVar

from .. import plans
from ..checks import check_seconds
from ..config import RegistryConfig
from ..errors import CorruptData, RegistryError, StoreTimeout
from ..keys import Keys
from ..plans import Plan
from .core import MOST_AT_ONCE, NAP_S, Do, FollowCore, FollowHealth, FollowItem, Step

T = TypeVar("T")

_log = logging.getLogger("sharedroutes.registry")


class _Doorbell(Protocol):
    def wait(self, timeout_s: float) -> bytes | None: ...

    def close(self) -> None: ...


class _Store(Protocol):
    config: RegistryConfig
    keys: Keys

    def doorbell(self) -> _Doorbell: ...

    def run(self, plan: Plan[T]) -> T: ...


class _Closed(Exception):
    """close() was called in the middle of a plan."""


class Follower:
    """An endless iterator of what happens to a registry, from `with` or start() to close().

    See RouteStore.follow. A thread of its own reads, whatever the consumer does meanwhile.
    """

    def __init__(
        self, store: _Store, position: str | None, *, table: bool, idle_s: float | None, tail_s: float
    ) -> None:
        if idle_s is not None:
            check_seconds("idle_s", idle_s, 0)
        self._core = FollowCore(store.keys.changes, position, table=table, tail_s=tail_s)
        self._store = store
        self._idle_s = idle_s
        self._news = threading.Condition()
        """Guards the core; told of items, of room for more, and of the end."""

        self._closing = False
        self._bell: _Doorbell | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to follow; does nothing when it has begun. Raises RuntimeError after close()."""
        with self._news:
            if self._closing:
                raise RuntimeError("the follower was closed: make a new one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sharedroutes-follower", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the iteration at once, in whatever thread; wait for the follower's own until its deadline."""
        with self._news:
            self._closing = True
            self._news.notify_all()
        if self._thread is not None:
            # A store that hangs lets go of the thread at its deadline; a daemon thread outlives nobody.
            self._thread.join(self._store.config.call_deadline_s + 1)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FollowItem:
        """Return what happened next; raise StoreRefused if the store refused at the first contact."""
        deadline = None if self._idle_s is None else monotonic() + self._idle_s
        with self._news:
            while not self._closing:
                item = self._core.take()
                if item is not None:
                    if self._core.has_room:
                        self._news.notify_all()
                    return item
                if self._core.refused is not None:
                    raise self._core.refused
                if self._thread is None or not self._thread.is_alive():  # not so in a forked child
                    raise RuntimeError("the follower does not run: use `with`, or call start()")
                left_s = None if deadline is None else deadline - monotonic()
                if left_s is not None and left_s <= 0:
                    return self._core.idle()
                self._news.wait(left_s)
        raise StopIteration

    def health(self) -> FollowHealth:
        """Return how far the follower can be trusted to know what happens."""
        with self._news:
            return self._core.health(monotonic())

    # --- the follower's own thread --------------------------------------------------------------------------

    def _run(self) -> None:
        """Follow until close(); whatever the store does, this goes on."""
        with suppress(_Closed):
            while not self._closing and self._core.refused is None:
                with self._news:
                    step = self._core.next_step(monotonic())
                try:
                    self._do(step)
                except RegistryError as error:
                    self._failed(error)
                except _Closed:
                    raise
                except Exception as error:  # noqa: BLE001 - one that dies would leave its consumer waiting
                    _log.exception("a fault in the follower; it begins anew")
                    self._failed(error)
        self._drop_bell()

    def _do(self, step: Step) -> None:
        core = self._core
        if step.do is Do.HEAR:
            self._hear(step.wait_s)
            return
        if step.do is Do.PAUSE:
            self._nap(step.wait_s)
            return
        if step.do is Do.AWAIT_ROOM:
            with self._news:
                if not self._closing and core.next_step(monotonic()) == step:  # else it was made meanwhile
                    self._news.wait(step.wait_s)
        elif step.do is Do.READ_PLACE:
            place = self._read(plans.last_change_id(self._store.keys))
            with self._news:
                core.found_place(place, monotonic())
        elif step.do is Do.READ_TABLE:
            table = self._read(plans.whole_table(self._store.keys))
            with self._news:
                core.found_table(table, monotonic())
        else:
            page = self._read(plans.changes_since(self._store.keys, step.position, MOST_AT_ONCE))
            with self._news:
                core.found_page(page, monotonic())
        with self._news:
            self._news.notify_all()
        self._hear(0.0)  # else what rings piles up while there is much to read

    def _read(self, plan: Plan[T]) -> T:
        return self._store.run(self._until_closed(plan))

    def _until_closed(self, plan: Plan[T]) -> Plan[T]:
        """Run a plan, which may be long, and raise _Closed between two of its batches."""
        try:
            batch = next(plan)
            while not self._closing:
                batch = plan.send((yield batch))
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            plan.close()
        raise _Closed

    def _hear(self, timeout_s: float) -> None:
        """Wait for a doorbell, then take in what rang meanwhile."""
        try:
            if self._bell is None and self._core.bell_due(monotonic()):
                self._bell = self._store.doorbell()
            if self._bell is None:
                self._nap(timeout_s)
                return
            if self._core.is_deaf:
                raise StoreTimeout("changes are not heard of any more")
            timeout_s = min(timeout_s, NAP_S)
            for _ in range(MOST_AT_ONCE):
                message = self._bell.wait(timeout_s)
                if message is None:
                    return
                timeout_s = 0.0
                with self._news:
                    self._core.heard(message)
                    self._news.notify_all()
        except RegistryError as error:
            self._drop_bell()
            with self._news:
                self._core.bell_failed(error, monotonic())

    def _nap(self, timeout_s: float) -> None:
        with self._news:
            if not self._closing:
                self._news.wait(min(timeout_s, NAP_S))

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, CorruptData):  # after a failover, the doorbell may hang on the wrong server
            self._drop_bell()
        with self._news:
            self._core.failed(error, monotonic())
            self._news.notify_all()

    def _drop_bell(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            with suppress(Exception):  # what cannot even be closed is gone already
                bell.close()
