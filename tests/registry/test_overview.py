"""The overview: the first rows of a registry of any size, and how much there is."""

from __future__ import annotations

import redis

from sharedroutes.registry import Broker, ChangeKind, TopicConfig
from sharedroutes.registry.plans.overview import Names, overview
from tests.fix_redis import Plant, Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.registry.operations import with_a_dead_one


async def test_an_empty_registry_has_nothing_to_show(store: Store) -> None:
    found = await store.run(overview(store.keys))
    assert (found.brokers, found.topics, found.leases, found.away) == (Names(), Names(), 0, 0)
    assert (found.changes, found.feed.entries, found.corrupt) == ((), 0, ())


async def test_it_shows_brokers_with_their_leases_topics_and_the_newest_changes(store: Store) -> None:
    await store.register(broker(), topics(2))
    await store.register(broker(broker_id=1, address=OTHER_ADDRESS), topics(2))
    found = await store.run(overview(store.keys))
    assert found.brokers == Names(("broker-a",), 1, 1)
    assert found.topics == Names(("t0", "t1"), 2, 2)
    assert found.table.alive["broker-a"].broker_addrs == {0: ADDRESS, 1: OTHER_ADDRESS}
    assert [row.broker_name for row in found.table.rows["t0"]] == ["broker-a"]
    assert (found.leases, found.away) == (2, 0)
    lease_ms = store.config.lease_ttl_s * 1_000
    for broker_id in (0, 1):
        assert 0 < found.deadlines["broker-a", broker_id] - found.now_ms <= lease_ms
    ids = [change.change_id for change in found.changes]
    assert found.changes[0].kind is ChangeKind.UP
    assert found.changes[0].broker_id == 1
    assert ids == sorted(ids, reverse=True)
    assert (ids[0], len(ids)) == (found.feed.last_id, found.feed.entries)


async def test_brokers_that_are_away_come_first(store: Store, admin: redis.Redis) -> None:
    await store.register(broker("b"), topics(1))
    await store.unregister(await store.register(broker("z", address=OTHER_ADDRESS), topics(1)))
    await with_a_dead_one(store, admin)  # nobody has announced its end
    found = await store.run(overview(store.keys, rows=2))
    assert found.brokers == Names(("broker-c", "z"), 3, 3)
    assert (found.leases, found.away) == (1, 2)
    assert "broker-c" not in found.table.alive


async def test_names_are_found_by_a_part_of_them_in_whatever_case(store: Store) -> None:
    await store.register(
        Broker("East-1", ADDRESS, cluster="shop"), [TopicConfig("Orders"), TopicConfig("mail")]
    )
    await store.register(Broker("west-1", OTHER_ADDRESS, cluster="bank"), [TopicConfig("reorder")])
    by_topic = await store.run(overview(store.keys, "ORDER"))
    assert by_topic.topics == Names(("Orders", "reorder"), 2, 3)
    assert by_topic.brokers == Names((), 0, 2)
    assert (await store.run(overview(store.keys, "east"))).brokers.first == ("East-1",)
    assert (await store.run(overview(store.keys, "bank"))).brokers.first == ("west-1",)


async def test_of_many_only_the_first_are_read(store: Store) -> None:
    names = [f"topic-{number:05}" for number in range(3_000)]
    await store.register(broker(), [TopicConfig(name) for name in names])
    found = await store.run(overview(store.keys, rows=10))
    assert found.topics == Names(tuple(names[:10]), 3_000, 3_000)
    assert found.table.rows.keys() == set(names[:10])
    assert len(found.changes) <= 20


async def test_foreign_keys_are_named_and_cost_nothing_else(store: Store, plant: Plant) -> None:
    await store.register(broker(), topics(2))
    for key in (store.keys.deadlines, store.keys.changes, store.keys.hints):
        plant(key)
    found = await store.run(overview(store.keys))
    named = {error.key for error in found.corrupt}
    assert named == {store.keys.deadlines, store.keys.changes, store.keys.hints}
    assert found.topics.first == ("t0", "t1")
    assert found.table.alive["broker-a"].broker_addrs == {0: ADDRESS}


async def test_an_entry_of_the_stream_that_is_no_change_is_named(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    admin.xadd(store.keys.changes, {"foreign": "entry"})
    found = await store.run(overview(store.keys))
    assert [error.key for error in found.corrupt] == [store.keys.changes]
    assert found.changes[0].kind is ChangeKind.UP
