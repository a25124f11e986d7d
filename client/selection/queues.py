"""The queues and addresses of a route for producers and consumers, and the queue of a message group.

As RocketMQ's clients derive them, but for message groups: the same key goes to the same queue, and most keys
still do when queues come and go.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Final, NamedTuple

from ...registry.errors import InvalidInput
from ...registry.model import MASTER_ID, BrokerData, MessageQueue, QueueData, QueueMapping, TopicRoute

_DIGESTS: Final = 2
_POINTS: Final = struct.Struct(">16I")
"""A digest of 64 bytes makes 16 points on the ring, each of 32 bits: 32 points a queue."""

_INDEX_BITS: Final = 32
_INDEX_MASK: Final = (1 << _INDEX_BITS) - 1

_NOBODYS: Final = MessageQueue("", "", 0, "")
"""Stands at the places of a queue that is gone: no broker has an empty name."""

_MOST_PLACES: Final = 2
"""A ring may have so many times the places of its queues: a search has to pass over those of gone queues."""


def is_static(route: TopicRoute) -> bool:
    """Return whether the topic has logical queues, which keep their ids when they move (static topic)."""
    return any(data.queue_mapping is not None for data in route.queue_datas)


def find_address(
    broker: BrokerData, broker_id: int = MASTER_ID, *, only_this: bool = False
) -> tuple[str, int] | None:
    """Return the address to read from and its broker id; None if there is none.

    It is that of `broker_id`, or for a missing slave that of the next id, or else, without `only_this`, the
    lowest id that is alive. Source: MQClientInstance.findBrokerAddressInSubscribe, where `broker_id` is the
    hint of the last answer.
    """
    addresses = broker.broker_addrs
    wanted = [broker_id]
    if broker_id != MASTER_ID:
        wanted.append(broker_id + 1)
    if addresses and not only_this:
        wanted.append(broker.min_broker_id)
    for found in wanted:
        if found in addresses:
            return addresses[found], found
    return None


def publish_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues to send to: writable, on a live master, sorted by broker name and queue id.

    Of a static topic: its logical queues, sorted by id, each at the broker that holds it now.
    Source: MQClientInstance.topicRouteData2TopicPublishInfo.
    """
    masters = {broker.broker_name: broker.master_address for broker in route.broker_datas}
    addresses = {
        data.broker_name: address
        for data in route.queue_datas
        if data.writable and (address := masters.get(data.broker_name)) is not None
    }
    return _queues(route, addresses, attrgetter("write_queue_nums"))


def subscribe_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues to pull from: readable, at the master or else at the live replica with the lowest id.

    Of a static topic: as publish_queues.
    Source: MQClientInstance.topicRouteData2TopicSubscribeInfo and findBrokerAddressInSubscribe.
    """
    found = {broker.broker_name: find_address(broker) for broker in route.broker_datas}
    addresses = {
        data.broker_name: place[0]
        for data in route.queue_datas
        if data.readable and (place := found.get(data.broker_name)) is not None
    }
    return _queues(route, addresses, attrgetter("read_queue_nums"))


def _queues(
    route: TopicRoute, addresses: Mapping[str, str], count: Callable[[QueueData], int]
) -> tuple[MessageQueue, ...]:
    if is_static(route):
        return _logical_queues(route, addresses)
    return tuple(
        MessageQueue(route.topic, data.broker_name, queue_id, addresses[data.broker_name])
        for data in sorted(route.queue_datas, key=attrgetter("broker_name"))
        if data.broker_name in addresses
        for queue_id in range(count(data))
    )


def _logical_queues(route: TopicRoute, addresses: Mapping[str, str]) -> tuple[MessageQueue, ...]:
    """Give each logical queue to the broker with the newest claim to it.

    They carry the broker's own name, where RocketMQ puts a stand-in and looks the name up when it sends.
    Source: ClientMetadata.topicRouteData2EndpointsForStaticTopic.
    """
    mappings = [
        (data.queue_mapping, data.broker_name) for data in route.queue_datas if data.queue_mapping is not None
    ]
    mappings.sort(key=lambda claim: (claim[0].epoch, claim[1]))
    totals: dict[str, int] = {}
    holders: dict[tuple[int, str], str] = {}
    for mapping, broker_name in mappings:
        totals[mapping.scope] = max(totals.get(mapping.scope, 0), mapping.total_queues)
        holders.update(dict.fromkeys(_claims(mapping), broker_name))
    return tuple(
        MessageQueue(route.topic, broker_name, logical_id, addresses[broker_name])
        for (logical_id, scope), broker_name in sorted(holders.items())
        if broker_name in addresses and logical_id < totals[scope]
    )


def _claims(mapping: QueueMapping) -> list[tuple[int, str]]:
    return [(logical_id, mapping.scope) for logical_id in mapping.current_ids]


class _Places(NamedTuple):
    """The places of queues on a ring, by their names, in the order of the queues."""

    names: dict[str, None]
    points: array[int]
    """Place on the ring and index of the queue in one number: 8 bytes instead of a pair of objects."""

    def can_hold(self, named: Mapping[str, MessageQueue]) -> bool:
        return len(self.names) <= _MOST_PLACES * len(named) and named.keys() <= self.names.keys()


class QueueRing:
    """A consistent-hash ring of queues, the same in every process; the queues must be in a fixed order.

    `static`: the queues are logical ones, which keep their places when they move to another broker.
    `last`: the ring of an earlier route, whose places serve again when brokers merely go and come back.
    """

    __slots__ = ("_points", "_queues", "places", "queues")

    def __init__(
        self, queues: Sequence[MessageQueue], *, static: bool = False, last: QueueRing | None = None
    ) -> None:
        named = {
            f"{queue.queue_id}" if static else f"{queue.broker_name} {queue.queue_id}": queue
            for queue in queues
        }
        places: _Places | None = None if last is None else last.places
        if places is None or not places.can_hold(named):
            places = _Places(dict.fromkeys(named), _points_of(named))
        self.queues = queues
        self.places: _Places = places
        self._points = places.points
        self._queues = tuple([named.get(name, _NOBODYS) for name in places.names])

    def find(self, key: str | bytes, allowed: frozenset[str]) -> MessageQueue:
        """Return the first queue from the key's place on that is on an allowed broker; there must be one.

        Raises InvalidInput for a key that is neither a string nor bytes.
        """
        if isinstance(key, str):
            key = key.encode("utf-8", "surrogatepass")
        elif not isinstance(key, bytes):
            raise InvalidInput(f"key: expected a string or bytes, got {key!r}")
        place = int.from_bytes(blake2b(key, digest_size=4).digest())
        points = self._points
        index = bisect_left(points, place << _INDEX_BITS) - len(points)  # from there on, and around
        while (queue := self._queues[points[index] & _INDEX_MASK]).broker_name not in allowed:
            index += 1
        return queue


class TopicRing:
    """The ring of a topic through the changes of its route; threads may share it."""

    __slots__ = ("_ring",)

    def __init__(self) -> None:
        self._ring: QueueRing | None = None

    def of(self, queues: Sequence[MessageQueue], *, static: bool) -> QueueRing:
        """Return the ring of these queues; see QueueRing."""
        ring = self._ring
        if ring is None or ring.queues is not queues:
            ring = self._ring = QueueRing(queues, static=static, last=ring)
        return ring


def _points_of(names: Iterable[str]) -> array[int]:
    points: list[int] = []
    for index, name in enumerate(names):
        for number in range(_DIGESTS):
            digest = blake2b(f"{name} {number}".encode()).digest()
            points += [point << _INDEX_BITS | index for point in _POINTS.unpack(digest)]
    points.sort()
    return array("Q", points)
