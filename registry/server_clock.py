"""Notices a server whose clock stands still or jumps: there, leases end late, early or never."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

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
        return False  # the key went away, or somebody else renewed it: that says nothing
    return last.ttl_after_ms - look.ttl_before_ms < least_ms
