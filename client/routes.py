"""A client's copy of the shared table, and the routes and views that callers get of it.

These are made when first asked for, and thrown away when a route changes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, TypeAlias

from ..registry.model import BrokerData, Group, QueueData, TopicRoute, in_order
from ..registry.plans import route_of
from .config import ClientConfig
from .selection import PublishView, TopicRing

Rows: TypeAlias = tuple[QueueData, ...]

_MAX_MISSING: Final = 10_000

_SPREAD: Final = 1_024
"""Producers begin at a random queue (RocketMQ: ThreadLocalIndex), so that they do not march in step."""


@dataclass(frozen=True, slots=True, eq=False)
class Route(TopicRoute):
    """Who holds a topic, and how far that can be trusted; never changes, the client makes a new one.

    It equals any TopicRoute that says the same, however old.
    """

    generation: int = 0
    """Grows whenever the topic's route becomes another one; only routes of one client can be compared."""

    as_of: float | None = None
    """When the store last confirmed it, in seconds of the monotonic clock; None = not in this process."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicRoute):
            return NotImplemented
        ours, theirs = (self.queue_datas, self.broker_datas), (other.queue_datas, other.broker_datas)
        return self.topic == other.topic and ours == theirs

    def __hash__(self) -> int:
        return hash((self.topic, self.queue_datas, self.broker_datas))

    @property
    def age_s(self) -> float | None:
        """Seconds since the store last confirmed it; None = it is from a snapshot file."""
        return None if self.as_of is None else monotonic() - self.as_of


@dataclass(frozen=True, slots=True)
class RouteChange:
    """A topic has another route than before."""

    topic: str
    route: Route | None
    """None: no live broker holds it any more."""


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
        return tuple([row for row in rows or () if row.broker_name in self.alive])

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
        before, names = self.brokers_of(topic), {row.broker_name for row in rows}
        self._unlink(topic, before - names)
        self.rows[topic] = rows
        for name in names - before:
            self._topics.setdefault(name, set()).add(topic)

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
        self._unlink(topic, self.brokers_of(topic))
        self.rows.pop(topic, None)

    def put_replicas(self, name: str, broker: BrokerData | None) -> None:
        """Store the live replicas of a broker, if there are any."""
        if broker is None:
            self.alive.pop(name, None)
        else:
            self.alive[name] = broker

    def is_alone(self, name: str) -> bool:
        """Whether a broker has one live replica."""
        broker = self.alive.get(name)
        return broker is not None and len(broker.broker_addrs) == 1

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

    def _unlink(self, topic: str, names: Iterable[str]) -> None:
        for name in names:
            topics = self._topics[name]
            topics.discard(topic)
            if not topics:
                del self._topics[name]


def merged_rows(old: Iterable[QueueData], new: Rows) -> tuple[Rows, set[str]]:
    """Return the new rows and those old ones that an answer lacks; and the brokers of the latter."""
    named = {row.broker_name for row in new}
    lacking = tuple([row for row in old if row.broker_name not in named])
    return (in_order(new + lacking) if lacking else new), {row.broker_name for row in lacking}


def merged_replicas(
    old: BrokerData | None, new: BrokerData | None, gone: Collection[str]
) -> tuple[BrokerData | None, set[int]]:
    """Return the new replicas and those old ones that an answer lacks, and the ids of the latter.

    `gone`: addresses that are not wanted any more.
    """
    if old is None:
        return new, set()
    kept = {member: address for member, address in old.broker_addrs.items() if address not in gone}
    found = {} if new is None else new.broker_addrs
    return replace(new or old, broker_addrs={**kept, **found}), kept.keys() - found.keys()


class ReadyRoutes:
    """Ready views and routes by topic: read without a lock; whoever calls a method holds the client's."""

    def __init__(self, config: ClientConfig, table: TableCopy, rng: random.Random) -> None:
        self.views: dict[str, PublishView] = {}
        self.routes: dict[str, Route] = {}
        self._is_closed = False
        self._config = config
        self._table = table
        self._rng = rng
        self._turns: dict[str, itertools.count[int]] = {}
        self._rings: dict[str, TopicRing] = {}
        self._generation = 0
        self._generations: dict[str, int] = {}
        self._borrowers: set[str] = set()
        """Topics without brokers of their own, served by those of the default topic."""

    def view(self, topic: str) -> PublishView | None:
        """Return the view of a topic by what is known: by its own route, or else by the default topic's."""
        route = self._table.route(topic) or self._borrowed(topic)
        if route is None:
            return None
        turns = self._turns.setdefault(topic, itertools.count(self._rng.randrange(_SPREAD)))
        ring = self._rings.setdefault(topic, TopicRing())
        faults = self._config.faults
        view = PublishView(
            route,
            self._config.strategy,
            turns,
            max_isolated_share=faults.max_isolated_share,
            rules=faults.rules if faults.enabled else "sharedroutes",  # the same, if nobody is restricted
            ring=ring,
        )
        if not self._is_closed:
            self.views[topic] = view
        return view

    def route(self, topic: str, as_of: float | None) -> Route | None:
        """Return the route of a topic by what is known, if it is known; `as_of`: when it was confirmed."""
        known = self._table.route(topic)
        if known is None:
            return None
        generation = self._generations.get(topic, 0)
        route = Route(topic, known.queue_datas, known.broker_datas, generation, as_of)
        if not self._is_closed:
            self.routes[topic] = route
        return route

    def change(self, topics: Collection[str]) -> None:
        """Throw away what is known of topics whose route became another one."""
        self._generation += bool(topics)
        for topic in topics:
            self._generations[topic] = self._generation
            self.views.pop(topic, None)
            self.routes.pop(topic, None)
            if topic not in self._table.rows:
                self._rings.pop(topic, None)
        if self._config.default_topic in topics:
            self.stop_borrowing()

    def confirm(self) -> None:
        """The store said again what it said before: routes are as young as that."""
        self.routes.clear()
        for topic in [topic for topic in self._borrowers if not self._table.is_absent(topic)]:
            self._borrowers.discard(topic)
            for table in (self.views, self._turns, self._rings):
                table.pop(topic, None)

    def stop_borrowing(self) -> None:
        """Throw away what the default topic lent: whether topics exist has to be asked again."""
        for topic in self._borrowers:
            self.views.pop(topic, None)
        self._borrowers.clear()

    def forget(self, topics: Collection[str]) -> None:
        """Throw away all about topics that nobody needs any more."""
        self.change(topics)
        self._borrowers.difference_update(topics)
        for topic in topics:
            for table in (self._turns, self._rings, self._generations):
                table.pop(topic, None)

    def close(self) -> None:
        """Keep nothing ready any more, also of a lookup that ends later: nobody keeps it fresh."""
        self._is_closed = True
        self.start_anew()

    def start_anew(self) -> None:
        """Begin at other queues: this process is a copy of one that goes on."""
        self.views.clear()
        self.routes.clear()
        self._rings.clear()
        self._turns.clear()

    def _borrowed(self, topic: str) -> TopicRoute | None:
        """Return the default topic's route for another one (MQClientInstance, with TBW102), if there is one.

        Source: MQClientInstance.updateTopicRouteInfoFromNameServer with isDefault.
        """
        if not self._config.default_topic or not self._table.is_absent(topic):
            return None
        route = self._table.route(self._config.default_topic)
        if route is None:
            return None
        self._borrowers.add(topic)
        most = self._config.default_topic_queues
        rows = tuple(
            replace(row, read_queue_nums=number, write_queue_nums=number)
            for row in route.queue_datas
            for number in (min(most, row.read_queue_nums),)
        )
        return TopicRoute(topic, rows, route.broker_datas)
