"""What a sweeper decides: when to sweep again, whether to listen to keyspace events, what to log."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Iterable
from typing import Final

from .config import RegistryConfig
from .errors import CorruptData, RegistryError, StoreRefused
from .model import Sweep
from .server_clock import ClockWatch, Look

_log = logging.getLogger("sharedroutes.registry")

_SHORTEST_S: Final = 0.005
"""Between two sweeps: a clock that stands still just before a deadline must not keep us busy."""

_PART_OF_LEASE: Final = 0.6
"""The sweeper calls again after this part of its lease, so that it keeps it."""


class SweepPolicy:
    """The decisions of one sweeper; every time is in seconds of the monotonic clock.

    A quiet one does not log that the store does not answer, or refuses: its caller does.
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
