"""Whether to believe an answer that takes most of the routes away; pure."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

MASS_LOSS_SHARE: Final = 0.5
"""A loss of more than this share of the live brokers in use is not believed at once: one zone of two may
die, a larger part looks like a fault of the store."""

Reason: TypeAlias = Literal["mass loss", "changes lost"]


class MassLossGuard:
    """Holds back a mass loss for a limited time; every `now` is in seconds of the monotonic clock.

    A store that was restarted empty, rolled back or cut off looks like a fleet that died at once. The guard
    arms itself when an answer loses more than a share of the live brokers, or when it is told that the store
    lost data, and lets go after `hold_s`, or as soon as it is told that nothing is missing; then it judges
    anew.
    """

    __slots__ = ("_hold_s", "_share", "reason", "until")

    def __init__(self, share: float, hold_s: float) -> None:
        self._share = share
        self._hold_s = hold_s
        self.until: float | None = None
        """When losses are believed again; None while the guard is not armed."""

        self.reason: Reason = "mass loss"
        """Why it was armed last."""

    def arm(self, now: float) -> None:
        """Begin to hold losses back, if not yet doing so."""
        if self.until is None or now >= self.until:
            self.until, self.reason = now + self._hold_s, "changes lost"

    def disarm(self) -> None:
        """Believe answers again: everything that was held back has come back."""
        self.until = None

    def holds(self, known: int, lost: int, now: float) -> bool:
        """Whether an answer that loses `lost` of `known` live brokers is to be held back."""
        if self.until is None:
            if lost <= self._share * known:
                return False
            self.until, self.reason = now + self._hold_s, "mass loss"
        elif lost and now >= self.until:  # believed from here on; the next loss is judged anew
            self.until = None
            return False
        return now < self.until
