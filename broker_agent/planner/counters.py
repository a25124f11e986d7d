"""Counts what an agent did, and since when it is in its phase."""

from __future__ import annotations

from typing import Final

from .status import Phase

_LISTINGS_EVERY: Final = 10
"""Looking at the listings costs the store half as much as all the rest of a heartbeat."""


class Tally:
    """The figures behind an agent's status; times are those of the planner's clock."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.since_s: float | None = None
        self.confirmed_s: float | None = None
        """When the call began by which the store confirmed the lease last."""

        self.registrations = 0
        self.heartbeats = 0
        self.failures = 0
        self.fenced = 0

    @property
    def wants_listings(self) -> bool:
        """Whether the next heartbeat is one of those that look at the listings, too."""
        return self.heartbeats % _LISTINGS_EVERY == 1

    def phase_is(self, phase: Phase, now: float) -> None:
        """Note the phase."""
        if phase is not self.phase or self.since_s is None:
            self.phase, self.since_s = phase, now

    def ago_s(self, at_s: float | None, now: float) -> float | None:
        """Return how long ago something was."""
        return None if at_s is None else max(0.0, now - at_s)
