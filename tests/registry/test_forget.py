"""Forgetting a broker: all of it goes, but no live one; after a crash on the way a second time ends it."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import (
    EXPIRED,
    BrokerOwned,
    ChangeKind,
    InvalidInput,
    NotFound,
    RegistryConfig,
    RouteStore,
    StaleEpoch,
    plans,
    topic_table,
)
from sharedroutes.registry.plans import Batch, Call
from sharedroutes.registry.plans.bulk_load import forget
from sharedroutes.registry.scripts import PUT_TOPICS
from tests.fix_redis import Store
from tests.registry.builders import ADDRESS, broker, topics
from tests.registry.probes import Crash, dump, interrupted, observed, unchanged
from tests.registry.repairs import differences

CONFIG = RegistryConfig(chunk_topics=10)


async def test_a_forgotten_broker_leaves_nothing_behind(store: Store, admin: redis.Redis) -> None:
    await store.register(broker("other", address="10.0.0.7:1"), topics(2))
    before = dump(admin, but=store.keys.changes)
    held = await store.register(broker(), topics(3))
    await store.admin.wipe_write_perm("broker-a")
    await store.unregister(held)
    assert await store.admin.forget("broker-a") == 3
    after = dump(admin, but=store.keys.changes)
    assert after.keys() == before.keys()
    assert [row.broker_name for row in (await store.routes(["t0"]))["t0"].queue_datas] == ["other"]
    assert await store.topics() == ["t0", "t1"]
    assert await differences(store) == []
    with pytest.raises(NotFound):
        await store.admin.forget("broker-a")


async def test_its_end_and_its_topics_are_announced(store: Store) -> None:
    await store.unregister(await store.register(broker(), topics(2)))
    position = (await store.changes_since()).position
    await store.admin.forget("broker-a")
    removed, end = (await store.changes_since(position)).changes
    assert (removed.kind, removed.removed) == (ChangeKind.TOPICS, ("t0", "t1"))
    assert (end.kind, end.broker_name, end.reason) == (ChangeKind.DOWN, "broker-a", "forgotten")
    assert end.reason != EXPIRED


@pytest.mark.parametrize("broker_id", [0, 1])
async def test_a_broker_with_a_live_replica_is_refused_and_not_changed(
    store: Store, admin: redis.Redis, broker_id: int
) -> None:
    master = await store.register(broker(), topics(2))
    slave = await store.register(broker(broker_id=1, address="10.0.0.9:1"), [])
    await store.unregister(slave if broker_id == 0 else master)
    message = r"; wait until it is unregistered or its lease ends$"
    with unchanged(admin), pytest.raises(BrokerOwned, match=message) as refused:
        await store.admin.forget("broker-a")
    assert refused.value.broker_id == broker_id
    assert refused.value.owner_address == (ADDRESS if broker_id == 0 else "10.0.0.9:1")


async def test_a_name_that_is_unknown_or_none_is_refused(store: Store, admin: redis.Redis) -> None:
    with pytest.raises(NotFound):
        await store.admin.forget("no-such")
    with pytest.raises(InvalidInput):
        await store.admin.forget("a:b")
    assert admin.dbsize() == 0


@pytest.mark.parametrize("left", ["listing", "table", "group"])
async def test_what_is_left_of_a_broken_broker_is_forgotten(
    store: Store, admin: redis.Redis, left: str
) -> None:
    keys = store.keys
    await store.unregister(await store.register(broker(), topics(2)))
    if left != "table":
        admin.delete(keys.broker_topics("broker-a"), keys.topic("t0"), keys.topic("t1"), keys.topics)
    if left != "group":
        admin.delete(keys.broker("broker-a"))
    if left != "listing":
        admin.hdel(keys.brokers, "broker-a")
    await store.admin.forget("broker-a")
    assert {*admin.keys()} == {keys.changes.encode(), keys.schema.encode()}


@pytest.mark.parametrize("after", range(1, 13))
def test_a_crash_on_the_way_leaves_nothing_that_a_second_time_does_not_finish(
    admin: redis.Redis, after: int
) -> None:
    store = RouteStore.from_client(admin, CONFIG)
    store.unregister(store.register(broker(), topics(25)))
    crashed = False
    try:
        store.run(interrupted(forget(CONFIG, "broker-a"), after))
    except Crash:
        crashed = True
    assert list(store.admin.verify()) == []
    assert admin.hget(store.keys.brokers, "broker-a") in (b"cluster-1", None)
    if crashed and admin.exists(store.keys.broker("broker-a")):
        store.admin.forget("broker-a")
    assert {*admin.keys()} == {store.keys.changes.encode(), store.keys.schema.encode()}


@pytest.mark.parametrize(
    ("listed", "kept"), [("cluster-2", b"cluster-2"), ("", b"unknown"), ("a b", b"unknown")]
)
def test_a_cluster_that_the_group_has_lost_stays_in_the_index(
    admin: redis.Redis, listed: str, kept: bytes
) -> None:
    store = RouteStore.from_client(admin, CONFIG)
    store.unregister(store.register(broker(), topics(25)))
    admin.hdel(store.keys.broker("broker-a"), "cluster")
    admin.hset(store.keys.brokers, "broker-a", listed)
    with pytest.raises(Crash):
        store.run(interrupted(forget(CONFIG, "broker-a"), 7))
    assert admin.hget(store.keys.brokers, "broker-a") == kept


def test_a_field_that_only_looks_like_that_of_a_replica_is_no_obstacle(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin, CONFIG)
    store.unregister(store.register(broker(), topics(2)))
    admin.hset(store.keys.broker("broker-a"), mapping={"epoch:007": 1, "member:99999999999999999999": "{}"})
    assert store.admin.forget("broker-a") == 2
    assert {*admin.keys()} == {store.keys.changes.encode(), store.keys.schema.encode()}


def test_rows_of_topics_that_its_table_does_not_have_are_left_to_rebuild(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin, CONFIG)
    store.unregister(store.register(broker(), topics(2)))
    admin.set(store.keys.topic("t9"), "broker-a 1 1 6 0")
    admin.sadd(store.keys.topics, "t9")
    assert store.admin.forget("broker-a") == 2
    assert [found.kind for found in store.admin.verify()] == ["row-without-table"]
    assert all(done.mended for done in store.admin.rebuild())
    assert {*admin.keys()} == {store.keys.changes.encode(), store.keys.schema.encode()}


def test_an_owner_that_was_thought_dead_is_fenced(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin, CONFIG)
    held = store.register(broker(), topics(2))
    admin.delete(store.keys.lease("broker-a", 0))
    store.admin.forget("broker-a")
    with pytest.raises(StaleEpoch):
        store.register(broker(), topics(3), held=held)
    assert store.topics() == []
    assert store.register(broker(), topics(3)).topics
    assert list(store.admin.verify()) == []


@pytest.mark.parametrize("after", range(1, 13))
@pytest.mark.parametrize("broker_id", [0, 7])
def test_a_broker_that_registers_meanwhile_wins(admin: redis.Redis, after: int, broker_id: int) -> None:
    """Whatever forgetting had removed, a registration brings back; what came is not forgotten."""
    store = RouteStore.from_client(admin, CONFIG)
    store.unregister(store.register(broker(), topics(25)))
    plan = forget(CONFIG, "broker-a")
    comer = broker(broker_id=broker_id, address="10.0.0.8:1")
    registered = False

    def come(_: object) -> None:
        nonlocal registered
        steps.append(1)
        if len(steps) == after:
            store.register(comer, topics(25))
            registered = True

    steps: list[int] = []
    try:
        store.run(observed(plan, come))
        finished = True
    except (BrokerOwned, StaleEpoch):
        finished = False
    assert registered or finished
    if registered:
        assert [found.broker_addrs for found in store.brokers()] == [{broker_id: "10.0.0.8:1"}]
        if broker_id == 0:
            assert store.topics() == sorted(f"t{n}" for n in range(25))
    assert list(store.admin.verify()) == []


def test_a_broker_that_is_claimed_in_between_is_not_forgotten_under_its_new_owner(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin, CONFIG)
    store.unregister(store.register(broker(), topics(3)))
    claims = interrupted(plans.register(CONFIG, broker(), topic_table(topics(3))), 1)

    def claim(batch: Batch) -> None:
        if isinstance(batch, Call) and batch.script is PUT_TOPICS:
            with pytest.raises(Crash):
                store.run(claims)

    with pytest.raises(StaleEpoch):
        store.run(observed(forget(CONFIG, "broker-a"), claim))
    assert admin.exists(store.keys.broker("broker-a"))
