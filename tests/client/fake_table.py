"""A registry in memory: what lookups find in it and what its feed tells, for tests of the pure parts."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Final

from sharedroutes.client.cache import Request
from sharedroutes.registry import (
    EXPIRED,
    MASTER_ID,
    BrokerData,
    Change,
    ChangeKind,
    Group,
    Lookup,
    QueueData,
    TopicRoute,
)
from sharedroutes.registry.codec import RowChange
from sharedroutes.registry.model import in_order

CLUSTER: Final = "cluster-1"


class FakeTable:
    """Rows, members and leases; every write carries a stamp that no other write has.

    The stamp of a row is its `topic_sys_flag`, the stamp of an address its port: newer is larger.
    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, QueueData]] = {}
        self.members: dict[str, set[int]] = {}
        self.leases: dict[tuple[str, int], str] = {}
        self.wiped: set[str] = set()
        self.told: dict[int, dict[str, RowChange]] = {}
        """By stamp of a change: the rows that its doorbell brings."""

        self._stamps = itertools.count(1)

    def register(self, name: str, *topics: str, broker_id: int = MASTER_ID) -> list[Change]:
        """Do what an agent does when it starts: its topics, then its lease."""
        written = [self.write(name, topics)] if broker_id == MASTER_ID else []
        return [*written, self.come_up(name, broker_id)]

    def write(self, name: str, topics: Iterable[str]) -> Change:
        """Make `topics` the whole table of a broker."""
        stamp, topics = next(self._stamps), set(topics)
        old = {topic: rows[name] for topic, rows in self.rows.items() if name in rows}
        before = old.keys()
        for topic in topics:
            self.rows.setdefault(topic, {})[name] = QueueData(name, 4, 4, 6, stamp)
        for topic in before - topics:
            del self.rows[topic][name]
        self.rows = {topic: rows for topic, rows in self.rows.items() if rows}
        self.members.setdefault(name, set())
        self.told[stamp] = {topic: RowChange(old.get(topic), self.rows[topic][name]) for topic in topics}
        return Change(
            kind=ChangeKind.TOPICS,
            broker_name=name,
            broker_id=MASTER_ID,
            epoch=stamp,
            added=tuple(sorted(topics - before)),
            changed=tuple(sorted(topics & before)),
            removed=tuple(sorted(before - topics)),
        )

    def come_up(self, name: str, broker_id: int = MASTER_ID) -> Change:
        """Give a replica a lease with an address that it never had."""
        stamp = next(self._stamps)
        self.members.setdefault(name, set()).add(broker_id)
        address = self.leases[name, broker_id] = f"10.0.0.1:{stamp}"
        return Change(kind=ChangeKind.UP, broker_name=name, broker_id=broker_id, epoch=stamp, address=address)

    def unregister(self, name: str, broker_id: int = MASTER_ID) -> Change:
        """End a lease at once, as its owner does."""
        self.members[name].discard(broker_id)
        self.leases.pop((name, broker_id), None)
        return Change(
            kind=ChangeKind.DOWN,
            broker_name=name,
            broker_id=broker_id,
            epoch=next(self._stamps),
            reason="unregistered",
        )

    def expire(self, name: str, broker_id: int = MASTER_ID) -> Change:
        """Let a lease end; the change is what the sweep tells, if there is one."""
        self.leases.pop((name, broker_id), None)
        return Change(
            kind=ChangeKind.DOWN,
            broker_name=name,
            broker_id=broker_id,
            epoch=next(self._stamps),
            reason=EXPIRED,
        )

    def set_wiped(self, name: str, *, wiped: bool) -> Change:
        """Take the write permission of a broker away, or give it back."""
        if wiped:
            self.wiped.add(name)
        else:
            self.wiped.discard(name)
        self.members.setdefault(name, set())
        return Change(kind=ChangeKind.WIPED if wiped else ChangeKind.LIFTED, broker_name=name)

    def delete(self, topic: str) -> Change:
        """Remove a topic from all brokers."""
        brokers = tuple(self.rows.pop(topic, {}))
        return Change(kind=ChangeKind.DELETED, removed=(topic,), brokers=brokers)

    def lose_everything(self) -> None:
        """Be restarted empty."""
        self.rows, self.members, self.leases, self.wiped = {}, {}, {}, set()

    def answer(self, request: Request) -> Lookup:
        """Return what a lookup finds now."""
        rows = {topic: in_order(self.rows[topic].values()) for topic in request.topics if topic in self.rows}
        named = {row.broker_name for found in rows.values() for row in found}
        read_anew = {
            name: Group(CLUSTER, name, tuple(sorted(self.members.get(name, ()))), name in self.wiped)
            for name in (named | {*request.anew}) - request.known.keys()
        }
        groups = {**request.known, **read_anew}
        found_alive = {name: self._alive(group) for name, group in groups.items()}
        return Lookup(
            rows,
            tuple(topic for topic in request.topics if topic not in rows),
            groups,
            {name: broker for name, broker in found_alive.items() if broker.broker_addrs},
        )

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic as it is, None when no live broker holds it."""
        return self.answer(Request(0, (topic,))).routes().get(topic)

    def _alive(self, group: Group) -> BrokerData:
        name = group.broker_name
        found = {number: self.leases.get((name, number)) for number in group.broker_ids}
        addresses = {number: address for number, address in found.items() if address}
        return BrokerData(group.cluster, name, addresses, wiped=group.wiped)
