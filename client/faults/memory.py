"""Which brokers not to send to for a while (RocketMQ: LatencyFaultToleranceImpl), on the monotonic clock."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from math import inf
from types import MappingProxyType
from typing import Final

from ...registry.errors import InvalidInput
from ..observers import Event, Tell
from ..observers.events import BrokerIsolated, BrokerReturned
from .broker import BrokerFaults
from .config import FaultConfig
from .state import FaultState, IsolationReason, Verdict

_NOBODY: Final = Verdict((), frozenset(), MappingProxyType({}))


class FaultMemory:
    """How brokers did, and how they are therefore treated; thread-safe.

    Every `now` is in seconds of the monotonic clock. `tell` hears of isolations and of returns; no lock is
    held then.
    """

    __slots__ = (
        "_brokers",
        "_config",
        "_isolated",
        "_lock",
        "_next_change",
        "_now",
        "_older_restarts",
        "_prune_at",
        "_restarts",
        "_restricted",
        "_rng",
        "_suspects",
        "_tell",
        "_verdict",
        "generation",
        "quiet",
    )

    def __init__(
        self, config: FaultConfig | None = None, rng: random.Random | None = None, tell: Tell | None = None
    ) -> None:
        self._config = config or FaultConfig()
        self._rng = rng or random.Random()
        self._tell = tell
        self._lock = threading.Lock()
        self._now = -inf
        self._brokers: dict[str, BrokerFaults] = {}
        self._restricted: dict[str, BrokerFaults] = {}
        self._isolated: set[str] = set()
        self._suspects: frozenset[str] = frozenset()
        self._restarts: dict[str, int] = {}
        self._older_restarts: dict[str, int] = {}
        self._prune_at = -inf
        self._verdict = _NOBODY
        self._next_change = inf
        self.quiet = True
        """Whether nobody at all is restricted: the one thing the hot path looks at."""
        self.generation = 0
        """Grows when a broker is started anew: note it before an operation and hand it in with the result."""

    # --- what happens ---------------------------------------------------------------------------------------

    def record(
        self,
        broker_name: str,
        latency_s: float,
        *,
        failed: bool,
        now: float,
        reachable: bool | None = None,
        generation: int | None = None,
    ) -> bool:
        """Take in one result, if it did not begin in a `generation` before the broker's last start.

        Returns whether it counts.

        `reachable` None: a success means yes, and a failure means no if there is a detector to find out when
        that ends (DefaultMQProducerImpl). Raises InvalidInput for a latency that is none.
        """
        if not 0 <= latency_s < inf:
            raise InvalidInput(f"latency_s: {latency_s!r} is not a number of seconds from 0 on")
        with self._lock:
            if generation is not None and generation < self._started_in(broker_name):
                return False
            now = self._now = max(now, self._now)  # another thread may have been quicker
            broker = self._brokers.get(broker_name) or self._new(broker_name)
            events = self._settle() if now >= self._next_change else []
            if broker.record(latency_s, now, failed=failed, reachable=reachable):
                self._restricted[broker_name] = broker
                events += self._settle()
        self._announce(events)
        return True

    def probed(self, broker_name: str, *, reachable: bool, now: float) -> None:
        """Take in the result of a probe: as in RocketMQ, a failed one changes nothing.

        One that got through sets the reachable flag and refutes suspicion; an isolation goes on.
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
        """Avoid these brokers, that others cannot reach, until a later call does not name them.

        A success of our own overrules that, for as long as a broker goes on being named.
        """
        with self._lock:
            for name in self._suspects - broker_names:
                if name in self._brokers:
                    self._brokers[name].suspected = False
            for name in broker_names - self._suspects:
                broker = self._brokers.get(name) or self._new(name)
                broker.suspected = True
                self._restricted[name] = broker
            self._suspects = broker_names
            events = self._settle()
        self._announce(events)

    def forget(self, broker_name: str) -> None:
        """Begin with a clean slate and the next generation: the broker was started anew."""
        with self._lock:
            self.generation += 1
            self._restarts[broker_name] = self.generation
            self._brokers.pop(broker_name, None)
            if self._restricted.pop(broker_name, None) is None:
                return
            events = self._settle()
        self._announce(events)

    # --- what follows ---------------------------------------------------------------------------------------

    def verdict(self, now: float) -> Verdict:
        """Return how to treat the brokers; costs next to nothing while that does not change."""
        if now < self._next_change:
            return self._verdict
        with self._lock:
            self._now = max(now, self._now)
            events = self._settle()
            verdict = self._verdict
        self._announce(events)
        return verdict

    def states(self, now: float) -> dict[str, FaultState]:
        """Return what is known of each broker that there was a result of, or a suspicion."""
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
        broker = self._brokers[broker_name] = BrokerFaults(self._config, self._rng, self._now)
        return broker

    def _prune(self) -> None:
        """Drop what is too old to matter: brokers come and go, and the memory is bounded."""
        if self._now <= self._prune_at:
            return
        oldest = self._now - self._config.drop_after_s
        self._prune_at = self._now + self._config.drop_after_s / 4
        self._brokers = {
            name: broker
            for name, broker in self._brokers.items()
            if broker.seen_at > oldest or name in self._restricted
        }
        self._older_restarts, self._restarts = self._restarts, {}

    def _started_in(self, broker_name: str) -> int:
        """Return the generation in which a broker was last started anew; 0 = never that we remember."""
        return self._restarts.get(broker_name) or self._older_restarts.get(broker_name, 0)

    def _settle(self) -> list[Event]:
        """Make the verdict true for this moment; return what is to be told of it."""
        now = self._now
        changes_at = {name: broker.next_change(now) for name, broker in self._restricted.items()}
        self._restricted = {
            name: broker
            for name, broker in self._restricted.items()
            if changes_at[name] < inf or broker.suspected
        }
        old, new = self._verdict, self._judge(now)
        if (old.blocked, old.unreachable, old.shares) != (new.blocked, new.unreachable, new.shares):
            self._verdict = new
        self._next_change = min(changes_at.values(), default=inf)
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
