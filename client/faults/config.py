"""The settings of fault tolerance; units are in the names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from ...registry.checks import check_int, check_seconds, check_share, check_type
from ...registry.errors import InvalidInput
from .ladder import LADDER, Ladder

Rules: TypeAlias = Literal["sharedroutes", "rocketmq-4", "rocketmq-5"]
"""By whose rules results restrict a broker, and who is chosen when all are restricted.

sharedroutes: an isolation is only ever extended; who is unreachable is left alone too, for a limited time.
rocketmq-5: the same, but whether a broker is reachable counts only when all are isolated, and has no end.
rocketmq-4: each answer sets the isolation anew, even to none; nobody is unreachable. When all are isolated,
the half with the better last latency is used, whoever was tried before.
"""

_MANY: Final = 1_000_000
_SHORTEST_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultConfig:
    """When a broker is left alone, for how long, and how it comes back.

    Raises InvalidInput for values that do not fit. Sources: MQFaultStrategy for the ladder and the detector,
    Envoy's outlier detection and gRPC's A50 for ejections.
    """

    enabled: bool = True
    """Whether results restrict brokers at all (RocketMQ: sendLatencyFaultEnable, sendLatencyEnable)."""

    rules: Rules = "sharedroutes"
    """By whose rules they do; see Rules. What else differs are settings: see presets.PRESETS."""

    ladder: Ladder | None = LADDER
    """How long a broker is left alone after one slow or failed answer; None = not at all."""

    consecutive_failures: int = 5
    """So many failures in a row eject a broker, and so does each further one once it is back; 0 = never."""

    min_success_rate: float = 0.5
    """A broker of which a smaller share of answers is good is ejected; 0 = never."""

    min_results: int = 20
    """The success rate is looked at only when `window_s` holds so many results."""

    window_s: float = 30.0
    """The success rate and the percentiles of latency are of the last so many seconds."""

    base_isolation_s: float = 10.0
    """For how long the first ejection leaves a broker alone; the n-th lasts n times as long."""

    max_isolation_s: float = 60.0
    """The longest ejection before jitter, and the longest that a broker stays flagged as unreachable.

    Envoy and gRPC allow 300 s, and eject a tenth of the brokers. Here it can be most of them, for instance
    after a fault of our own network, and they have to be back soon.
    """

    jitter_share: float = 0.2
    """Ejections and the times between probes are longer by up to this share, so that clients differ."""

    decay_s: float = 30.0
    """Each so many seconds of not being left alone make up for one ejection."""

    slow_start_s: float = 5.0
    """A broker that comes back gets a share of its turns that grows to all within this time; 0 = at once."""

    smallest_share: float = 0.1
    """The share of its turns with which a broker comes back."""

    ewma_alpha: float = 0.2
    """The weight of the newest answer in the moving average of latency."""

    detect: bool = False
    """Whether brokers that are left alone are probed in the background (RocketMQ: startDetectorEnable)."""

    detect_interval_s: float = 2.0
    """The time between two probes of a broker (RocketMQ: detectInterval)."""

    detect_timeout_s: float = 0.2
    """How long a probe may take (RocketMQ: detectTimeout)."""

    max_isolated_share: float | None = 0.75
    """At most this share of a topic's brokers is left alone, and never all of them.

    None = no limit, as in RocketMQ; if all are, those are used that the rules name."""

    drop_after_s: float = 3_600.0
    """What is known of a broker without results for so long is dropped."""

    def __post_init__(self) -> None:
        if self.ladder is not None:
            check_type("ladder", self.ladder, Ladder)
        check_type("enabled", self.enabled, bool)
        check_type("detect", self.detect, bool)
        if self.rules not in get_args(Rules):
            raise InvalidInput(f"rules: {self.rules!r} is none of {', '.join(get_args(Rules))}")
        check_int("consecutive_failures", self.consecutive_failures, 0, _MANY)
        check_int("min_results", self.min_results, 1, _MANY)
        for name in ("window_s", "base_isolation_s", "decay_s", "detect_interval_s", "detect_timeout_s"):
            check_seconds(name, getattr(self, name), _SHORTEST_S)
        check_seconds("max_isolation_s", self.max_isolation_s, self.base_isolation_s)
        check_seconds("slow_start_s", self.slow_start_s, 0)
        check_seconds("drop_after_s", self.drop_after_s, self.window_s)
        for name in ("min_success_rate", "jitter_share"):
            check_share(name, getattr(self, name))
        if self.max_isolated_share is not None:
            check_share("max_isolated_share", self.max_isolated_share)
        for name in ("smallest_share", "ewma_alpha"):
            check_share(name, getattr(self, name), above_0=True)
