"""Message groups: the same key goes to the same queue, and most still do when queues come and go."""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from ...registry.errors import InvalidInput
from ...registry.model import MessageQueue

__all__ = ["QueueRing"]

_DIGESTS: Final = 2
_POINTS: Final = struct.Struct(">16I")
"""A digest of 64 bytes makes 16 points on the ring, each of 32 bits: 32 points a queue."""

_INDEX_BITS: Final = 32
_INDEX_MASK: Final = (1 << _INDEX_BITS) - 1


class QueueRing:
    """A consistent-hash ring of queues, the same in every process; the queues must be in a fixed order.

    `static`: the queues are logical ones, which stay who they are when they move to another broker.
    """

    __slots__ = ("_points", "_queues")

    def __init__(self, queues: Sequence[MessageQueue], *, static: bool = False) -> None:
        self._queues = tuple(queues)
        points: list[int] = []
        for index, queue in enumerate(queues):
            name = f"{queue.queue_id}" if static else f"{queue.broker_name} {queue.queue_id}"
            for number in range(_DIGESTS):
                digest = blake2b(f"{name} {number}".encode()).digest()
                points += [point << _INDEX_BITS | index for point in _POINTS.unpack(digest)]
        points.sort()
        self._points: array[int] = array("Q", points)
        """Place on the ring and index of the queue in one number: 8 bytes instead of a pair of objects."""

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
