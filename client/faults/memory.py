"""Which brokers not to send to for a while (RocketMQ: LatencyFaultToleranceImpl), on the monotonic clock."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Final

from ...registry.errors import InvalidInput
from ..observers import Event, Tell
from ..observers.events import BrokerIsolated, BrokerReturned, BrokersSuspected, IsolationReason
from ..observers.state import FaultState
from .broker import BrokerFaults, Result
from .config import TUNING, FaultConfig, Tuning


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


_NOBODY: Final = Verdict((), frozenset(), MappingProxyType({}))


class FaultMemory:
    """How brokers did, and how they are therefore treated; thread-safe.

    Every `now` is in seconds of the monotonic clock. `tell` is called with isolations, returns and
    suspicions, without a lock.
    """

    def __init__(
        self,
        config: FaultConfig | None = None,
        rng: random.Random | None = None,
        tell: Tell | None = None,
        tuning: Tuning = TUNING,
    ) -> None:
        self._config = config or FaultConfig()
        self._tuning = tuning
        self._rng = rng or random.Random()
        self._tell = tell
        self._lock = threading.Lock()
        self._now = -inf
        self._brokers: dict[str, BrokerFaults] = {}
        self._restricted: dict[str, BrokerFaults] = {}
        self._isolated: set[str] = set()
        self._suspects: frozenset[str] = frozenset()
        self._restarted_at: dict[str, float] = {}
        self._prune_at = -inf
        self.quiet = True
        """Whether no broker at all is restricted: the one thing that the hot path looks at then."""

        self.latest = _NOBODY
        """The verdict until `valid_until`; what the hot path looks at while a broker is restricted."""

        self.valid_until = inf

    def record(self, broker_name: str, result: Result, now: float) -> bool:
        """Take one result; return whether it counts: not if it began before the broker's last restart.

        Raises InvalidInput for a latency that is none.
        """
        if not 0 <= result.latency_s < inf:
            raise InvalidInput(f"latency_s: {result.latency_s!r} is not a number of seconds from 0 on")
        with self._lock:
            if result.began_at is not None and result.began_at < self._restarted_at.get(broker_name, -inf):
                return False
            now = self._now = max(now, self._now)  # another thread may have been quicker
            broker = self._brokers.get(broker_name) or self._new(broker_name)
            events = self._settle() if now >= self.valid_until else []
            if broker.record(result, now):
                self._restricted[broker_name] = broker
                events += self._settle()
        self._announce(events)
        return True

    def probed(self, broker_name: str, *, reachable: bool, now: float) -> None:
        """Take the result of a probe: as in RocketMQ, a failed one changes nothing.

        A successful one sets the reachable flag and ends a suspicion; an isolation goes on.
        """
        with self._lock:
            self._now = max(now, self._now)
            broker = self._brokers.get(broker_name)
            if broker is None or not reachable:
                return
            was_suspected, broker.suspected = broker.suspected, False
            changed = broker.found_reachable(self._now) or was_suspected
            events = self._settle() if changed else []
        self._announce(events)

    def suspect(self, broker_names: frozenset[str]) -> None:
        """Avoid these brokers, which other clients cannot reach, until a later call does not name them.

        A success of this client overrules that for as long as the broker is named.
        """
        with self._lock:
            if broker_names == self._suspects:
                return
            for name in self._suspects - broker_names:
                if name in self._brokers:
                    self._brokers[name].suspected = False
            for name in broker_names - self._suspects:
                broker = self._brokers.get(name) or self._new(name)
                broker.suspected = True
                self._restricted[name] = broker
            self._suspects = broker_names
            events = [*self._settle(), BrokersSuspected(tuple(sorted(broker_names)))]
        self._announce(events)

    def forget(self, broker_name: str, now: float) -> None:
        """Forget a broker that was restarted, and what operations will tell that began before now."""
        with self._lock:
            self._restarted_at[broker_name] = self._now = max(now, self._now)
            self._brokers.pop(broker_name, None)
            if self._restricted.pop(broker_name, None) is None:
                return
            events = self._settle()
        self._announce(events)

    def verdict(self, now: float) -> Verdict:
        """Return how to treat the brokers; costs next to nothing while that does not change."""
        if now < self.valid_until:
            return self.latest
        with self._lock:
            self._now = max(now, self._now)
            events = self._settle()
            verdict = self.latest
        self._announce(events)
        return verdict

    def states(self, now: float) -> dict[str, FaultState]:
        """Return what is known of each broker, by its name."""
        with self._lock:
            now = self._now = max(now, self._now)
            events = self._settle()
            self._prune()
            states = {name: self._brokers[name].state(name, now) for name in sorted(self._brokers)}
        self._announce(events)
        return states

    def _announce(self, events: Iterable[Event]) -> None:
        if self._tell is not None:
            for event in events:
                self._tell(event)

    # --- inside the lock ------------------------------------------------------------------------------------

    def _new(self, broker_name: str) -> BrokerFaults:
        self._prune()
        broker = self._brokers[broker_name] = BrokerFaults(self._config, self._tuning, self._rng, self._now)
        return broker

    def _prune(self) -> None:
        """Drop brokers without news: brokers come and go, and the memory has to stay bounded."""
        if self._now <= self._prune_at:
            return
        oldest = self._now - self._tuning.drop_after_s
        self._prune_at = self._now + self._tuning.drop_after_s / 4
        self._brokers = {
            name: broker
            for name, broker in self._brokers.items()
            if broker.seen_at > oldest or name in self._restricted
        }
        self._restarted_at = {name: at for name, at in self._restarted_at.items() if at > oldest}

    def _settle(self) -> list[Event]:
        """Bring the verdict up to this moment; return the events to tell."""
        now = self._now
        changes_at = {name: broker.next_change(now) for name, broker in self._restricted.items()}
        self._restricted = {
            name: broker
            for name, broker in self._restricted.items()
            if changes_at[name] < inf or broker.suspected
        }
        old, new = self.latest, self._judge(now)
        if (old.blocked, old.unreachable, old.shares) != (new.blocked, new.unreachable, new.shares):
            self.latest = new
        self.valid_until = min(changes_at.values(), default=inf)
        self.quiet = not self._restricted
        return self._changes(now)

    def _judge(self, now: float) -> Verdict:
        if not self._restricted:
            return _NOBODY
        unreachable, shares, blocked = set(), {}, []
        for name, broker in self._restricted.items():
            if now < broker.end or broker.suspected:
                blocked.append(name)
            else:
                shares[name] = broker.share(now)
            if not broker.reachable(now):
                unreachable.add(name)
        worst_first = sorted(blocked, key=lambda name: (self._restricted[name].merit(now), name))
        return Verdict(tuple(worst_first), frozenset(unreachable), MappingProxyType(shares))

    def _changes(self, now: float) -> list[Event]:
        isolated: dict[str, IsolationReason] = {
            name: reason
            for name, broker in self._restricted.items()
            if (reason := broker.reason(now)) is not None
        }
        events: list[Event] = [BrokerReturned(name) for name in sorted(self._isolated - isolated.keys())]
        events += [
            BrokerIsolated(name, isolated[name], self._restricted[name].end - now)
            for name in sorted(isolated.keys() - self._isolated)
        ]
        self._isolated = set(isolated)
        return events
