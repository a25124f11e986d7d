"""Message groups: the same key goes to the same queue, and most still do when queues come and go."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from ...registry.errors import InvalidInput
from ...registry.model import MessageQueue

_DIGESTS: Final = 2
_POINTS: Final = struct.Struct(">16I")
"""A digest of 64 bytes makes 16 points on the ring, each of 32 bits: 32 points a queue."""

_INDEX_BITS: Final = 32
_INDEX_MASK: Final = (1 << _INDEX_BITS) - 1

_NOBODYS: Final = MessageQueue("", "", 0, "")
"""Stands at the places of a queue that is gone: no broker has an empty name."""

_MOST_PLACES: Final = 2
"""A ring may have so many times the places of its queues: a search has to pass over those of gone queues."""


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
