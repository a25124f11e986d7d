"""Runs the sweep: one process of a registry at a time makes the end of leases known at once."""

from __future__ import annotations

import random
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Self

from .concurrency_async import LONGEST_WAIT_S, Background
from .errors import RegistryError
from .sweep_policy import SweepPolicy

if TYPE_CHECKING:
    from .connection.links_async import AsyncSubscription
    from .store_async import AsyncRouteStore


class AsyncSweeper:
    """Takes part in the sweep in the background, from start() to aclose(); the store stays the caller's.

    `quiet`: the caller logs itself that the store does not answer, or refuses.
    """

    def __init__(
        self, store: AsyncRouteStore, rng: random.Random | None = None, *, quiet: bool = False
    ) -> None:
        self._store = store
        self._policy = SweepPolicy(store.config, rng, quiet=quiet)
        self._background = Background(
            self.run, "sharedroutes-sweeper", patience_s=store.config.call_deadline_s + 1
        )
        self._events: AsyncSubscription[tuple[str, int]] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def clock_problem(self) -> str | None:
        """What is wrong with the clock of the store's server and what to do about it; None = nothing."""
        return self._policy.clock.problem

    async def start(self) -> None:
        """Begin to sweep; does nothing when it has begun. Raises RuntimeError after aclose()."""
        if self._background.is_stopping:
            raise RuntimeError("the sweeper was closed: make a new one")
        self._background.start()

    async def aclose(self) -> None:
        """Stop sweeping; another process takes over when the sweeper's lease has ended."""
        await self._background.stop()

    async def run(self) -> None:
        """Sweep in the foreground until aclose(), whatever the store answers."""
        try:
            while not self._background.is_stopping:
                pause_s = await self._sweep()
                if not self._policy.listens:
                    await self._hang_up()
                await self._rest(pause_s)
        finally:
            await self._hang_up()

    async def _sweep(self) -> float:
        """Sweep once; return the seconds until the next time."""
        begin_s = monotonic()
        try:
            sweep = await self._store.sweep(self._policy.holder)
        except Exception as error:  # noqa: BLE001 - logged there; nobody would notice a sweeper that ended
            return self._policy.failed(error)
        return self._policy.answered(sweep, begin_s, monotonic())

    async def _rest(self, pause_s: float) -> None:
        """Listen to keyspace events, if they are of use, until it is time to sweep again."""
        until_s = monotonic() + pause_s
        try:
            while self._policy.listens and not self._background.is_stopping and monotonic() < until_s:
                await self._listen(min(until_s - monotonic(), LONGEST_WAIT_S))
        except Exception as error:  # noqa: BLE001 - logged there
            self._policy.deaf(error)
            await self._hang_up()
        await self._background.pause(max(0.0, until_s - monotonic()))

    async def _listen(self, timeout_s: float) -> None:
        """Announce the end of a lease that a keyspace event tells of."""
        if self._events is None:
            self._events = self._store.lease_events()
        lease = await self._events.wait(timeout_s)
        if lease is not None and self._policy.is_news(lease) and await self._store.expire(*lease):
            self._policy.announced(lease)

    async def _hang_up(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            with suppress(RegistryError):  # a store that is away has hung up by itself
                await events.aclose()
