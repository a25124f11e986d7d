"""Listings: topics by cluster and kind, clusters, groups, owners, data versions."""

from __future__ import annotations

from dataclasses import replace

import redis

from sharedroutes.registry import (
    Broker,
    BrokerData,
    DataVersion,
    LeaseStatus,
    QueueMapping,
    TopicConfig,
    TopicKind,
    plans,
)
from tests.fix_redis import Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.support import await_until

UNIT, UNIT_SUB = 1, 2


async def test_topics_by_their_system_flags(store: Store) -> None:
    await store.register(
        broker(),
        [
            TopicConfig("plain"),
            TopicConfig("unit", topic_sys_flag=UNIT),
            TopicConfig("sub", topic_sys_flag=UNIT_SUB),
            TopicConfig("both", topic_sys_flag=UNIT | UNIT_SUB),
        ],
    )
    assert await store.topics() == ["both", "plain", "sub", "unit"]
    assert await store.topics(kind=TopicKind.UNIT) == ["both", "unit"]
    assert await store.topics(kind=TopicKind.UNIT_SUB) == ["both", "sub"]
    assert await store.topics(kind=TopicKind.UNIT_SUB_NOT_UNIT) == ["sub"]


async def test_topics_of_one_cluster_of_live_brokers(store: Store) -> None:
    await store.register(Broker("a", "h:1", cluster="one"), topics(2))
    held = await store.register(Broker("b", "h:2", cluster="two"), topics(2, first=1))
    assert await store.topics(cluster="two") == ["t1", "t2"]
    assert await store.topics(cluster="unknown") == []
    await store.unregister(held)
    assert await store.topics(cluster="two") == []
    assert await store.topics() == ["t0", "t1"]


async def test_clusters_and_their_brokers(store: Store) -> None:
    for name, cluster in (("b", "two"), ("c", "one"), ("a", "one")):
        await store.register(Broker(name, "h:1", cluster=cluster), topics(1))
    info = await store.cluster_info()
    assert info.clusters == {"one": ("a", "c"), "two": ("b",)}
    assert info.brokers["b"] == BrokerData("two", "b", {0: "h:1"})
    assert (await store.run(plans.system_topics(store.keys))).found == ["a", "b", "c", "one", "two"]


async def test_the_member_group_is_shown_as_it_is_without_a_promoted_slave(store: Store) -> None:
    assert await store.member_group("broker-a") is None
    await store.register(Broker("broker-a", OTHER_ADDRESS, 2, enable_acting_master=True), topics(1))
    group = await store.member_group("broker-a")
    assert group is not None
    assert dict(group.broker_addrs) == {2: OTHER_ADDRESS}


async def test_the_owner_of_a_broker_can_be_acted_for(store: Store) -> None:
    assert await store.owner("broker-a") is None
    held = await store.register(broker(), topics(2))
    found = await store.owner("broker-a")
    assert found is not None
    assert (found.broker, found.epoch, found.table_token) == (held.broker, held.epoch, held.table_token)
    assert await store.heartbeat(found) is LeaseStatus.OK
    found = await store.run(plans.register_topic(store.config, found, TopicConfig("t9")))
    assert await store.topics() == ["t0", "t1", "t9"]
    assert await store.unregister(found)
    assert await store.owner("broker-a") is None


async def test_a_data_version_is_compared_with_the_registered_one(store: Store) -> None:
    version = DataVersion(1, 1_700_000_000_000, 3)
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 0, version)) == (True, None)
    await store.register(broker(), topics(1), version=version)
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 0, version)) == (False, version)
    newer = DataVersion(1, 1_700_000_000_000, 4)
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 0, newer)) == (True, version)
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 1, version)) == (True, None)


async def test_a_dead_broker_is_told_to_register_whoever_has_swept(store: Store, admin: redis.Redis) -> None:
    version = DataVersion(1, 2, 3)
    await store.register(Broker("broker-a", ADDRESS, heartbeat_timeout_ms=50), topics(1), version=version)
    lease = store.keys.lease("broker-a", 0)
    await await_until(lambda: not admin.exists(lease), description="the lease ends")
    assert await store.run(plans.query_data_version(store.keys, "broker-a", 0, version)) == (True, None)


async def test_one_topic_is_registered_without_sending_the_others(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    held = await store.run(plans.register_topic(store.config, held, TopicConfig("t9", 1, 1)))
    held = await store.run(plans.register_topic(store.config, held, TopicConfig("t0", 8, 8)))
    assert await store.topics() == ["t0", "t1", "t9"]
    assert (await store.routes(["t0"]))["t0"].queue_datas[0].read_queue_nums == 8
    assert await store.heartbeat(held) is LeaseStatus.OK
    held = await store.register(broker(), topics(2), held=held)
    assert await store.topics() == ["t0", "t1"]


async def test_one_topic_completes_a_table_that_the_store_lost(store: Store) -> None:
    held = await store.register(broker(), topics(2))
    await store.admin.delete_topic("t1")
    held = await store.run(plans.register_topic(store.config, held, TopicConfig("t9")))
    assert await store.topics() == ["t0", "t1", "t9"]
    assert await store.heartbeat(held) is LeaseStatus.OK


MAPPING = QueueMapping(8, 3, {0: 0, 2: 1})


async def test_a_static_topic_has_its_queue_mapping_in_the_route_as_long_as_its_broker_lives(
    store: Store,
) -> None:
    held = await store.register(broker(), [TopicConfig("t0", 2, 2, queue_mapping=MAPPING)])
    await store.register(broker("b"), topics(1))
    rows = {row.broker_name: row for row in (await store.routes(["t0"]))["t0"].queue_datas}
    assert rows["broker-a"].queue_mapping == MAPPING
    assert rows["b"].queue_mapping is None
    held = await store.register(broker(), topics(1), held=held)
    rows = {row.broker_name: row for row in (await store.routes(["t0"]))["t0"].queue_datas}
    assert rows["broker-a"].queue_mapping is None
    held = await store.register(broker(), [TopicConfig("t0", 2, 2, queue_mapping=MAPPING)], held=held)
    await store.unregister(held)
    assert [row.broker_name for row in (await store.routes(["t0"]))["t0"].queue_datas] == ["b"]


async def test_a_restart_with_the_same_mapping_writes_nothing(store: Store) -> None:
    table = [TopicConfig("t0", 2, 2, attributes={"a": "b\tc"}, queue_mapping=MAPPING)]
    first = await store.register(broker(), table)
    second = await store.register(broker(), table)
    assert second.table_token == first.table_token


async def test_filter_servers_and_the_zone_stand_in_the_route(store: Store) -> None:
    await store.register(
        Broker("broker-a", ADDRESS, zone_name="zone-1", filter_servers=("h:9", "h:8")), topics(1)
    )
    (data,) = (await store.routes(["t0"]))["t0"].broker_datas
    assert data.zone_name == "zone-1"
    assert data.filter_servers == {ADDRESS: ("h:9", "h:8")}
    await store.register(Broker("broker-a", ADDRESS, filter_servers=()), topics(1))
    (data,) = (await store.routes(["t0"]))["t0"].broker_datas
    assert (data.zone_name, dict(data.filter_servers)) == ("", {})


async def filter_servers(store: Store) -> dict[str, tuple[str, ...]]:
    return dict((await store.routes(["t0"]))["t0"].broker_datas[0].filter_servers)


async def test_filter_servers_that_are_not_told_stay_as_they_are(store: Store) -> None:
    with_one = Broker("broker-a", ADDRESS, filter_servers=("h:9",))
    held = await store.register(with_one, topics(1))
    unsaid = replace(with_one, filter_servers=None)
    held = await store.register(unsaid, topics(1), held=held)
    assert await filter_servers(store) == {ADDRESS: ("h:9",)}
    held = await store.register(unsaid, topics(2), held=held)
    await store.register(unsaid, topics(1))  # as a restarted agent does
    found = await store.owner("broker-a")
    assert found is not None
    await store.run(plans.register_topic(store.config, found, topics(1)[0]))
    assert await filter_servers(store) == {ADDRESS: ("h:9",)}
    await store.register(replace(with_one, filter_servers=()), topics(1))
    assert await filter_servers(store) == {}
    await store.register(unsaid, topics(1))
    assert await filter_servers(store) == {}


async def test_filter_servers_belong_to_an_address(store: Store) -> None:
    held = await store.register(Broker("broker-a", ADDRESS, filter_servers=("h:9",)), topics(1))
    await store.register(Broker("broker-a", OTHER_ADDRESS), topics(1), held=held)
    assert await filter_servers(store) == {}
