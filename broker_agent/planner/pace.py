"""When an agent calls the store again: pure, the time is passed in; chance keeps agents out of step."""

from __future__ import annotations

import random
from typing import Final

_FIRST_RETRY_S: Final = 0.1
_MOST_DOUBLINGS: Final = 20  # more would only overflow: the heartbeat interval is the cap

_REJOIN_S: Final = 0.2
"""When the store loses its data, all agents come back at once; this spreads them out."""

_LOOK_S: Final = 1.0
"""A standby looks so often whether the owner has gone before its time; when the lease ends it knows."""

_MARGIN_S: Final = (0.01, 0.1)
"""So much later than the owner's lease ends a standby tries: two of them are not to meet."""

_SOON_S: Final = 0.02
"""Within so much it looks when the owner has perhaps left: not all of them at the same moment."""

_JITTER: Final = 0.1
"""By this part of it intervals are shortened or lengthened."""


class Pacing:
    """The pauses of one agent: between heartbeats, after failures, and between the looks of a standby."""

    def __init__(self, heartbeat_s: float, rng: random.Random) -> None:
        self.heartbeat_s = heartbeat_s
        self._look_s = min(_LOOK_S, heartbeat_s)
        self._rng = rng
        self._failures = 0
        self._left = False
        """The owner has perhaps left, while a call was under way that may not have seen it."""

    def call_begins(self) -> None:
        """A call is made: it sees all that happened so far."""
        self._left = False

    def next_heartbeat_s(self, began_s: float) -> float:
        """Return when to renew a lease that a call renewed which began then."""
        return began_s + self.heartbeat_s * self._rng.uniform(1 - _JITTER, 1)

    def next_try_s(self, now: float) -> float:
        """Take that a call has failed; return when to try again."""
        doubled = 1 << min(self._failures, _MOST_DOUBLINGS)
        self._failures += 1
        return now + min(self.heartbeat_s, _FIRST_RETRY_S * doubled) * self._rng.uniform(0.5, 1)

    def recovered(self) -> None:
        """Take that calls succeed again."""
        self._failures = 0

    def rejoin_s(self, now: float) -> float:
        """Return when to register again after the store has lost the lease or the table."""
        return now + self._rng.uniform(0, _REJOIN_S)

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
