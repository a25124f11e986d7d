"""What the fault memory says of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

IsolationReason: TypeAlias = Literal["latency", "failure", "consecutive", "success-rate", "unreachable"]
FaultReason: TypeAlias = IsolationReason | Literal["suspected"]
"""latency, failure: the ladder; consecutive, success-rate: an ejection; unreachable: flagged so by a failed
attempt; suspected: other clients cannot reach it."""


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """How to treat the brokers now; the same object as long as nothing changed, so it can be a key."""

    blocked: tuple[str, ...]
    """Brokers to leave alone, the worst first: unreachable ones, then whose isolation ends last, then the
    merely suspected. By the rules of RocketMQ 4, whose last attempt took longest."""

    unreachable: frozenset[str]
    """Those of them whose reachable flag is False."""

    shares: Mapping[str, float]
    """Slow start: brokers that take only this share, within 0..1, of their turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultState:
    """What is known of one broker; times are in seconds."""

    broker_name: str

    isolated_for_s: float
    """How much longer it is left alone, unless a probe finds it sooner; 0 = it is not isolated."""

    reason: FaultReason | None
    """Why it is left alone; None = it is not."""

    reachable: bool
    """RocketMQ's reachable flag."""

    suspected: bool
    """Whether it is avoided because other clients cannot reach it."""

    share: float
    """The share of its turns that it takes; below 1 during slow start, 0 while it is left alone."""

    ewma_latency_s: float | None
    """The moving average of the latency of good answers; None = there was none yet."""

    p50_latency_s: float | None
    """The median latency of the window's good answers, up to 41 % too high; None = there is none."""

    p99_latency_s: float | None
    """The same for all but the slowest hundredth."""

    success_rate: float | None
    """The share of good answers within the window; None = there is none."""

    consecutive_failures: int
    """How many failures there were since the last success."""

    ejections: int
    """How many ejections are not made up for yet; the next one lasts so many times longer."""
