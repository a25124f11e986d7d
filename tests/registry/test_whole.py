"""The whole table in one view."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import CorruptData, Lookup
from sharedroutes.registry.plans import Batch, whole_table
from tests.fix_redis import Plant, Store
from tests.registry.builders import broker, row, topics
from tests.registry.probes import recorded


async def whole(store: Store) -> Lookup:
    return await store.run(whole_table(store.keys))


async def test_an_empty_registry_is_an_empty_table(store: Store) -> None:
    assert await whole(store) == Lookup()


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


@pytest.mark.parametrize("index", ["topics", "brokers"])
async def test_a_foreign_index_is_an_error(store: Store, plant: Plant, index: str) -> None:
    await store.register(broker(), topics(1))
    key = getattr(store.keys, index)
    plant(key)
    with pytest.raises(CorruptData, match=key.replace("{", r"\{")):
        await whole(store)
