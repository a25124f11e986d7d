"""What a route means to a producer and to a consumer, as RocketMQ's clients derive it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Final

from ..registry.model import MASTER_ID, MessageQueue, TopicRoute

__all__ = ["PublishView", "publish_queues", "subscribe_queues"]

_NOBODY: Final[frozenset[str]] = frozenset()
_MAX_KEPT: Final = 16


def publish_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues to send to: writable, on a live master, sorted by broker name and queue id.

    Source: MQClientInstance.topicRouteData2TopicPublishInfo.
    """
    masters = {broker.broker_name: broker.master_address for broker in route.broker_datas}
    return tuple(
        MessageQueue(route.topic, data.broker_name, queue_id, address)
        for data in sorted(route.queue_datas, key=attrgetter("broker_name"))
        if data.writable and (address := masters.get(data.broker_name)) is not None
        for queue_id in range(data.write_queue_nums)
    )


def subscribe_queues(route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues to pull from: readable, at the master or else at the live replica with the lowest id.

    Source: MQClientInstance.topicRouteData2TopicSubscribeInfo and findBrokerAddressInSubscribe.
    """
    members = {broker.broker_name: broker.broker_addrs for broker in route.broker_datas}
    queues = []
    for data in sorted(route.queue_datas, key=attrgetter("broker_name")):
        addresses = members.get(data.broker_name)
        if data.readable and addresses:
            address = addresses.get(MASTER_ID) or addresses[min(addresses)]
            queues += [
                MessageQueue(route.topic, data.broker_name, queue_id, address)
                for queue_id in range(data.read_queue_nums)
            ]
    return tuple(queues)


class PublishView:
    """The queues a producer may choose from, and whose turn it is; immutable but for the turn."""

    __slots__ = ("_kept", "queues", "size", "turns")

    def __init__(self, queues: tuple[MessageQueue, ...], turns: Iterator[int]) -> None:
        self.queues = queues
        self.size = len(queues)
        self.turns = turns
        """A counter; taking its next number is atomic, so threads share it without a lock."""
        self._kept: dict[tuple[frozenset[str], frozenset[str]], tuple[MessageQueue, ...]] = {}

    def pick(self, blocked: frozenset[str], avoid: frozenset[str] = _NOBODY) -> MessageQueue:
        """Return the next queue: of a broker neither blocked nor avoided, else not avoided, else of any.

        Source: MQFaultStrategy.selectOneMessageQueue. The view must not be empty.
        """
        queues = self._kept.get((blocked, avoid)) or self._choose(blocked, avoid)
        return queues[next(self.turns) % len(queues)]

    def _choose(self, blocked: frozenset[str], avoid: frozenset[str]) -> tuple[MessageQueue, ...]:
        """Filter once per set of faults, so that choosing costs the same for 8 queues and for 10,000."""
        queues = self._without(blocked | avoid) or self._without(avoid) or self.queues
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[blocked, avoid] = queues
        return queues

    def _without(self, brokers: frozenset[str]) -> tuple[MessageQueue, ...]:
        return tuple([queue for queue in self.queues if queue.broker_name not in brokers])
