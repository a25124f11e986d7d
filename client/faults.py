"""Which brokers not to send to for a while: RocketMQ's latency ladder, on the monotonic clock."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from ..registry.errors import InvalidInput

__all__ = ["LADDER", "FaultMemory", "Ladder"]

_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Ladder:
    """How long a broker is left alone after an answer took so long; the defaults are RocketMQ's since 5.1.4.

    Source: MQFaultStrategy (latencyMax, notAvailableDuration). An answer below the first step costs nothing.
    """

    latency_ms: tuple[int, ...] = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
    isolation_ms: tuple[int, ...] = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
    failure_latency_ms: int = 10_000
    """What a failure counts as, however quickly it came."""

    def __post_init__(self) -> None:
        if len(self.latency_ms) != len(self.isolation_ms) or not self.latency_ms:
            raise InvalidInput(
                "ladder: latency_ms and isolation_ms must have the same number of steps, at least one"
            )
        if list(self.latency_ms) != sorted(self.latency_ms) or min(self.isolation_ms) < 0:
            raise InvalidInput("ladder: latency_ms must ascend and isolation_ms must not be negative")

    def isolation_s(self, latency_s: float, *, failed: bool) -> float:
        """Return for how many seconds to leave a broker alone."""
        latency_ms = self.failure_latency_ms if failed else latency_s * 1000
        step = bisect_right(self.latency_ms, latency_ms) - 1
        return self.isolation_ms[step] / 1000 if step >= 0 else 0.0


LADDER: Final = Ladder()


class FaultMemory:
    """The brokers that are left alone, and until when (RocketMQ: LatencyFaultToleranceImpl); thread-safe.

    Every `now` is in seconds of the monotonic clock.
    """

    __slots__ = ("_blocked", "_ladder", "_lock", "_next_end", "_until", "quiet")

    def __init__(self, ladder: Ladder = LADDER) -> None:
        self._ladder = ladder
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}
        self._blocked = _NOBODY
        self._next_end = 0.0
        self.quiet = True
        """Whether nobody at all is left alone: the one thing the hot path looks at."""

    def record(self, broker_name: str, latency_s: float, *, failed: bool, now: float) -> None:
        """Take in one outcome.

        An isolation is only ever extended, as in RocketMQ: a late good answer does not end it.
        """
        isolation_s = self._ladder.isolation_s(latency_s, failed=failed)
        if isolation_s == 0:
            return
        with self._lock:
            if now + isolation_s > self._until.get(broker_name, 0.0):
                self._until[broker_name] = now + isolation_s
                self._settle(now)

    def forget(self, broker_name: str) -> None:
        """End an isolation: the broker was started anew."""
        with self._lock:
            if self._until.pop(broker_name, None) is not None:
                self._publish()

    def blocked(self, now: float) -> frozenset[str]:
        """Return the brokers to leave alone; the same object as long as it does not change."""
        if self.quiet or now < self._next_end:
            return self._blocked
        with self._lock:
            self._settle(now)
            return self._blocked

    def _settle(self, now: float) -> None:
        self._until = {name: end for name, end in self._until.items() if end > now}
        self._publish()

    def _publish(self) -> None:
        self._blocked = frozenset(self._until)
        self._next_end = min(self._until.values(), default=0.0)
        self.quiet = not self._until
