"""What somebody else put into one key breaks that key alone: it is named, and the rest goes on."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

import pytest
import redis

from sharedroutes.registry import (
    BrokerOwned,
    CorruptData,
    LeaseStatus,
    Registration,
    RegistryError,
    StaleEpoch,
)
from sharedroutes.registry.keys import Keys
from tests.fix_redis import Plant, Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.registry.probes import addresses

KEYS = Keys("sharedroutes")
TOPIC = KEYS.topic("t0")
BROKER = KEYS.broker("broker-a")
TABLE = KEYS.broker_topics("broker-a")
LEASE = KEYS.lease("broker-a", 0)
ALL = [TOPIC, BROKER, TABLE, LEASE, KEYS.deadlines, KEYS.brokers, KEYS.topics, KEYS.changes]

Pair: TypeAlias = tuple[Registration, Registration]


async def two_brokers(store: Store) -> Pair:
    """Register broker-a and broker-b, each with the topics t0 and t1."""
    return (
        await store.register(broker(), topics(2)),
        await store.register(broker("broker-b", address=OTHER_ADDRESS), topics(2)),
    )


async def named_by(coroutine: Any) -> str | None:
    """Return the key that the operation complains about, or None."""
    try:
        await coroutine
    except CorruptData as corrupt:
        return corrupt.key
    return None


@pytest.mark.parametrize("key", ALL)
async def test_lookups_serve_everything_that_does_not_stand_in_the_foreign_key(
    store: Store, plant: Plant, key: str
) -> None:
    await two_brokers(store)
    plant(key)
    both = {ADDRESS, OTHER_ADDRESS}
    without_a = {OTHER_ADDRESS}
    assert await addresses(store, "t1") == (without_a if key in (BROKER, LEASE) else both)
    if key != TOPIC:
        assert await addresses(store, "t0") == await addresses(store, "t1")
    reported = [corrupt.key for corrupt in (await store.lookup(["t0", "t1"])).corrupt]
    assert reported == ([key] if key in (TOPIC, BROKER) else [])  # a lease of another type is no lease


@pytest.mark.parametrize("key", [TOPIC, BROKER, TABLE, LEASE])
async def test_a_broker_is_not_disturbed_by_a_foreign_key_of_another(
    store: Store, plant: Plant, key: str
) -> None:
    _, held = await two_brokers(store)
    plant(key)
    assert await store.heartbeat(held) is LeaseStatus.OK
    await store.register(broker("broker-b", address=OTHER_ADDRESS), topics(5))
    assert OTHER_ADDRESS in await addresses(store, "t4")


async def test_foreign_deadlines_let_no_broker_die(store: Store, admin: redis.Redis, plant: Plant) -> None:
    held, _ = await two_brokers(store)
    plant(KEYS.deadlines)
    admin.pexpire(LEASE, 5_000)
    with contextlib.suppress(RegistryError):
        await store.heartbeat(held)
    assert admin.pttl(LEASE) > 5_000


async def test_a_heartbeat_that_finds_a_foreign_lease_says_that_the_lease_is_lost(
    store: Store, plant: Plant
) -> None:
    held, _ = await two_brokers(store)
    plant(LEASE)
    assert await store.heartbeat(held) is LeaseStatus.LEASE_LOST


@pytest.mark.parametrize("key", [TOPIC, KEYS.topic("t2")], ids=["of an old topic", "of a new topic"])
async def test_a_foreign_index_is_left_as_it_is_and_reported_and_the_other_topics_are_written(
    store: Store, admin: redis.Redis, plant: Plant, key: str
) -> None:
    await two_brokers(store)
    plant(key)
    held = await store.register(broker(), topics(4, queues=8))
    assert held.corrupt_keys == (key,)
    assert admin.lrange(key, 0, -1) == [b"foreign"]
    found = await store.lookup([f"t{number}" for number in range(4)])
    assert [corrupt.key for corrupt in found.corrupt] == [key]
    assert {name for name, route in found.routes().items() if len(route.broker_datas)} == {
        f"t{number}" for number in range(4) if KEYS.topic(f"t{number}") != key
    }


@pytest.mark.parametrize("new", range(3))
async def test_the_rows_of_others_and_foreign_indexes_stay_whichever_of_the_topics_are_new(
    store: Store, plant: Plant, new: int
) -> None:
    """A script that takes the first topic for all of them would write over what is there."""
    others = [topic for number, topic in enumerate(topics(3)) if number != new]
    await store.register(broker("broker-b", address=OTHER_ADDRESS), others[:1])
    foreign = KEYS.topic(others[1].topic_name)
    plant(foreign)
    held = await store.register(broker(), topics(3))
    assert held.corrupt_keys == (foreign,)
    assert await addresses(store, others[0].topic_name) == {ADDRESS, OTHER_ADDRESS}
    assert await addresses(store, f"t{new}") == {ADDRESS}


async def test_a_foreign_index_is_reported_by_every_registration_until_it_is_gone(
    store: Store, plant: Plant
) -> None:
    plant(TOPIC)
    held = await store.register(broker(), topics(1))
    for owned in (held, None):
        assert (await store.register(broker(), topics(1), held=owned)).corrupt_keys == (TOPIC,)


@pytest.mark.parametrize("restarted", [False, True], ids=["running owner", "restarted owner"])
@pytest.mark.parametrize("is_old", [False, True], ids=["of a new topic", "of an old topic"])
async def test_an_index_that_was_foreign_is_written_when_it_is_gone(
    store: Store, admin: redis.Redis, plant: Plant, *, is_old: bool, restarted: bool
) -> None:
    former = await store.register(broker(), topics(1)) if is_old else None
    plant(TOPIC)
    held = await store.register(broker(), topics(1, queues=8 if is_old else 4), held=former)
    assert held.corrupt_keys == (TOPIC,)
    admin.delete(TOPIC)
    held = await store.register(broker(), topics(1), held=None if restarted else held)
    assert held.corrupt_keys == ()
    assert await addresses(store) == {ADDRESS}


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff\xfe", b"broker-a 4 4 6 0 9", b"\n\n"], ids=ascii)
async def test_garbage_in_an_index_is_reported_and_the_rest_is_served(
    store: Store, admin: redis.Redis, garbage: bytes
) -> None:
    await two_brokers(store)
    admin.set(TOPIC, garbage)
    found = await store.lookup(["t0", "t1"])
    assert [corrupt.key for corrupt in found.corrupt] == [TOPIC]
    assert sorted(found.routes()) == ["t1"]
    assert await store.topics() == ["t1"]


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff", b"12", b"x h:1"], ids=ascii)
async def test_garbage_in_a_lease_is_reported_and_gives_no_address(
    store: Store, admin: redis.Redis, garbage: bytes
) -> None:
    held, _ = await two_brokers(store)
    admin.set(LEASE, garbage, px=60_000)
    found = await store.lookup(["t0"])
    assert [corrupt.key for corrupt in found.corrupt] == [LEASE]
    assert await addresses(store, "t0") == {OTHER_ADDRESS}
    assert await store.heartbeat(held) is LeaseStatus.LEASE_LOST
    assert await named_by(store.register(broker(), topics(2))) == LEASE


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff\xfe", b"1e300"], ids=ascii)
@pytest.mark.parametrize("field", ["epoch:0", "token", "cluster", "member:0", "version", "unknown"])
async def test_garbage_in_a_brokers_hash_raises_nothing_unforeseen_and_disturbs_no_other(
    store: Store, admin: redis.Redis, field: str, garbage: bytes
) -> None:
    held, _ = await two_brokers(store)
    admin.hset(BROKER, field, garbage)
    with contextlib.suppress(RegistryError):
        await store.heartbeat(held)
    with contextlib.suppress(RegistryError):
        await store.register(broker(), topics(3, queues=8), held=held)
    with contextlib.suppress(RegistryError):
        await store.register(broker(), topics(3))
    with contextlib.suppress(RegistryError):
        await store.unregister(held)
    assert OTHER_ADDRESS in await addresses(store, "t0")


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff\xfe", b"1e300"], ids=ascii)
async def test_garbage_in_an_epoch_is_named_by_who_would_take_it_over(
    store: Store, admin: redis.Redis, garbage: bytes
) -> None:
    await two_brokers(store)
    admin.hset(BROKER, "epoch:0", garbage)
    assert await named_by(store.register(broker(), topics(2))) == BROKER


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff\xfe"], ids=ascii)
async def test_garbage_in_a_brokers_table_is_written_over(
    store: Store, admin: redis.Redis, garbage: bytes
) -> None:
    await two_brokers(store)
    admin.hset(TABLE, mapping={b"t1": garbage, b"\xff\xfe": garbage, b"": garbage})
    held = await store.register(broker(), topics(2))
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert admin.hget(TABLE, "t1") == b"4 4 6 0"
    assert await addresses(store, "t1") == {ADDRESS, OTHER_ADDRESS}


async def test_garbage_in_the_listings_is_passed_over(store: Store, admin: redis.Redis) -> None:
    await two_brokers(store)
    admin.hset(KEYS.brokers, mapping={b"ghost": b"?", b"\xff\xfe": b"?", b"": b"?"})
    admin.sadd(KEYS.topics, b"ghost", b"\xff\xfe", b"")
    assert [found.broker_name for found in await store.brokers()] == ["broker-a", "broker-b"]
    assert await store.topics() == ["t0", "t1"]


async def test_an_index_that_was_deleted_is_written_again_by_the_next_start(
    store: Store, admin: redis.Redis
) -> None:
    await two_brokers(store)
    admin.delete(TOPIC)
    admin.set(KEYS.topic("t1"), "broker-b 4 4 6 0")
    await store.register(broker(), topics(2))
    assert await addresses(store, "t0") == {ADDRESS}
    assert await addresses(store, "t1") == {ADDRESS, OTHER_ADDRESS}


# --- numbers that nobody wrote -----------------------------------------------------------------------------

ENDLESS = "9" * 5_000
"""More digits than Python is willing to read."""


async def test_an_endless_epoch_breaks_its_broker_alone(store: Store, admin: redis.Redis) -> None:
    held, other = await two_brokers(store)
    admin.hset(BROKER, "epoch:0", ENDLESS)
    admin.delete(LEASE, store.keys.lease(other.broker.broker_name, 0))
    for name in ("broker-a", other.broker.broker_name):
        admin.zadd(store.keys.deadlines, {store.keys.lease_member(name, 0): 1})
    assert (other.broker.broker_name, 0) in (await store.sweep("me")).expired
    with pytest.raises(StaleEpoch):
        await store.unregister(held)


async def test_an_endless_state_version_is_none(store: Store, admin: redis.Redis) -> None:
    await two_brokers(store)
    admin.hset(BROKER, "version:0", ENDLESS)
    with pytest.raises(BrokerOwned, match="state version 0"):
        await store.register(broker(address=OTHER_ADDRESS), topics(1))


async def test_an_endless_schema_stops_no_reader_and_no_broker_and_is_named_to_who_repairs(
    store: Store, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    await two_brokers(store)
    admin.set(store.keys.schema, ENDLESS)
    assert await store.topics()
    assert (await store.register(broker(), topics(1))).corrupt_keys == (store.keys.schema,)
    assert await named_by(store.admin.delete_topic("t0")) == store.keys.schema
    assert admin.get(store.keys.schema) == ENDLESS.encode()


async def test_an_empty_route_index_is_none(store: Store, admin: redis.Redis) -> None:
    admin.set(TOPIC, "")
    await store.register(broker(), topics(1))
    assert admin.get(TOPIC) == b"broker-a 4 4 6 0"
