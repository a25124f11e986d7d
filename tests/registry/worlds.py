"""Random registries that remember what they were after each of their changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from sharedroutes.registry import EXPIRED, MASTER_ID, Change, ChangeKind
from sharedroutes.registry.model import FORGOTTEN
from sharedroutes.registry.past import BrokerNow

BEGIN_MS: Final = 1_800_000_000_000
BROKERS: Final = "abc"
TOPICS: Final = ("audit", "orders", "stock")


@dataclass
class BrokerThen:
    """What a broker truly had at some time."""

    topics: set[str] = field(default_factory=set)
    replicas: dict[int, str] = field(default_factory=dict)
    wiped: bool = False

    @property
    def serves(self) -> bool:
        return MASTER_ID in self.replicas and not self.wiped

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(f"{of} {at}" for of, at in sorted(self.replicas.items()))

    def now(self) -> BrokerNow:
        return BrokerNow(frozenset(self.topics), dict(self.replicas), self.wiped)


World = dict[str, BrokerThen]


class Story:
    """A registry whose changes come at random; `worlds[n]` is what it was before `changes[n]`."""

    def __init__(self, seed: int, steps: int = 60) -> None:
        self._rng = random.Random(seed)
        self._world: World = {name: BrokerThen() for name in BROKERS}
        self._ms, self._seq = BEGIN_MS, 0
        self.changes: list[Change] = []
        self.worlds: list[World] = []
        while len(self.changes) < steps:
            name = self._rng.choice(BROKERS)
            step = self._rng.choice([self._topics, self._up, self._up, self._down, self._operator])
            for change in step(self._world[name], name):
                self._tell(change)
        self.worlds.append(deepcopy(self._world))

    def now(self) -> dict[str, BrokerNow]:
        """Return what is there after all changes."""
        return {name: broker.now() for name, broker in self.worlds[-1].items()}

    def _tell(self, change: dict[str, Any]) -> None:
        """Note a change, and what was before it; some come in the same ms."""
        later = self._rng.choice((0, 1, 700))
        self._ms, self._seq = self._ms + later, 0 if later else self._seq + 1
        before = deepcopy(self._world)
        told = Change(change_id=f"{self._ms}-{self._seq}", by=self._rng.choice(("", "alice")), **change)
        self.changes.append(told)
        self.worlds.append(before)
        _apply(self._world, told)

    def _topics(self, broker: BrokerThen, name: str) -> Iterator[dict[str, Any]]:
        topic = self._rng.choice(TOPICS)
        what = "added" if topic not in broker.topics else self._rng.choice(("changed", "removed"))
        yield {"kind": ChangeKind.TOPICS, "broker_name": name, what: (topic,)}

    def _up(self, _: BrokerThen, name: str) -> Iterator[dict[str, Any]]:
        broker_id = self._rng.choice((0, 0, 1))
        address = f"10.0.0.{self._rng.randrange(1, 4)}:10911"
        yield {"kind": ChangeKind.UP, "broker_name": name, "broker_id": broker_id, "address": address}

    def _down(self, broker: BrokerThen, name: str) -> Iterator[dict[str, Any]]:
        if broker.replicas:
            broker_id = self._rng.choice([*broker.replicas])
            reason = self._rng.choice((EXPIRED, "unregistered"))
            yield {"kind": ChangeKind.DOWN, "broker_name": name, "broker_id": broker_id, "reason": reason}
        elif self._rng.random() < 0.3:
            if broker.topics:
                removed = tuple(sorted(broker.topics))
                yield {"kind": ChangeKind.TOPICS, "broker_name": name, "removed": removed}
            yield {"kind": ChangeKind.DOWN, "broker_name": name, "reason": FORGOTTEN}

    def _operator(self, broker: BrokerThen, name: str) -> Iterator[dict[str, Any]]:
        topic = self._rng.choice(TOPICS)
        holders = tuple(name for name, one in self._world.items() if topic in one.topics)
        kind = ChangeKind.LIFTED if broker.wiped else ChangeKind.WIPED
        if self._rng.random() < 0.6:
            yield {"kind": kind, "broker_name": name}
        elif self._rng.random() < 0.2:
            yield {"kind": ChangeKind.KV, "namespace": "n", "key": "k", "reason": "put"}
        elif self._rng.random() < 0.1:
            yield {"kind": ChangeKind.SETTINGS, "reason": "enableTopicList=false"}
        elif holders:
            yield {"kind": ChangeKind.DELETED, "removed": (topic,), "brokers": holders}


def _apply(world: World, change: Change) -> None:
    broker = world.get(change.broker_name, BrokerThen())
    if change.kind is ChangeKind.DELETED:
        for name in change.brokers:
            world[name].topics -= {*change.removed}
    elif change.kind is ChangeKind.TOPICS:
        broker.topics = (broker.topics | {*change.added}) - {*change.removed}
    elif change.kind is ChangeKind.UP:
        broker.replicas[change.broker_id] = change.address
    elif change.reason == FORGOTTEN:
        world[change.broker_name] = BrokerThen()
    elif change.kind is ChangeKind.DOWN:
        del broker.replicas[change.broker_id]
    elif change.kind in (ChangeKind.WIPED, ChangeKind.LIFTED):
        broker.wiped = change.kind is ChangeKind.WIPED
