"""When the store's clock is to be read for observers that want to know it; pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from math import inf
from typing import Final

from ...registry.health.report import Unknown
from .events import ClockObserver, ClockRead, Observer, Tell

_log: Final = logging.getLogger("sharedroutes.client")


class ClockReading:
    """Says when to read the store's clock, and tells what it said; never, if nobody wants to know.

    For one thread or task. Every `now` is in seconds of the monotonic clock.
    """

    def __init__(self, observers: Iterable[Observer], tell: Tell) -> None:
        wanted = (each.clock_every_s for each in observers if isinstance(each, ClockObserver))
        self._every_s = min(wanted, default=inf)
        self._tell = tell
        self._due_at = inf if self._every_s == inf else -inf
        self._is_refused = False

    def due(self, now: float) -> bool:
        """Whether to read it now."""
        return now >= self._due_at

    def was_read(self, store_us: int | Unknown, begin: float, now: float) -> None:
        """Take in what it said between `begin` and `now`: microseconds since 1970, or why it says nothing."""
        self._due_at = now + self._every_s
        if isinstance(store_us, Unknown):
            if not self._is_refused:
                self._is_refused = True
                _log.warning("the store does not tell its clock to observers: %s", store_us.reason)
            return
        half_s = (now - begin) / 2
        self._tell(ClockRead(store_us / 1e6, begin + half_s, half_s))
