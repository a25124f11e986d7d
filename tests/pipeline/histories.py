"""Random histories of small registries: all that brokers, topics and gaps do, in a fraction of a second."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from tests.pipeline.answering import (
    Row,
    deleted,
    down,
    forgotten,
    gap,
    kv,
    lifted,
    route,
    topics,
    up,
    wiped,
)

BEGIN_MS: Final = 10 * 86_400_000 - 61
"""When all of them begin: midnight, which parts days and hours, is in the middle. Records are at odd ms."""

_BROKERS: Final = "abcd"
_REASONS: Final = ("expired", "expired", "agent stopped", "broker gone", "has id 9 now")


@dataclass
class History:
    """What one registry tells."""

    name: str
    changes: list[Row] = field(default_factory=list)
    routes: list[Row] = field(default_factory=list)


def random_histories(seed: int, number: int) -> list[History]:
    """Return histories of `number` registries; each two have topics of the same names."""
    rng = random.Random(seed)
    return [_Story(rng, f"r{one}", f"t{one // 2}").told() for one in range(number)]


class _Story:
    """One history in the making."""

    def __init__(self, rng: random.Random, registry: str, prefix: str) -> None:
        self._rng = rng
        self._ms = BEGIN_MS
        self._topics = [f"{prefix}-{letter}" for letter in "xyz"]
        self._told: set[tuple[str, str]] = set()
        """What the records of this ms are about: one of them says enough."""
        self._history = History(registry)

    def told(self) -> History:
        rng, history = self._rng, self._history
        self._add(kv(self._ms, "first"))
        for _ in range(rng.randrange(8, 45)):
            self._pass(rng.choice((0, 0, 2, 2, 4, 10)))
            if rng.random() < 0.05:
                self._gap()
            else:
                self._happen()
        self._pass(2)
        self._add(kv(self._ms, "last"))
        names = [(broker, topic) for broker in _BROKERS for topic in self._topics]
        history.routes = [
            route(*pair, registry=history.name) for pair in rng.sample(names, rng.choice((0, 3)))
        ]
        return history

    def _add(self, row: Row) -> None:
        self._history.changes.append({"registry": self._history.name, **row})

    def _pass(self, ms: int) -> None:
        if ms:
            self._ms += ms
            self._told.clear()

    def _gap(self) -> None:
        """Changes are lost after one that nothing else happened with."""
        self._pass(2)
        self._add(kv(self._ms, "before"))
        lost_ms = self._rng.choice((2, 6, 20))
        is_told = self._rng.random() < 0.7
        self._add(gap(self._ms, self._ms + lost_ms if is_told else None))
        self._pass(lost_ms)
        if self._rng.random() < 0.3:
            self._add(kv(self._ms, "behind"))

    def _happen(self) -> None:
        rng, ms = self._rng, self._ms
        broker, broker_id, kind = rng.choice(_BROKERS), rng.choice((0, 0, 0, 1)), rng.random()
        if kind < 0.25:
            address = f"{broker}:{rng.randrange(2)}"
            ttl_ms = rng.choice((5, 10))
            row = up(ms, broker, rng.randrange(4), broker_id=broker_id, address=address, lease_ttl_ms=ttl_ms)
            self._add(row)
        elif kind < 0.5:
            reason = rng.choice(_REASONS)
            more = {"lease_ended_ms": ms - rng.randrange(4)} if reason == "expired" else {}
            self._add(down(ms, broker, reason, rng.randrange(4), broker_id=broker_id, **more))
        elif kind < 0.54:
            self._add(forgotten(ms, broker))
        elif kind < 0.64:
            self._add(rng.choice((wiped, lifted))(ms, broker))
        else:
            self._hold(broker, rng.random())

    def _hold(self, broker: str, kind: float) -> None:
        rng, ms = self._rng, self._ms
        if kind > 0.8:
            topic = rng.choice(self._topics)
            brokers = self._new(rng.sample(_BROKERS, rng.randrange(1, 4)), [topic])
            self._add(deleted(ms, topic, *(one for one, _ in brokers)))
            return
        names = [topic for _, topic in self._new([broker], rng.sample(self._topics, rng.randrange(1, 4)))]
        if kind < 0.5:
            self._add(topics(ms, broker, added=names, changed=self._topics[:1]))
        else:
            self._add(topics(ms, broker, removed=names))

    def _new(self, brokers: list[str], names: list[str]) -> list[tuple[str, str]]:
        """Return the pairs of which nothing was told in this ms, and take them."""
        found = [(one, topic) for one in brokers for topic in names if (one, topic) not in self._told]
        self._told.update(found)
        return found
