"""How long a broker is left alone after a slow or failed answer: RocketMQ's latency ladders."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from ...registry.checks import check_int
from ...registry.errors import InvalidInput

_A_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Ladder:
    """How long a broker is left alone after an answer took so long; the defaults are RocketMQ's since 5.1.4.

    Source: MQFaultStrategy (latencyMax, notAvailableDuration). An answer below the first step costs nothing.
    Raises InvalidInput for steps that make no sense.
    """

    latency_ms: tuple[int, ...] = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
    isolation_ms: tuple[int, ...] = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
    failure_latency_ms: int = 10_000
    """What a failure counts as, however quickly it came."""

    def __post_init__(self) -> None:
        if len(self.latency_ms) != len(self.isolation_ms) or not self.latency_ms:
            raise InvalidInput(
                f"ladder: latency_ms has {len(self.latency_ms)} steps and isolation_ms "
                f"{len(self.isolation_ms)}: must be the same number, at least one"
            )
        for value in self.latency_ms:
            check_int("ladder: latency_ms", value, 0, _A_DAY_MS)
        for value in self.isolation_ms:
            check_int("ladder: isolation_ms", value, 0, _A_DAY_MS)
        check_int("ladder: failure_latency_ms", self.failure_latency_ms, 0, _A_DAY_MS)
        if list(self.latency_ms) != sorted(self.latency_ms):
            raise InvalidInput(f"ladder: latency_ms: {self.latency_ms} does not ascend")

    def isolation_s(self, latency_s: float, *, failed: bool) -> float:
        """Return for how many seconds to leave a broker alone."""
        latency_ms = self.failure_latency_ms if failed else latency_s * 1000
        step = bisect_right(self.latency_ms, latency_ms) - 1
        return self.isolation_ms[step] / 1000 if step >= 0 else 0.0


LADDER: Final = Ladder()
"""RocketMQ 5.1.4 and later."""

LADDER_4: Final = Ladder(
    latency_ms=(50, 100, 550, 1_000, 2_000, 3_000, 15_000),
    isolation_ms=(0, 0, 30_000, 60_000, 120_000, 180_000, 600_000),
    failure_latency_ms=30_000,
)
"""RocketMQ 4.x and 5.0.0 to 5.1.3: it leaves a broker that failed once alone for ten minutes."""
