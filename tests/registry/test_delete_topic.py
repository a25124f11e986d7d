"""Deleting a topic: from all brokers or those of a cluster, in one step, and told to the owners."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import Broker, ChangeKind, CorruptData, InvalidInput, LeaseStatus
from tests.fix_redis import Plant, Store
from tests.registry.builders import broker, topics
from tests.registry.probes import unchanged


async def test_a_topic_is_deleted_everywhere(store: Store, admin: redis.Redis) -> None:
    for name in ("a", "b"):
        await store.register(broker(name), topics(2))
    assert await store.admin.delete_topic("t0") == ("a", "b")
    assert list(await store.routes(["t0", "t1"])) == ["t1"]
    assert await store.topics() == ["t1"]
    assert admin.hkeys(store.keys.broker_topics("a")) == [b"t1"]
    assert not admin.exists(store.keys.topic("t0"))


async def test_a_topic_is_deleted_in_one_cluster_only(store: Store) -> None:
    await store.register(Broker("a", "h:1", cluster="one"), topics(1))
    await store.register(Broker("b", "h:2", cluster="two"), topics(1))
    assert await store.admin.delete_topic("t0", "one") == ("a",)
    assert await store.topics(cluster="one") == []
    assert await store.topics(cluster="two") == ["t0"]
    assert await store.admin.delete_topic("t0", "three") == ()
    assert await store.topics() == ["t0"]


async def test_it_is_recorded_once_with_the_brokers(store: Store) -> None:
    await store.register(broker("a"), topics(1))
    await store.register(broker("b"), topics(1))
    await store.admin.delete_topic("t0")
    *_, change = (await store.changes_since()).changes
    assert (change.kind, change.removed, change.brokers) == (ChangeKind.DELETED, ("t0",), ("a", "b"))


async def test_a_topic_that_nobody_has_changes_nothing(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    with unchanged(admin):
        assert await store.admin.delete_topic("unknown") == ()


async def test_the_owner_is_told_and_brings_back_what_its_broker_still_has(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.admin.delete_topic("t0")
    assert await store.heartbeat(held) is LeaseStatus.TABLE_LOST
    held = await store.register(broker(), topics(2), held=held)
    assert await store.topics() == ["t0", "t1"]
    assert await store.heartbeat(held) is LeaseStatus.OK


async def test_an_owner_that_deleted_it_too_stays_without(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.admin.delete_topic("t1")
    held = await store.register(broker(), topics(1), held=held)
    assert await store.topics() == ["t0"]
    assert await store.heartbeat(held) is LeaseStatus.OK


async def test_the_table_of_a_dead_broker_loses_it_too(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.unregister(held)
    assert await store.admin.delete_topic("t0") == ("broker-a",)
    await store.register(broker(), topics(1, first=1))
    assert await store.topics() == ["t1"]


async def test_a_table_entry_without_its_row_is_deleted_too(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    admin.delete(store.keys.topic("t0"))
    assert await store.admin.delete_topic("t0") == ("broker-a",)
    assert not admin.exists(store.keys.broker_topics("broker-a"))


async def test_a_foreign_index_is_named_and_left_alone(
    store: Store, admin: redis.Redis, plant: Plant
) -> None:
    key = store.keys.topic("t0")
    plant(key)
    with pytest.raises(CorruptData, match="topic:t0"):
        await store.admin.delete_topic("t0")
    assert admin.lrange(key, 0, -1) == [b"foreign"]


async def test_a_name_that_can_be_no_topic_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="topic"):
        await store.admin.delete_topic("")


async def test_an_owner_whose_last_write_was_lost_is_told_too(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(2))
    before = admin.hget(store.keys.broker("broker-a"), "token")
    held = await store.register(broker(), topics(3), held=held)
    assert before is not None
    admin.hset(store.keys.broker("broker-a"), "token", before)  # what a failover does
    admin.hdel(store.keys.broker_topics("broker-a"), "t2")
    await store.admin.delete_topic("t0")
    assert await store.heartbeat(held) is LeaseStatus.TABLE_LOST
