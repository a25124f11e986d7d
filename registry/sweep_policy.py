"""What a sweeper decides: when to sweep again, whether to listen to keyspace events, what to log.

It also watches the clock of the store's server: if it stands still or jumps, leases end late, early or never.
"""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .config import RegistryConfig
from .errors import CorruptData, RegistryError, StoreRefused
from .model import Sweep

_log = logging.getLogger("sharedroutes.registry")

_SHORTEST_S: Final = 0.005
"""The shortest pause: a clock that stands still just before a deadline must not cause a busy loop."""

_PART_OF_LEASE: Final = 0.6
"""The part of its lease after which the sweeper renews it."""


STILL_S: Final = 1.0
"""A clock that has not kept pace for so much local time stands still."""

JUMP_S: Final = 5.0
"""A clock that came so much further than the local one, or went back by more than that, has jumped."""

CALM_S: Final = 5.0
"""A problem is over when the clock has kept pace for so long."""

_PACE: Final = 0.5
"""A clock keeps pace when it makes at least this part of the local progress."""

_SEVERAL: Final = 2
"""Intervals that must agree: one alone may hold a small step back."""


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
        self.clock = ClockWatch()

    @property
    def listens(self) -> bool:
        """Whether keyspace events are of use now: this is the elected sweeper, and may hear them."""
        return self._elected and self._hears

    def answered(self, sweep: Sweep, begin_s: float, end_s: float) -> float:
        """Log what a sweep found that ran between two times; return the seconds until the next one."""
        if self._error is not None:
            self._error = None
            self._say(logging.INFO, "the sweep continues")
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
        """Log that a sweep failed, once; return the seconds until the next one."""
        self._elected = False
        if isinstance(error, CorruptData):
            self._report((error,))
        elif not isinstance(error, RegistryError):
            _log.error("a fault in the sweep; it continues", exc_info=error)
        elif self._error != type(error).__name__:
            self._error = type(error).__name__
            level = logging.WARNING if isinstance(error, StoreRefused) else logging.INFO
            self._say(level, f"this process cannot announce the end of leases: {error}")
        return self._pause_s(None)

    def is_news(self, lease: tuple[str, int]) -> bool:
        """Whether a keyspace event is about another lease than those that the last sweep ended."""
        return lease not in self._own

    def announced(self, lease: tuple[str, int]) -> None:
        """Log that the end of a lease was announced."""
        _log.info("%s:%s: its lease has ended; the change was announced", *lease)

    def deaf(self, error: Exception) -> None:
        """Note that listening to keyspace events failed: the sweep finds what they would have announced."""
        if isinstance(error, StoreRefused):
            self._hears = False
            _log.info(
                "continuing without keyspace events, which would only make the sweep quicker: %s", error
            )
        elif isinstance(error, CorruptData):
            self._report((error,))
        elif not isinstance(error, RegistryError):
            _log.error("a fault in listening to keyspace events; the sweep continues", exc_info=error)

    def _say(self, level: int, text: str) -> None:
        """Log trouble with the store, unless the caller does."""
        if not self._quiet:
            _log.log(level, "%s", text)

    def _pause_s(self, sweep: Sweep | None) -> float:
        """Return the seconds until the next sweep; None = the store did not answer.

        The sweeper sleeps until the next lease can end, but for at most 0.6 of its own lease: a lease that is
        made meanwhile and ends sooner is announced late by less than that. The other processes only check,
        about three times in the usual TTL of a lease, whether the sweeper is still there. A broker that dies
        together with the sweeper's host is announced when another process has taken over.
        """
        if sweep is None or sweep.held:
            return self._config.lease_ttl_s * self._rng.uniform(0.2, 0.4)
        longest_s = self._config.sweeper_lease_s * _PART_OF_LEASE
        if sweep.wait_s is None:
            return longest_s
        return min(max(sweep.wait_s, _SHORTEST_S), longest_s)

    def _watch_clock(self, look: Look) -> None:
        before = self.clock.problem
        self.clock.look(look)
        after = self.clock.problem
        if after is not None and after != before:
            _log.error("%s", after)
        elif after is None and before is not None:
            _log.info("the clock of the store's server keeps pace again")

    def _report(self, corrupt: Iterable[CorruptData]) -> None:
        for error in corrupt:
            if error.key not in self._reported:
                self._reported.add(error.key)
                _log.error("the end of a lease cannot be announced: %s", error)


class _Kind(Enum):
    STILL = (
        "the clock of the store's server stands still, or nearly: it did not keep pace for {seconds:.1f} s. "
        "Leases end late there, or never, and brokers that died look alive: restart the server, and check "
        "the clock of its host"
    )
    JUMPED = (
        "the clock of the store's server jumped by {seconds:+.1f} s (or another server took over, or this "
        "machine slept): leases that were not renewed since end too early or too late. Let NTP slew the "
        "clocks of the store's hosts instead of setting them, and keep them in step with each other"
    )


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of the server's clock, taken between two readings of the local monotonic one."""

    begin_s: float
    end_s: float
    clock_ms: int
    ttl_before_ms: int | None = None
    """What was left of one key's TTL; None = it had none."""

    ttl_after_ms: int | None = None
    """What is left of it now: more, when it was renewed."""


class ClockWatch:
    """Compares the progress of a server's clock, and of a TTL there, with local progress.

    The clocks themselves are never compared: what they show may differ by any amount.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        """What is wrong with the server's clock and what to do about it; None = it keeps pace."""

        self._kind: _Kind | None = None
        self._last: Look | None = None
        self._still_since: Look | None = None
        self._still_intervals = 0
        self._bad_at_s = 0.0

    def look(self, look: Look) -> None:
        """Judge the clock by one more look at it, and set `problem`."""
        last, self._last = self._last, look
        if last is None:
            return
        jump_s = _jump_s(last, look)
        if jump_s is None and _is_still(last, look):
            self._still_since = self._still_since or last
            self._still_intervals += 1
            for_s = look.begin_s - self._still_since.end_s
            if self._still_intervals >= _SEVERAL and for_s >= STILL_S:
                self._found(_Kind.STILL, for_s, look)
            return
        self._still_since, self._still_intervals = None, 0
        if jump_s is not None:
            self._found(_Kind.JUMPED, jump_s, look)
        elif look.end_s - self._bad_at_s >= CALM_S:
            self.problem = self._kind = None

    def _found(self, kind: _Kind, seconds: float, look: Look) -> None:
        self._bad_at_s = look.end_s
        if kind is not self._kind:  # else the text stays as it was first said
            self._kind = kind
            self.problem = kind.value.format(seconds=seconds)


def _jump_s(last: Look, look: Look) -> float | None:
    """Return how far the clock is off when it has jumped: positive = forward."""
    moved_s = (look.clock_ms - last.clock_ms) / 1000
    ahead_s = moved_s - (look.end_s - last.begin_s)
    behind_s = look.begin_s - last.end_s - moved_s
    if ahead_s > JUMP_S:
        return ahead_s
    return -behind_s if moved_s < 0 and behind_s > JUMP_S else None


def _is_still(last: Look, look: Look) -> bool:
    """Whether the clock, or the TTL, made far less progress than the local clock must have made."""
    least_ms = (look.begin_s - last.end_s) * 1000 * _PACE
    if look.clock_ms - last.clock_ms < least_ms:
        return True
    if last.ttl_after_ms is None or look.ttl_before_ms is None or look.ttl_before_ms > last.ttl_after_ms:
        return False  # the key went away, or another process renewed it: that says nothing
    return last.ttl_after_ms - look.ttl_before_ms < least_ms
