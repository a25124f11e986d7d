"""Groups of replicas: what a slave is told, when it brings topics, who stands in for a lost master."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from sharedroutes.registry import Broker, ChangeKind, LeaseStatus, TopicConfig, plans
from tests.fix_redis import Store
from tests.registry.builders import broker, topics
from tests.support import await_until

MASTER = Broker("broker-a", "h:1", 0, "c", "h:2", enable_acting_master=True)
SLAVE = Broker("broker-a", "h:3", 1, "c", enable_acting_master=True)
SECOND = Broker("broker-a", "h:5", 2, "c", enable_acting_master=True)


async def test_a_slave_is_told_where_its_master_is(store: Store) -> None:
    alone = await store.register(SLAVE, topics(1))
    assert (alone.master_address, alone.master_ha_address) == ("", "")
    master = await store.register(MASTER, topics(1))
    assert (master.master_address, master.master_ha_address) == ("", "")
    told = await store.register(SLAVE, topics(1), held=alone)
    assert (told.master_address, told.master_ha_address) == ("h:1", "h:2")


async def test_a_slave_stands_in_for_a_lost_master_and_cannot_be_written_to(store: Store) -> None:
    master = await store.register(MASTER, topics(1))
    await store.register(SLAVE, topics(1))
    await store.register(SECOND, topics(1))
    await store.unregister(master)
    route = (await store.routes(["t0"]))["t0"]
    assert route.queue_datas[0].perm == 4
    assert dict(route.broker_datas[0].broker_addrs) == {0: "h:3", 2: "h:5"}
    await store.register(MASTER, topics(1))
    route = (await store.routes(["t0"]))["t0"]
    assert route.queue_datas[0].perm == 6
    assert dict(route.broker_datas[0].broker_addrs) == {0: "h:1", 1: "h:3", 2: "h:5"}


async def test_topics_in_which_brokers_look_for_their_master_show_no_stand_in(store: Store) -> None:
    name = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"
    table = [*topics(1), *(topics(1)[0].__class__(name, 1, 1),)]
    master = await store.register(MASTER, table)
    await store.register(SLAVE, table)
    await store.unregister(master)
    routes = await store.routes([name, "t0"])
    assert dict(routes[name].broker_datas[0].broker_addrs) == {1: "h:3"}
    assert dict(routes["t0"].broker_datas[0].broker_addrs) == {0: "h:3"}


async def test_without_acting_masters_a_slave_stays_what_it_is(store: Store) -> None:
    master = await store.register(broker(address="h:1"), topics(1))
    await store.register(broker(broker_id=1, address="h:3"), topics(1))
    await store.unregister(master)
    route = (await store.routes(["t0"]))["t0"]
    assert route.queue_datas[0].perm == 6
    assert dict(route.broker_datas[0].broker_addrs) == {1: "h:3"}


async def test_the_first_slave_brings_the_topics_that_the_store_lost_with_the_master(
    store: Store, admin: redis.Redis
) -> None:
    await store.register(MASTER, topics(3))
    await store.register(SLAVE, topics(3))
    admin.flushall()  # and the master does not come back
    held = await store.register(SLAVE, topics(3))
    second = await store.register(SECOND, topics(1))
    assert await store.topics() == ["t0", "t1", "t2"]
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert await store.heartbeat(second) is LeaseStatus.OK


async def test_a_slave_with_a_live_senior_brings_no_topics(store: Store) -> None:
    await store.register(MASTER, topics(1))
    slave = await store.register(SLAVE, topics(5))
    assert await store.topics() == ["t0"]
    assert dict(slave.topics) == {}


async def test_a_slave_that_brought_topics_steps_back_behind_the_master(store: Store) -> None:
    slave = await store.register(SLAVE, topics(3))
    master = await store.register(MASTER, topics(1))
    assert await store.topics() == ["t0"]
    assert await store.heartbeat(slave) is LeaseStatus.TABLE_LOST
    slave = await store.register(SLAVE, topics(3), held=slave)
    assert await store.topics() == ["t0"]
    assert [await store.heartbeat(held) for held in (slave, master)] == [LeaseStatus.OK, LeaseStatus.OK]


async def test_a_promoted_slave_is_no_longer_what_it_was(store: Store) -> None:
    await store.register(MASTER, topics(1))
    before = await store.register(SLAVE, topics(1))
    master = await store.owner("broker-a")
    assert master is not None
    await store.unregister(master)
    after = await store.register(Broker("broker-a", "h:3", 0, "c"), topics(1))
    assert dict((await store.routes(["t0"]))["t0"].broker_datas[0].broker_addrs) == {0: "h:3"}
    assert await store.heartbeat(before) is LeaseStatus.FENCED
    assert await store.heartbeat(after) is LeaseStatus.OK
    *_, down, up = (await store.changes_since()).changes
    assert (down.kind, down.broker_id, down.reason) == (ChangeKind.DOWN, 1, "has id 0 now")
    assert (up.kind, up.broker_id) == (ChangeKind.UP, 0)


async def test_another_replica_at_another_address_is_left_alone_by_a_promotion(store: Store) -> None:
    second = await store.register(SECOND, topics(1))
    await store.register(SLAVE, topics(1))
    await store.register(Broker("broker-a", "h:3", 0, "c"), topics(1))
    assert await store.heartbeat(second) is LeaseStatus.OK
    group = await store.member_group("broker-a")
    assert group is not None
    assert dict(group.broker_addrs) == {0: "h:3", 2: "h:5"}


async def test_each_broker_has_its_own_heartbeat_timeout(store: Store, admin: redis.Redis) -> None:
    quick = await store.register(Broker("quick", "h:1", heartbeat_timeout_ms=5_000), topics(1))
    await store.register(Broker("slow", "h:2"), topics(1))
    assert 0 < int(admin.pttl(store.keys.lease("quick", 0))) <= 5_000
    assert await store.heartbeat(quick) is LeaseStatus.OK
    assert 0 < int(admin.pttl(store.keys.lease("quick", 0))) <= 5_000
    await store.register(Broker("quick", "h:1", heartbeat_timeout_ms=80), topics(1), held=quick)

    async def only_slow() -> bool:
        return [found.broker_name for found in await store.brokers()] == ["slow"]

    await await_until(only_slow, description="the quick one is dead")


def slave_of(*, acting: bool | None, broker_id: int = 1) -> Broker:
    return replace(SLAVE, broker_id=broker_id, address=f"h:{broker_id}9", enable_acting_master=acting)


@pytest.mark.parametrize("acting", [None, False, True], ids=["4.x", "acting off", "acting on"])
@pytest.mark.parametrize("first", ["slave", "master"])
@pytest.mark.parametrize("known", [0, 1])
async def test_a_slave_that_knows_fewer_topics_takes_none_from_its_dead_master(
    store: Store, *, acting: bool | None, first: str, known: int
) -> None:
    slave, held = slave_of(acting=acting), None
    if first == "slave":
        held = await store.register(slave, topics(known))
    master = await store.register(MASTER, topics(2))
    if first == "master":
        held = await store.register(slave, topics(known))
    await store.unregister(master)
    assert held is not None
    held = await store.register(slave, topics(known), held=held)
    assert await store.topics() == ["t0", "t1"]
    assert await store.heartbeat(held) is LeaseStatus.OK
    again = await store.register(slave, topics(known))  # as a restarted agent does
    assert await store.topics() == ["t0", "t1"]
    assert await store.heartbeat(again) is LeaseStatus.OK


@pytest.mark.parametrize(
    ("acting", "brings"), [(None, False), (False, True), (True, True)], ids=["4.x", "acting off", "acting on"]
)
async def test_a_slave_without_a_master_brings_what_rocketmq_would_take_from_it(
    store: Store, *, acting: bool | None, brings: bool
) -> None:
    slave = slave_of(acting=acting)
    held = await store.register(slave, topics(1))
    assert await store.topics() == (["t0"] if brings else [])
    held = await store.register(slave, [TopicConfig("new"), TopicConfig("t0", 2, 2)], held=held)
    assert await store.topics() == (["new", "t0"] if brings else [])
    queues = [
        one.read_queue_nums for route in (await store.routes(["t0"])).values() for one in route.queue_datas
    ]
    assert queues == ([2] if brings else [])


@pytest.mark.parametrize("acting", [False, True])
async def test_what_a_slave_no_longer_has_stays_until_a_master_says_otherwise(
    store: Store, *, acting: bool
) -> None:
    slave = slave_of(acting=acting)
    held = await store.register(slave, topics(3))
    held = await store.register(slave, topics(1), held=held)
    assert await store.topics() == ["t0", "t1", "t2"]
    held = await store.run(plans.register_topic(store.config, held, TopicConfig("t2", 2, 2)))
    held = await store.register(slave, topics(2), held=held)
    assert await store.topics() == ["t0", "t1", "t2"]
    await store.register(MASTER, topics(1))
    assert await store.topics() == ["t0"]
