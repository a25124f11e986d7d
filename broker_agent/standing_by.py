"""When a standby looks whether it may have the broker; pure, the time is passed in."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["StandingBy"]

_LOOK_S: Final = 1.0
"""A standby looks so often whether the owner has gone before its time; when the lease ends it knows."""

_MARGIN_S: Final = (0.01, 0.1)
"""So much later than the owner's lease ends a standby tries: two of them are not to meet."""

_SOON_S: Final = 0.02
"""Within so much it looks when the owner has perhaps left: not all of them at the same moment."""

_JITTER: Final = 0.1


class StandingBy:
    """The looks of one standby: one a second, one after the end of the lease, one when the owner leaves."""

    def __init__(self, heartbeat_s: float, rng: random.Random) -> None:
        self._look_s = min(_LOOK_S, heartbeat_s)
        self._rng = rng
        self._left = False
        """The owner has perhaps left, while a call was under way that may not have seen it."""

    def look_begins(self) -> None:
        """A call is made: it sees all that happened so far."""
        self._left = False

    def owner_left(self, now: float) -> float:
        """Take that the owner has perhaps left; return when to look."""
        self._left = True
        return now + self._rng.uniform(0, _SOON_S)

    def next_look_s(self, now: float, ends_in_s: float) -> float:
        """Return when to look again after a refusal; the owner's lease lasts for `ends_in_s` seconds."""
        if self._left:
            return now + self._rng.uniform(0, _SOON_S)
        soon_s = self._look_s * self._rng.uniform(1, 1 + _JITTER)
        return now + min(soon_s, ends_in_s + self._rng.uniform(*_MARGIN_S))
