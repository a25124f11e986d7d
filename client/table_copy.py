"""What a client has read of the shared table: rows of topics, and the brokers that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from ..registry.model import BrokerData, Group, QueueData, TopicRoute
from ..registry.plans import route_of

Rows: TypeAlias = tuple[QueueData, ...]

_MAX_MISSING: Final = 10_000


class TableCopy:
    """The rows of the topics in use, and their brokers with the live replicas."""

    def __init__(self) -> None:
        self.rows: dict[str, Rows] = {}
        self.missing: dict[str, None] = {}
        """Topics that nobody holds, the one asked for last at the end; the feed says when one is created."""

        self.groups: dict[str, Group] = {}
        self.alive: dict[str, BrokerData] = {}
        self._topics: dict[str, set[str]] = {}
        """By broker: the topics whose rows name it."""

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route by the last known state; None when no live broker holds the topic."""
        rows = self.rows.get(topic)
        if rows is None:
            return None
        route = route_of(topic, rows, self.alive)
        return route if route.queue_datas else None

    def is_absent(self, topic: str) -> bool:
        """Whether the table was asked for a topic, and no live broker holds it."""
        return topic in self.missing or (topic in self.rows and self.route(topic) is None)

    def served(self, rows: Rows | None) -> Rows:
        """Return the rows that a route shows: those of live brokers."""
        return tuple(row for row in rows or () if row.broker_name in self.alive)

    def brokers_of(self, topic: str) -> set[str]:
        """Return the brokers that the rows of a topic name."""
        return {row.broker_name for row in self.rows.get(topic, ())}

    def topics_of(self, broker_names: Iterable[str]) -> set[str]:
        """Return the topics whose rows name one of these brokers."""
        return {topic for name in broker_names for topic in self._topics.get(name, ())}

    def unused_groups(self) -> set[str]:
        """Return the groups of brokers that no row names."""
        return self.groups.keys() - self._topics.keys()

    def put(self, topic: str, rows: Rows) -> None:
        """Store the rows of a topic."""
        self.missing.pop(topic, None)
        self._unlink(topic)
        self.rows[topic] = rows
        for row in rows:
            self._topics.setdefault(row.broker_name, set()).add(topic)

    def put_missing(self, topic: str) -> list[str]:
        """Note that nobody holds a topic; return those that were forgotten to make room."""
        self.forget(topic)
        self.missing[topic] = None
        forgotten = []
        while len(self.missing) > _MAX_MISSING:
            forgotten.append(oldest := next(iter(self.missing)))
            del self.missing[oldest]
        return forgotten

    def forget(self, topic: str) -> None:
        """Know nothing of a topic."""
        self.missing.pop(topic, None)
        self._unlink(topic)
        self.rows.pop(topic, None)

    def put_replicas(self, name: str, broker: BrokerData | None) -> None:
        """Store the live replicas of a broker, if there are any."""
        if broker is None:
            self.alive.pop(name, None)
        else:
            self.alive[name] = broker

    def drop_replica(self, name: str, broker_id: int) -> bool:
        """Remove the address of a replica; return whether it was known."""
        broker = self.alive.get(name)
        if broker is None or broker_id not in broker.broker_addrs:
            return False
        left = {member: address for member, address in broker.broker_addrs.items() if member != broker_id}
        self.put_replicas(name, replace(broker, broker_addrs=left) if left else None)
        return True

    def restore(self, rows: Mapping[str, Rows], alive: Mapping[str, BrokerData]) -> None:
        """Begin with what an earlier process knew, to be confirmed."""
        for topic, found in rows.items():
            self.put(topic, found)
        self.alive.update(alive)
        for name, broker in alive.items():
            members = tuple(sorted(broker.broker_addrs))
            self.groups[name] = Group(broker.cluster, name, members, broker.wiped)

    def _unlink(self, topic: str) -> None:
        for name in self.brokers_of(topic):
            topics = self._topics[name]
            topics.discard(topic)
            if not topics:
                del self._topics[name]
