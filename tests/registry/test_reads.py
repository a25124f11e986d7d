"""Lookups, listings and the whole table: what they find, and in how many round trips."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import BrokerData, Group, InvalidInput, Lookup, plans
from sharedroutes.registry.plans import Batch, Reads, whole_table
from tests.fix_redis import Plant, Store, StoreMaker
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, row, topics
from tests.registry.probes import one_batch, recorded

GROUP_A = Group("cluster-1", "broker-a", (0,))


async def test_an_empty_registry_has_no_routes_topics_or_brokers(store: Store) -> None:
    assert await store.routes(["t0"]) == {}
    assert await store.routes([]) == {}
    assert await store.topics() == []
    assert await store.brokers() == []
    assert await whole(store) == Lookup()


async def test_listings_are_sorted_and_show_live_brokers_alone(store: Store) -> None:
    await store.register(broker("b"), topics(2))
    dead = await store.register(broker("a", address=OTHER_ADDRESS), topics(3))
    assert await store.topics() == ["t0", "t1", "t2"]
    assert [found.broker_name for found in await store.brokers()] == ["a", "b"]
    await store.unregister(dead)
    assert await store.topics() == ["t0", "t1"]
    assert await store.brokers() == [BrokerData("cluster-1", "b", {0: ADDRESS})]


async def test_a_lookup_tells_dead_brokers_from_topics_that_nobody_holds(store: Store) -> None:
    await store.unregister(await store.register(broker(), topics(1)))
    found = await store.lookup(["t0", "unknown"])
    assert [row.broker_name for row in found.rows["t0"]] == ["broker-a"]
    assert found.missing == ("unknown",)
    assert found.groups == {"broker-a": Group("cluster-1", "broker-a", ())}
    assert found.alive == {}
    assert found.routes() == {}


async def test_a_route_leaves_out_the_dead_among_its_brokers(store: Store) -> None:
    await store.register(broker("a"), topics(1))
    await store.unregister(await store.register(broker("b", address=OTHER_ADDRESS), topics(1)))
    (route,) = (await store.routes(["t0"])).values()
    assert [row.broker_name for row in route.queue_datas] == ["a"]
    assert route.broker_datas == (BrokerData("cluster-1", "a", {0: ADDRESS}),)


async def test_a_lookup_with_known_groups_takes_one_round_trip(store: Store) -> None:
    await store.register(broker(), topics(2))
    batches: list[Batch] = []
    plan = plans.lookup(store.keys, ["t0", "t1"], {"broker-a": GROUP_A})
    found = await store.run(recorded(plan, batches))
    assert len(batches) == 1
    assert sorted(found.routes()) == ["t0", "t1"]
    assert found.groups == {"broker-a": GROUP_A}


async def test_a_group_that_is_not_known_is_read_and_given_back(store: Store) -> None:
    await store.register(broker(), topics(1))
    await store.register(broker("b", address=OTHER_ADDRESS), topics(1))
    found = await store.lookup(["t0"], {"broker-a": GROUP_A})
    assert found.groups == {"broker-a": GROUP_A, "b": Group("cluster-1", "b", (0,))}
    assert sorted(found.alive) == ["b", "broker-a"]


async def test_a_known_group_is_not_looked_at_again_for_new_members(store: Store) -> None:
    await store.register(broker(), topics(1))
    await store.register(broker(broker_id=1, address=OTHER_ADDRESS), [])
    assert (await store.lookup(["t0"], {"broker-a": GROUP_A})).alive["broker-a"].broker_addrs == {0: ADDRESS}
    assert (await store.lookup(["t0"])).alive["broker-a"].broker_addrs == {0: ADDRESS, 1: OTHER_ADDRESS}


async def test_a_group_that_is_asked_for_anew_is_read_though_no_topic_names_it(store: Store) -> None:
    await store.register(broker(), [])
    found = await store.lookup([], anew=["broker-a"])
    assert found.groups == {"broker-a": GROUP_A}
    assert found.alive["broker-a"].broker_addrs == {0: ADDRESS}


async def test_a_lookup_of_more_topics_than_one_command_takes_finds_all(store: Store) -> None:
    held = await store.register(broker(), topics(2_500))
    batches: list[Batch] = []
    plan = plans.lookup(store.keys, [*held.topics, "unknown"], {"broker-a": GROUP_A})
    found = await store.run(recorded(plan, batches))
    first = batches[0]
    assert isinstance(first, Reads)
    assert [len(command) - 1 for command in first.commands] == [1_000, 1_000, 502]  # and a lease
    assert list(found.rows) == list(held.topics)
    assert found.missing == ("unknown",)
    assert await store.topics() == sorted(held.topics)


async def test_an_absent_topic_that_is_written_meanwhile_is_called_missing(
    store: Store, admin: redis.Redis
) -> None:
    plan = plans.lookup(store.keys, ["t0"])
    first = next(plan)
    replies = await store.run(one_batch(first))
    await store.register(broker(), topics(1))
    with pytest.raises(StopIteration) as done:
        plan.send(await store.run(one_batch(plan.send(replies))))
    assert done.value.value.missing == ("t0",)


async def test_registries_of_two_namespaces_do_not_see_each_other(
    store: Store, make_store: StoreMaker, redis_url: str
) -> None:
    other = make_store(redis_url, namespace="other")
    await store.register(broker(), topics(1))
    await other.register(broker(), topics(2))
    assert await store.topics() == ["t0"]
    assert await other.topics() == ["t0", "t1"]


async def test_a_name_that_no_key_can_hold_is_refused(store: Store) -> None:
    for names in (["\ud800"], ["t0", "\ud800"]):
        with pytest.raises(InvalidInput):
            await store.routes(names)
    assert await store.routes(["t0"]) == {}


async def whole(store: Store) -> Lookup:
    return await store.run(whole_table(store.keys))


async def test_the_table_holds_every_topic_and_every_broker(store: Store) -> None:
    await store.register(broker("broker-a"), topics(2_500))
    await store.register(broker("broker-b"), topics(5, first=2_498, queues=8))
    await store.register(broker("broker-c"), [])
    found = await whole(store)
    names = [f"t{number}" for number in range(2_503)]
    assert found == await store.lookup(names, anew=["broker-c"])
    assert found.rows["t2499"] == (
        row("broker-a", topics(1)[0]),
        row("broker-b", topics(1, queues=8)[0]),
    )
    assert sorted(found.alive) == ["broker-a", "broker-b", "broker-c"]


async def test_it_is_read_in_pages(store: Store) -> None:
    await store.register(broker(), topics(5_000))
    batches: list[Batch] = []
    found = await store.run(recorded(whole_table(store.keys), batches))
    assert len(found.rows) == 5_000
    assert 10 <= len(batches) <= 16  # SSCAN and MGET a page, and three for the brokers


async def test_a_dead_broker_has_rows_and_no_address(store: Store) -> None:
    held = await store.register(broker("broker-a"), topics(1))
    await store.register(broker("broker-b"), topics(1))
    await store.unregister(held)
    found = await whole(store)
    assert {one.broker_name for one in found.rows["t0"]} == {"broker-a", "broker-b"}
    assert list(found.alive) == ["broker-b"]
    assert found.routes() == await store.routes(["t0"])


async def test_a_broker_that_only_a_row_names_is_looked_up(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1))
    admin.delete(store.keys.brokers)
    assert list((await whole(store)).alive) == ["broker-a"]


async def test_a_topic_that_is_gone_since_it_was_listed_is_left_out(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(2))
    admin.delete(store.keys.topic("t0"))
    found = await whole(store)
    assert (list(found.rows), found.corrupt) == (["t1"], ())


async def test_a_foreign_key_is_named_and_the_rest_is_told(
    store: Store, admin: redis.Redis, plant: Plant
) -> None:
    await store.register(broker(), topics(3))
    keys = [store.keys.topic("t0"), store.keys.topic("t1")]
    plant(keys[0])
    plant(keys[1], "garbage")
    admin.sadd(store.keys.topics, b"\xff")
    found = await whole(store)
    assert sorted(error.key for error in found.corrupt) == keys
    assert list(found.routes()) == ["t2"]
