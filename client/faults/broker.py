"""What one broker did to us, and how it is therefore treated."""

from __future__ import annotations

import random
from math import inf
from typing import Final, NamedTuple

from ..observers.events import IsolationReason
from ..observers.state import FaultReason, FaultState
from .config import FaultConfig, Tuning

_PARTS: Final = 5

_SLOW_START_STEPS: Final = 10


class Result(NamedTuple):
    """How an operation at a broker ended."""

    latency_s: float
    failed: bool
    reachable: bool | None = None
    """Whether the broker can be used; None: a success means yes, and a failure means no if there is a
    detector to find out when that ends (DefaultMQProducerImpl)."""

    began_at: float | None = None
    """When the operation began, by the monotonic clock; None = it counts whenever that was."""


class Results:
    """The results of one broker over a sliding window; taking one in costs the same however many there were.

    The window moves by a fifth of its length at a time. Every `now` is in seconds of the monotonic clock, and
    no earlier than the one before.
    """

    __slots__ = ("_counts", "_part_s")

    def __init__(self, window_s: float) -> None:
        self._part_s = window_s / _PARTS
        self._counts: dict[int, list[int]] = {}
        """By number of the part: how many results were good, and how many were not."""

    def record(self, now: float, *, failed: bool) -> None:
        """Take one result."""
        number = int(now // self._part_s)
        counts = self._counts.get(number)
        if counts is None:
            self._counts = {old: kept for old, kept in self._counts.items() if old > number - _PARTS}
            counts = self._counts[number] = [0, 0]
        counts[failed] += 1

    def counts(self, now: float) -> tuple[int, int]:
        """Return how many results within the window were good, and how many were not."""
        oldest = int(now // self._part_s) - _PARTS
        good = bad = 0
        for number, counts in self._counts.items():
            if number > oldest:
                good += counts[0]
                bad += counts[1]
        return good, bad

    def clear(self) -> None:
        """Forget the window."""
        self._counts.clear()


class BrokerFaults:
    """The faults of one broker; not thread-safe. Every `now` is in seconds of the monotonic clock."""

    def __init__(self, config: FaultConfig, tuning: Tuning, rng: random.Random, now: float) -> None:
        self._config = config
        self._tuning = tuning
        self._rng = rng
        self._until = -inf
        self._reason: IsolationReason = "failure"
        self._ejected_until = -inf
        self._unreachable_until = -inf
        self._ejections = 0
        self._last_latency_s = 0.0
        self.results = Results(tuning.window_s)
        self.failures_in_a_row = 0
        self.seen_at = now
        self.suspected = False

    def record(self, result: Result, now: float) -> bool:
        """Take one result; return whether the broker may have to be treated differently now."""
        self.seen_at = now
        self.results.record(now, failed=result.failed)
        changed = False
        if result.failed:
            self.failures_in_a_row += 1
        else:
            self.failures_in_a_row = 0
            changed = self.suspected
            self.suspected = False
        if self._config.enabled:
            changed |= self._restrict(result, now)
        return changed

    def _restrict(self, result: Result, now: float) -> bool:
        config, changed = self._config, False
        latency_s, failed, reachable, _ = result
        self._last_latency_s = latency_s
        for_s = config.ladder.isolation_s(latency_s, failed=failed) if config.ladder else 0.0
        reason: IsolationReason = "failure" if failed else "latency"
        if config.rules == "rocketmq-4":
            return self._isolate_anew(for_s, reason, now)
        if for_s:
            changed = self._isolate(for_s, reason, now)
        if failed:
            changed |= self._eject_if_due(now)
        if reachable is None:
            reachable = not (failed and config.detect)
        return (self.found_reachable(now) if reachable else self._lost(now)) or changed

    def found_reachable(self, now: float) -> bool:
        """Set the reachable flag, and return whether that is new; an isolation goes on, as in RocketMQ."""
        if self._unreachable_until <= now:
            return False
        self._unreachable_until = now
        return True

    def _lost(self, now: float) -> bool:
        """Clear the reachable flag.

        RocketMQ's stays so until a probe or a send succeeds. By our own rules such a broker is left alone, so
        the flag has an end: there may be no detector.
        """
        if self._config.rules == "rocketmq-5":
            until = inf
        else:
            until = now + self._config.max_isolation_s if self._config.detect else self._until
        if until <= self._unreachable_until:
            return False
        self._ejections = self.ejections(now)
        self._unreachable_until = until
        return True

    def _isolate(self, for_s: float, reason: IsolationReason, now: float) -> bool:
        """Leave the broker alone for so long; an isolation is only ever extended, as in RocketMQ."""
        if now + for_s <= self._until:
            return False
        self._ejections = self.ejections(now)
        self._until = now + for_s
        self._reason = reason
        return True

    def _isolate_anew(self, for_s: float, reason: IsolationReason, now: float) -> bool:
        """Leave the broker alone for so long from now on, whatever was before, as in RocketMQ 4."""
        changed = for_s > 0 or self._until > now
        self._until = now + for_s
        self._reason = reason
        return changed

    def _eject_if_due(self, now: float) -> bool:
        """Eject a broker that fails too much; failures while it is ejected do not lengthen that."""
        reason = self._why_eject(now) if self._ejected_until <= now else None
        if reason is None:
            return False
        config = self._config
        ejections = self.ejections(now) + 1
        for_s = min(config.base_isolation_s * ejections, config.max_isolation_s)
        for_s *= 1 + self._tuning.jitter_share * self._rng.random()
        changed = self._isolate(for_s, reason, now)
        self._ejections = ejections
        self._ejected_until = now + for_s
        self.results.clear()  # the next ejection is for what it does once it is back
        return changed

    def _why_eject(self, now: float) -> IsolationReason | None:
        config = self._config
        if config.consecutive_failures and self.failures_in_a_row >= config.consecutive_failures:
            return "consecutive"
        if config.min_success_rate:
            good, bad = self.results.counts(now)
            if good + bad >= self._tuning.min_results and good < config.min_success_rate * (good + bad):
                return "success-rate"
        return None

    # --- how it is treated ----------------------------------------------------------------------------------

    @property
    def end(self) -> float:
        """When the isolation by its own results ends; a suspicion may go on."""
        if self._config.rules == "rocketmq-5":
            return self._until
        return max(self._until, self._unreachable_until)

    def merit(self, now: float) -> tuple[float, float]:
        """Return a key by which isolated brokers sort, the worst first."""
        if self._config.rules == "rocketmq-4":  # LatencyFaultToleranceImpl.FaultItem.compareTo
            return -self._last_latency_s, -self._until
        return self.reachable(now), -max(self.end, now)

    def reachable(self, now: float) -> bool:
        """RocketMQ's reachable flag."""
        return self._unreachable_until <= now

    def reason(self, now: float) -> IsolationReason | None:
        """Why it is left alone by its own results; None = it is not."""
        if now >= self.end:
            return None
        return self._reason if self._until >= self._unreachable_until else "unreachable"

    def share(self, now: float) -> float:
        """Return the share of its turns that slow start leaves it, once it is not left alone."""
        if now >= self.end + self._config.slow_start_s:
            return 1.0
        return max(self._tuning.smallest_share, self._step(now) / _SLOW_START_STEPS)

    def ejections(self, now: float) -> int:
        """Return how many ejections are not made up for yet."""
        if self._ejections == 0 or now <= self.end:
            return self._ejections
        return max(0, self._ejections - int((now - self.end) // self._tuning.decay_s))

    def next_change(self, now: float) -> float:
        """Return when the passing of time changes how it is treated; inf = never."""
        end, slow_start_s = self.end, self._config.slow_start_s
        if now < end:
            return end if self.reachable(now) else min(end, self._unreachable_until)
        if now < end + slow_start_s:
            return end + slow_start_s * (self._step(now) + 1) / _SLOW_START_STEPS
        return inf

    def _step(self, now: float) -> int:
        """Slow start goes in steps, so that views need not change at every choice."""
        return int((now - self.end) / self._config.slow_start_s * _SLOW_START_STEPS)

    def state(self, broker_name: str, now: float) -> FaultState:
        """Return what is known of the broker."""
        good, bad = self.results.counts(now)
        reason: FaultReason | None = self.reason(now) or ("suspected" if self.suspected else None)
        return FaultState(
            broker_name=broker_name,
            isolated_for_s=max(0.0, self.end - now),
            reason=reason,
            reachable=self.reachable(now),
            suspected=self.suspected,
            share=0.0 if reason else self.share(now),
            success_rate=good / (good + bad) if good + bad else None,
            consecutive_failures=self.failures_in_a_row,
            ejections=self.ejections(now),
        )
