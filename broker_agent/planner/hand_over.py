"""How an agent ends beside a broker that may go on: pure, the time is passed in."""

from __future__ import annotations

import logging
from typing import Final

from .intent import Intent
from .journal import Journal
from .lease import Holding

LEAST_WATCH_S: Final = 0.5
"""A broker that ended just before its agent is told to (so systemd does it) is to be noticed first."""


class HandingOver:
    """An agent that was told to end watches its broker for a while, and takes it out if that ends as well.

    After that it renews the lease once more and leaves it to the agent that comes next.
    """

    def __init__(self, intent: Intent, holding: Holding, journal: Journal) -> None:
        self._intent, self._holding, self._journal = intent, holding, journal
        self.ends_at_s: float | None = None
        """Until then the broker is watched; None = nobody has told this agent to hand over."""

        self._has_asked = False

    def begin(self, now: float, watch_s: float) -> None:
        """Watch the broker for `watch_s` seconds from `now`, or for less if that was said before.

        A shorter time than LEAST_WATCH_S counts as that.
        """
        if self._intent.draining:  # who drains has decided that it leaves
            self._intent.stop()
        ends_at_s = now + max(watch_s, LEAST_WATCH_S)
        self.ends_at_s = ends_at_s if self.ends_at_s is None else min(self.ends_at_s, ends_at_s)
        if self._is_anothers or self._intent.why_out() or self._intent.stopping or watch_s < LEAST_WATCH_S:
            return
        text = f"told to end while the broker is up: watching it for {watch_s:g} s, a second signal ends that"
        self._journal.say(logging.INFO, text)

    @property
    def leaves_lease(self) -> bool:
        """Whether the lease is left to the next agent, as far as anybody can tell."""
        return self.ends_at_s is not None and not self._intent.stopping

    def is_leaving(self, now: float) -> bool:
        """Whether the agent ends, and only its last calls are left."""
        return self._intent.stopping or self.is_over(now)

    def is_over(self, now: float) -> bool:
        """Whether the watch has ended."""
        return self.ends_at_s is not None and now >= self.ends_at_s

    def wants_renewal(self, now: float, renewed_s: float | None, *, busy: bool) -> bool:
        """Take the next step at `now`; return whether the lease is to be renewed at once for the next agent.

        It was renewed last at `renewed_s`; `busy`: a call of the store is under way.
        """
        if self.ends_at_s is None or self._intent.stopping:
            return False
        is_out = self._intent.why_out() or (self._intent.draining and self.is_over(now))
        if is_out or (self._is_anothers and not busy):  # a registration under way may still be granted
            self._intent.stop()
        elif self.is_over(now) and not busy:
            if self._holding.is_leased and (renewed_s is None or renewed_s < self.ends_at_s):
                first, self._has_asked = not self._has_asked, True
                return first
            self._leave()
        return False

    @property
    def _is_anothers(self) -> bool:
        """Whether another agent, or an operator there, decides about the broker, as far as was heard."""
        return self._journal.is_elsewhere or self._journal.is_kept_out

    def _leave(self) -> None:
        if self._holding.is_leased:
            text = "handed over: the broker stays registered for the next agent, until its lease ends"
            self._journal.say(logging.INFO, text)
        self._holding.lost()
        self._intent.stop()
