"""What producers and consumers make of a route."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sharedroutes.client.selection import find_address, publish_queues, subscribe_queues
from sharedroutes.registry import BrokerData, MessageQueue, QueueData, QueueMapping, TopicRoute

MASTER, SLAVE, SLAVE_2 = "10.0.0.1:10911", "10.0.0.1:10921", "10.0.0.1:10931"


def route(*parts: tuple[QueueData, Mapping[int, str]]) -> TopicRoute:
    rows = tuple(data for data, _ in parts)
    return TopicRoute("t", rows, tuple(BrokerData("c", data.broker_name, members) for data, members in parts))


def queues(*places: tuple[str, int, str]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("t", *place) for place in places)


def test_a_producer_gets_the_write_and_a_consumer_the_read_queues_by_broker_name_then_queue_id() -> None:
    found = route((QueueData("broker-b", 2, 1, 6), {0: SLAVE}), (QueueData("broker-a", 1, 2, 6), {0: MASTER}))
    assert publish_queues(found) == queues(
        ("broker-a", 0, MASTER), ("broker-a", 1, MASTER), ("broker-b", 0, SLAVE)
    )
    assert subscribe_queues(found) == queues(
        ("broker-a", 0, MASTER), ("broker-b", 0, SLAVE), ("broker-b", 1, SLAVE)
    )


def test_a_producer_gets_no_queue_of_a_group_whose_master_is_gone() -> None:
    parts = (QueueData("broker-a", 2, 2, 6), {1: SLAVE}), (QueueData("broker-b", 1, 1, 6), {0: MASTER})
    assert publish_queues(route(*parts)) == queues(("broker-b", 0, MASTER))


@pytest.mark.parametrize(
    ("members", "address"),
    [
        ({0: MASTER}, MASTER),
        ({2: SLAVE_2, 1: SLAVE, 0: MASTER}, MASTER),
        ({2: SLAVE_2, 1: SLAVE}, SLAVE),
        ({2: SLAVE_2}, SLAVE_2),
    ],
    ids=["master", "master before slaves", "lowest id", "only slave"],
)
def test_a_consumer_reads_at_the_master_or_else_at_the_live_replica_with_the_lowest_id(
    members: dict[int, str], address: str
) -> None:
    found = subscribe_queues(route((QueueData("broker-a", 1, 1, 6), members)))
    assert found == queues(("broker-a", 0, address))


def test_rows_of_brokers_without_a_live_replica_are_nobodys_queues() -> None:
    dead = TopicRoute("t", (QueueData("broker-a", 2, 2, 6),), ())
    assert publish_queues(dead) == subscribe_queues(dead) == ()


@pytest.mark.parametrize("perm", range(8))
def test_the_permission_bits_are_rocketmqs(perm: int) -> None:
    found = route((QueueData("broker-a", 1, 1, perm), {0: MASTER}))
    assert bool(publish_queues(found)) == (perm in {2, 3, 6, 7})
    assert bool(subscribe_queues(found)) == (perm in {4, 5, 6, 7})


def static(name: str, mapping: QueueMapping | None, perm: int = 6) -> QueueData:
    return QueueData(name, 8, 8, perm, queue_mapping=mapping)


def test_a_static_topic_has_its_logical_queues_by_id_each_where_it_is_now() -> None:
    found = route(
        (static("broker-b", QueueMapping(4, 1, {0: 0, 2: 1})), {0: SLAVE}),
        (static("broker-a", QueueMapping(4, 1, {3: 0, 1: 7})), {0: MASTER}),
    )
    expected = queues(
        ("broker-b", 0, SLAVE), ("broker-a", 1, MASTER), ("broker-b", 2, SLAVE), ("broker-a", 3, MASTER)
    )
    assert publish_queues(found) == subscribe_queues(found) == expected


def test_the_newest_claim_to_a_logical_queue_counts() -> None:
    found = route(
        (static("broker-a", QueueMapping(2, 7, {1: 0})), {0: MASTER}),
        (static("broker-b", QueueMapping(2, 6, {0: 0, 1: 1})), {0: SLAVE}),
    )
    assert publish_queues(found) == queues(("broker-b", 0, SLAVE), ("broker-a", 1, MASTER))


def test_a_logical_queue_beyond_the_total_or_without_a_holder_is_nobodys() -> None:
    found = route((static("broker-a", QueueMapping(3, 1, {0: 0, 3: 1})), {0: MASTER}))
    assert publish_queues(found) == queues(("broker-a", 0, MASTER))


def test_rows_without_a_mapping_add_no_queue_to_a_static_topic() -> None:
    found = route(
        (static("broker-a", QueueMapping(1, 1, {0: 0})), {0: MASTER}), (static("broker-b", None), {0: SLAVE})
    )
    assert publish_queues(found) == queues(("broker-a", 0, MASTER))


def test_a_static_topics_queue_is_written_only_where_that_is_permitted_and_a_master_lives() -> None:
    found = route(
        (static("broker-a", QueueMapping(3, 1, {0: 0}), perm=4), {0: MASTER}),
        (static("broker-b", QueueMapping(3, 1, {1: 0})), {1: SLAVE}),
        (static("broker-c", QueueMapping(3, 1, {2: 0})), {0: SLAVE_2}),
    )
    assert publish_queues(found) == queues(("broker-c", 2, SLAVE_2))
    assert subscribe_queues(found) == queues(
        ("broker-a", 0, MASTER), ("broker-b", 1, SLAVE), ("broker-c", 2, SLAVE_2)
    )


@pytest.mark.parametrize(
    ("wanted", "only_this", "found"),
    [
        (0, False, (MASTER, 0)),
        (1, False, (SLAVE, 1)),
        (2, False, (SLAVE_2, 3)),
        (3, True, (SLAVE_2, 3)),
        (2, True, (SLAVE_2, 3)),
        (7, False, (MASTER, 0)),
        (7, True, None),
    ],
    ids=["master", "slave", "next slave", "exactly", "the next one counts as this one", "any", "no other"],
)
def test_the_address_to_read_from_follows_the_hint(
    wanted: int,
    only_this: bool,  # noqa: FBT001
    found: tuple[str, int] | None,
) -> None:
    broker = BrokerData("c", "broker-a", {3: SLAVE_2, 1: SLAVE, 0: MASTER})
    assert find_address(broker, wanted, only_this=only_this) == found


def test_without_a_master_the_lowest_slave_is_read_unless_only_the_master_will_do() -> None:
    broker = BrokerData("c", "broker-a", {2: SLAVE_2, 1: SLAVE})
    assert find_address(broker) == (SLAVE, 1)
    assert find_address(broker, only_this=True) is None


def test_a_group_without_a_live_replica_has_no_address() -> None:
    assert find_address(BrokerData("c", "broker-a", {})) is None
