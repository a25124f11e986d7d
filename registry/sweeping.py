"""Runs the sweep: one process of a registry at a time makes the end of leases known at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import threading
from collections.abc import Iterable
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from .clockwatch import ClockWatch, Look
from .concurrency_async import end, is_cancelled
from .config import RegistryConfig
from .errors import CorruptData, RegistryError, StoreRefused
from .model import Sweep

if TYPE_CHECKING:
    from .store import LeaseEvents, RouteStore
    from .store_async import AsyncLeaseEvents, AsyncRouteStore

_log = logging.getLogger("sharedroutes.registry")

_SHORTEST_S: Final = 0.005
"""Between two sweeps: a clock that stands still just before a deadline must not keep us busy."""

_PART_OF_LEASE: Final = 0.6
"""The sweeper calls again after this part of its lease, so that it keeps it."""

_NAP_S: Final = 0.1
"""Keyspace events are awaited in naps of at most this, so that close() is prompt."""


class Sweeping:
    """What one sweeper decides and says, for threads and for asyncio; every time is in monotonic seconds.

    A quiet one leaves it to its caller to tell that the store does not answer, or refuses.
    """

    def __init__(
        self, config: RegistryConfig, rng: random.Random | None = None, *, quiet: bool = False
    ) -> None:
        self._config = config
        self._quiet = quiet
        self._rng = rng or random.Random()
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{self._rng.getrandbits(32):08x}"
        """Names this sweeper to the others."""

        self._elected = False
        self._hears = True
        self._own: frozenset[tuple[str, int]] = frozenset()
        self._error: str | None = None
        self._reported: set[str] = set()
        self._clock = ClockWatch()

    @property
    def clock_problem(self) -> str | None:
        """What is wrong with the clock of the store's server and what to do about it; None = nothing."""
        return self._clock.problem

    @property
    def listens(self) -> bool:
        """Whether keyspace events are of use now: this is the elected sweeper, and may hear them."""
        return self._elected and self._hears

    def answered(self, sweep: Sweep, begin_s: float, end_s: float) -> float:
        """Say what a sweep found, asked for between two times; returns the seconds until the next one."""
        if self._error is not None:
            self._error = None
            self._say(logging.INFO, "the sweep goes on")
        self._elected = not sweep.held
        self._own = frozenset(sweep.expired)
        for lease in sweep.expired:
            self.announced(lease)
        self._report(sweep.corrupt)
        if sweep.clock_ms is not None:
            look = Look(begin_s, end_s, sweep.clock_ms, sweep.lease_before_ms, sweep.lease_after_ms)
            self._watch_clock(look)
        return self._pause_s(sweep)

    def failed(self, error: Exception) -> float:
        """Say that a sweep failed, once; returns the seconds until the next one."""
        self._elected = False
        if isinstance(error, CorruptData):
            self._report((error,))
        elif not isinstance(error, RegistryError):
            _log.error("a fault in the sweep; it goes on", exc_info=error)
        elif self._error != type(error).__name__:
            self._error = type(error).__name__
            level = logging.WARNING if isinstance(error, StoreRefused) else logging.INFO
            self._say(level, f"the end of leases is not made known from here: {error}")
        return self._pause_s(None)

    def is_news(self, lease: tuple[str, int]) -> bool:
        """Whether a keyspace event tells of something else than of what the last sweep did."""
        return lease not in self._own

    def announced(self, lease: tuple[str, int]) -> None:
        """Say that the end of a lease was made known."""
        _log.info("%s:%s: its lease has ended, clients are told so", *lease)

    def deaf(self, error: Exception) -> None:
        """Take in that keyspace events could not be heard or acted on: the sweep finds what they tell."""
        if isinstance(error, StoreRefused):
            self._hears = False
            _log.info("going on without keyspace events, which would only make the sweep quicker: %s", error)
        elif isinstance(error, CorruptData):
            self._report((error,))
        elif not isinstance(error, RegistryError):
            _log.error("a fault in listening to keyspace events; the sweep goes on", exc_info=error)

    def _say(self, level: int, text: str) -> None:
        """Tell about trouble with the store, unless somebody else of this process does."""
        if not self._quiet:
            _log.log(level, "%s", text)

    def _pause_s(self, sweep: Sweep | None) -> float:
        """Return the seconds until the next sweep; None = the store did not answer.

        The sweeper sleeps until the next lease can end, at most 0.6 of its own lease: one that is made
        meanwhile and ends before is announced late by less than that. The others only look, about three
        times in the usual TTL of a lease, whether it is still there: a lease that ends with the host of the
        sweeper lives longer than that; one with a shorter TTL is announced when somebody has taken over.
        """
        if sweep is None or sweep.held:
            return self._config.lease_ttl_s * self._rng.uniform(0.2, 0.4)
        longest_s = self._config.sweeper_lease_s * _PART_OF_LEASE
        if sweep.wait_s is None:
            return longest_s
        return min(max(sweep.wait_s, _SHORTEST_S), longest_s)

    def _watch_clock(self, look: Look) -> None:
        before = self._clock.problem
        self._clock.look(look)
        after = self._clock.problem
        if after is not None and after != before:
            _log.error("%s", after)
        elif after is None and before is not None:
            _log.info("the clock of the store's server keeps pace again")

    def _report(self, corrupt: Iterable[CorruptData]) -> None:
        for error in corrupt:
            if error.key not in self._reported:
                self._reported.add(error.key)
                _log.error("the end of a lease cannot be announced: %s", error)


class Sweeper:
    """Takes part in the sweep with a daemon thread, from start() to close(); the store stays the caller's."""

    def __init__(self, store: RouteStore, rng: random.Random | None = None) -> None:
        self._store = store
        self._sweeping = Sweeping(store.config, rng)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._events: LeaseEvents | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def clock_problem(self) -> str | None:
        """What is wrong with the clock of the store's server and what to do about it; None = nothing."""
        return self._sweeping.clock_problem

    def start(self) -> None:
        """Begin to sweep; does nothing when it has begun. Raises RuntimeError after close()."""
        if self._stopping.is_set():
            raise RuntimeError("the sweeper was closed: make a new one")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sharedroutes-sweeper", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop sweeping; another process takes over when the sweeper's lease has ended."""
        self._stopping.set()
        if self._thread is not None:
            # A store that hangs lets go of the thread at its deadline; a daemon thread outlives nobody.
            self._thread.join(self._store.config.call_deadline_s + 1)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                pause_s = self._sweep()
                if not self._sweeping.listens:
                    self._hang_up()
                self._rest(pause_s)
        finally:
            self._hang_up()

    def _sweep(self) -> float:
        begin_s = monotonic()
        try:
            sweep = self._store.sweep(self._sweeping.holder)
        except Exception as error:  # noqa: BLE001 - said there; a sweeper that ends would be missed by nobody
            return self._sweeping.failed(error)
        return self._sweeping.answered(sweep, begin_s, monotonic())

    def _rest(self, pause_s: float) -> None:
        until_s = monotonic() + pause_s
        try:
            while self._sweeping.listens and not self._stopping.is_set() and monotonic() < until_s:
                self._listen(min(until_s - monotonic(), _NAP_S))
        except Exception as error:  # noqa: BLE001 - said there
            self._sweeping.deaf(error)
            self._hang_up()
        self._stopping.wait(max(0.0, until_s - monotonic()))

    def _listen(self, timeout_s: float) -> None:
        """Announce the end of a lease that a keyspace event tells of."""
        if self._events is None:
            self._events = self._store.lease_events()
        lease = self._events.wait(timeout_s)
        if lease is not None and self._sweeping.is_news(lease) and self._store.expire(*lease):
            self._sweeping.announced(lease)

    def _hang_up(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(RegistryError):  # a store that is away has hung up by itself
                events.close()


class AsyncSweeper:
    """Takes part in the sweep with a task, from start() to aclose(); method for method as Sweeper."""

    def __init__(
        self, store: AsyncRouteStore, rng: random.Random | None = None, *, quiet: bool = False
    ) -> None:
        self._store = store
        self._sweeping = Sweeping(store.config, rng, quiet=quiet)
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._events: AsyncLeaseEvents | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def clock_problem(self) -> str | None:
        """What is wrong with the clock of the store's server and what to do about it; None = nothing."""
        return self._sweeping.clock_problem

    async def start(self) -> None:
        """Begin to sweep; does nothing when it has begun. Raises RuntimeError after aclose()."""
        if self._closed:
            raise RuntimeError("the sweeper was closed: make a new one")
        if self._task is None:
            self._task = asyncio.create_task(self.run(), name="sharedroutes-sweeper")

    async def aclose(self) -> None:
        """Stop sweeping; another process takes over when the sweeper's lease has ended."""
        self._closed = True
        if self._task is not None:
            await end(self._task)

    async def run(self) -> None:
        """Sweep until cancelled, whatever the store answers."""
        try:
            while not is_cancelled():
                pause_s = await self._sweep()
                if not self._sweeping.listens:
                    await self._hang_up()
                await self._rest(pause_s)
        finally:
            await self._hang_up()

    async def _sweep(self) -> float:
        begin_s = monotonic()
        try:
            sweep = await self._store.sweep(self._sweeping.holder)
        except Exception as error:  # noqa: BLE001 - said there; a sweeper that ends would be missed by nobody
            return self._sweeping.failed(error)
        return self._sweeping.answered(sweep, begin_s, monotonic())

    async def _rest(self, pause_s: float) -> None:
        until_s = monotonic() + pause_s
        try:
            while self._sweeping.listens and not is_cancelled() and monotonic() < until_s:
                await self._listen(until_s - monotonic())
        except Exception as error:  # noqa: BLE001 - said there
            self._sweeping.deaf(error)
            await self._hang_up()
        await asyncio.sleep(max(0.0, until_s - monotonic()))

    async def _listen(self, timeout_s: float) -> None:
        """Announce the end of a lease that a keyspace event tells of."""
        if self._events is None:
            self._events = self._store.lease_events()
        lease = await self._events.wait(timeout_s)
        if lease is not None and self._sweeping.is_news(lease) and await self._store.expire(*lease):
            self._sweeping.announced(lease)

    async def _hang_up(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            with contextlib.suppress(RegistryError):  # a store that is away has hung up by itself
                await events.aclose()


async def sweep_on(store: AsyncRouteStore, rng: random.Random) -> None:
    """Take part in the sweep until cancelled; that the store does not answer is for the caller to tell."""
    await AsyncSweeper(store, rng, quiet=True).run()
