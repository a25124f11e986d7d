"""The settings of fault tolerance: RocketMQ's latency ladders, and ours; units are in the names."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from ...registry.checks import check_int, check_one_of, check_seconds, check_share, check_type
from ...registry.errors import InvalidInput

Rules: TypeAlias = Literal["sharedroutes", "rocketmq-4", "rocketmq-5"]
"""By whose rules results restrict a broker, and which one is chosen when all are restricted.

sharedroutes: an isolation is only ever extended; an unreachable broker is left alone too, for some time.
rocketmq-5: the same, but whether a broker is reachable counts only when all are isolated, and has no end.
rocketmq-4: each answer sets the isolation anew, even to none; no broker is unreachable. When all are
isolated, the half with the better last latency is used, whichever was tried before.
"""

Probe: TypeAlias = Callable[[str, float], bool | Awaitable[bool]]
"""Returns whether a broker can be reached at `host:port` within so many seconds; asyncio may await it."""

_A_DAY_MS: Final = 86_400_000
_MANY: Final = 1_000_000
_SHORTEST_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Ladder:
    """How long a broker is left alone after an answer took so long; the defaults are RocketMQ's since 5.1.4.

    Source: MQFaultStrategy (latencyMax, notAvailableDuration). An answer below the first step costs nothing.
    Raises InvalidInput for steps that make no sense.
    """

    latency_ms: tuple[int, ...] = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
    """The steps; an answer below the first costs nothing."""
    isolation_ms: tuple[int, ...] = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
    """For how long each step leaves a broker alone; more = fewer slow messages, fewer brokers in use."""
    failure_latency_ms: int = 10_000
    """The latency that a failure counts as, however quickly it came; more = longer alone after a connection
    that was merely cut."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultConfig:
    """When a broker is left alone, for how long, and how it comes back.

    Raises InvalidInput for values that do not fit. Sources: MQFaultStrategy for the ladder and the detector,
    Envoy's outlier detection and gRPC's A50 for ejections.
    """

    enabled: bool = True
    """Whether results restrict brokers at all (RocketMQ: sendLatencyFaultEnable, sendLatencyEnable); False =
    they are only counted, as RocketMQ comes."""

    rules: Rules = "sharedroutes"
    """By whose rules they do: "sharedroutes", "rocketmq-4" or "rocketmq-5"; see Rules. The other differences
    between these are settings: see PRESETS."""

    ladder: Ladder | None = LADDER
    """How long a broker is left alone after one slow or failed answer; None = not at all, so that one failure
    costs nothing."""

    consecutive_failures: int = 5
    """So many failures in a row eject a broker, and so does each further one once it is back; fewer = sooner,
    also for bad luck; 0 = never."""

    min_success_rate: float = 0.5
    """A broker of which a smaller share of the last 30 s of answers is good is ejected; more = stricter; 0 =
    never."""

    base_isolation_s: float = 10.0
    """For how long the first ejection leaves a broker alone; the n-th lasts n times as long. More = fewer
    messages to a bad broker, and a good one is missed for longer."""

    max_isolation_s: float = 60.0
    """The longest ejection before jitter, and the longest that a broker stays flagged as unreachable; more =
    fewer tries while a broker is down for long, and it comes back later.

    Envoy and gRPC allow 300 s, and eject a tenth of the brokers. Here it can be most of them, for instance
    after a fault of the client's own network, and they have to be back soon.
    """

    slow_start_s: float = 5.0
    """A broker that comes back gets a share of its turns that grows to all within this time; more = gentler
    on it, and harder on the others; 0 = at once."""

    detect: bool = False
    """Whether brokers that are left alone are probed in the background (RocketMQ: startDetectorEnable); costs
    a thread or task and connections, and takes the unreachable out of the last choice sooner."""

    detect_interval_s: float = 2.0
    """The time between two probes of a broker (RocketMQ: detectInterval)."""

    detect_timeout_s: float = 0.2
    """How long a probe may take (RocketMQ: detectTimeout); too little for a far broker makes it seem
    unreachable."""

    max_isolated_share: float | None = 0.75
    """At most this share of a topic's brokers is left alone, and never all of them; more = a fault of most is
    avoided, and the rest carries more.

    None = no limit, as in RocketMQ; if all are, the rules say which are used.
    """

    def __post_init__(self) -> None:
        if self.ladder is not None:
            check_type("ladder", self.ladder, Ladder)
        check_type("enabled", self.enabled, bool)
        check_type("detect", self.detect, bool)
        check_one_of("rules", self.rules, get_args(Rules))
        check_int("consecutive_failures", self.consecutive_failures, 0, _MANY)
        for name in ("base_isolation_s", "detect_interval_s", "detect_timeout_s"):
            check_seconds(name, getattr(self, name), _SHORTEST_S)
        check_seconds("max_isolation_s", self.max_isolation_s, self.base_isolation_s)
        check_seconds("slow_start_s", self.slow_start_s, 0)
        check_share("min_success_rate", self.min_success_rate)
        if self.max_isolated_share is not None:
            check_share("max_isolated_share", self.max_isolated_share)


class Tuning(NamedTuple):
    """Constants of the fault memory: clients use these values, tests of it other ones."""

    window_s: float = 30.0
    """The success rate is of so long: as Envoy's interval of 10 s, but long enough for `min_results` at a
    message a second."""

    min_results: int = 20
    """The success rate counts from so many results in the window on: fewer would be bad luck."""

    decay_s: float = 30.0
    """Each so many seconds of not being left alone make up for one ejection."""

    jitter_share: float = 0.2
    """Ejections and the times between probes are longer by up to this share, so that clients differ."""

    smallest_share: float = 0.1
    """The share of its turns with which a broker comes back: the first of the ten steps of slow start."""

    drop_after_s: float = 3_600.0
    """A broker without results for so long is dropped from the memory, which bounds its size."""


TUNING: Final = Tuning()
