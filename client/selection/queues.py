"""The queues and addresses of a route for producers and consumers, as RocketMQ's clients derive them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

from ...registry.model import MASTER_ID, BrokerData, MessageQueue, QueueData, QueueMapping, TopicRoute


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
