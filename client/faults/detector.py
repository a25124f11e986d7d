"""Which of the brokers that are left alone to probe, and when (RocketMQ: the detector's thread)."""

from __future__ import annotations

import random

from .config import FaultConfig
from .memory import FaultMemory


class Detector:
    """The schedule of the probes; for one thread or task, which does the waiting and the probing.

    Every `now` is in seconds of the monotonic clock.
    """

    __slots__ = ("_config", "_due_at", "_memory", "_rng")

    def __init__(self, memory: FaultMemory, config: FaultConfig, rng: random.Random | None = None) -> None:
        self._memory = memory
        self._config = config
        self._rng = rng or random.Random()
        self._due_at: dict[str, float] = {}

    def due(self, now: float) -> tuple[str, ...]:
        """Return the brokers to probe now, the worst first; each is due again after the interval."""
        blocked = self._memory.verdict(now).blocked
        due_at = {name: self._due_at.get(name, now) for name in blocked}
        due = tuple(name for name in blocked if due_at[name] <= now)
        for name in due:
            due_at[name] = now + self._config.detect_interval_s * self._stretch()
        self._due_at = due_at
        return due

    def next_due(self, now: float) -> float:
        """Return when to ask again: at the next probe, or after an interval for who was isolated since."""
        return min(self._due_at.values(), default=now + self._config.detect_interval_s * self._stretch())

    def _stretch(self) -> float:
        return 1 + self._config.jitter_share * self._rng.random()
