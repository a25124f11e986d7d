"""Brokers live and go whatever stands in the place of listings, deadlines, schema and stream."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import redis

from sharedroutes.registry import Broker, ChangeKind, LeaseStatus, Registration, codec, plans
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import ORIGIN, withdraw
from tests.fix_redis import Plant, Store
from tests.registry.builders import ADDRESS, OTHER_ADDRESS, broker, topics
from tests.registry.probes import addresses, lease_ended

KEYS = Keys("sharedroutes")
LEASE = KEYS.lease("broker-a", 0)
SHARED = [KEYS.deadlines, KEYS.brokers, KEYS.topics, KEYS.schema, KEYS.changes]
KINDS = pytest.mark.parametrize("kind", ["list", "string"])
"""Of what stands there: a type that the registry never writes, and, where it writes strings, garbage."""


def content(admin: redis.Redis, key: str) -> bytes | None:
    dumped: bytes | None = admin.dump(key)
    return dumped


@KINDS
@pytest.mark.parametrize("key", SHARED)
async def test_a_broker_is_registered_served_renewed_and_ended(
    store: Store, admin: redis.Redis, plant: Plant, key: str, kind: str
) -> None:
    plant(key, kind)
    before = content(admin, key)
    held = await store.register(broker(), topics(2))
    assert held.corrupt_keys == (key,)
    assert await addresses(store, "t1") == {ADDRESS}
    if key in (KEYS.deadlines, KEYS.brokers, KEYS.topics):
        assert await store.heartbeat(held, listings=True) is LeaseStatus.UNLISTED
    else:
        assert await store.heartbeat(held) is LeaseStatus.OK
    held = await store.register(broker(), topics(3), held=held)
    assert held.corrupt_keys == (key,)
    assert await addresses(store, "t2") == {ADDRESS}
    assert await store.unregister(held)
    assert not await store.unregister(held)
    assert admin.exists(LEASE) == 0
    assert await addresses(store, "t1") == set()
    assert content(admin, key) == before


@pytest.mark.parametrize("key", SHARED)
async def test_a_slave_is_registered_too(store: Store, plant: Plant, key: str) -> None:
    await store.register(broker(), topics(1))
    plant(key)
    slave = replace(broker(broker_id=1, address=OTHER_ADDRESS), enable_acting_master=True)
    held = await store.register(slave, topics(1))
    assert held.corrupt_keys == (key,)
    assert held.master_address == ADDRESS


@pytest.mark.parametrize("key", SHARED)
async def test_a_slave_that_is_promoted_is_what_it_was_no_more(
    store: Store, admin: redis.Redis, plant: Plant, key: str
) -> None:
    await store.register(replace(broker(broker_id=1), enable_acting_master=True), topics(1))
    plant(key)
    assert (await store.register(broker(), topics(1))).corrupt_keys == (key,)
    assert admin.exists(KEYS.lease("broker-a", 1)) == 0


@pytest.mark.parametrize("key", SHARED)
async def test_a_registration_that_finds_a_foreign_listing_fences_the_owner_before_as_ever(
    store: Store, plant: Plant, key: str
) -> None:
    former = await store.register(broker(), topics(1))
    plant(key)
    await store.register(broker(), topics(1))
    assert await store.heartbeat(former) is LeaseStatus.FENCED


@pytest.mark.parametrize("key", SHARED)
async def test_one_topic_is_registered(store: Store, plant: Plant, key: str) -> None:
    held = await store.register(broker(), topics(1))
    plant(key)
    held = await store.run(plans.register_topic(store.config, held, topics(1, first=1)[0]))
    assert held.corrupt_keys == ((key,) if key in (KEYS.topics, KEYS.changes) else ())
    assert await addresses(store, "t1") == {ADDRESS}


@pytest.mark.parametrize("key", SHARED)
async def test_an_operator_takes_a_broker_out(
    store: Store, admin: redis.Redis, plant: Plant, key: str
) -> None:
    await store.register(broker(), topics(1))
    plant(key)
    assert await store.run(withdraw(store.config, broker(), reason="paused"))
    assert admin.exists(LEASE) == 0
    assert admin.hget(KEYS.broker("broker-a"), "out:0") == ADDRESS.encode()


@pytest.mark.parametrize("key", [KEYS.schema, KEYS.changes])
async def test_the_write_permission_is_taken_and_given_back(store: Store, plant: Plant, key: str) -> None:
    await store.register(broker(), topics(1))
    plant(key)
    assert await store.admin.wipe_write_perm("broker-a") == 1
    assert (await store.lookup(["t0"])).groups["broker-a"].wiped
    assert await store.admin.add_write_perm("broker-a") == 1


async def dead_one(store: Store, admin: redis.Redis) -> tuple[str, int]:
    """Register broker-c, and wait until its lease has ended."""
    await store.register(Broker("broker-c", "h:3", heartbeat_timeout_ms=50), topics(1))
    await lease_ended(store, admin, name="broker-c")
    return "broker-c", 0


@pytest.mark.parametrize("key", [key for key in SHARED if key != KEYS.changes])
async def test_the_end_of_a_lease_is_announced_once(
    store: Store, admin: redis.Redis, plant: Plant, key: str
) -> None:
    held = await store.register(broker(), topics(1))
    dead = await dead_one(store, admin)
    plant(key)
    sweeps = [await store.sweep("me") for _ in range(2)]
    assert [sweep.expired for sweep in sweeps] == [(dead,), ()]
    assert not await store.expire(*dead)
    foreign = (key,) if key == KEYS.deadlines else ()
    assert [tuple(error.key for error in sweep.corrupt) for sweep in sweeps] == [foreign] * 2
    last = (await store.changes_since()).changes[-1]
    assert (last.kind, last.broker_name, last.reason) == (ChangeKind.DOWN, "broker-c", "expired")
    assert await store.heartbeat(held) in (LeaseStatus.OK, LeaseStatus.UNLISTED)


async def test_without_deadlines_and_listing_the_sweep_names_both(
    store: Store, admin: redis.Redis, plant: Plant
) -> None:
    dead = await dead_one(store, admin)
    plant(KEYS.deadlines)
    plant(KEYS.brokers)
    assert [error.key for error in (await store.sweep("me")).corrupt] == [KEYS.deadlines, KEYS.brokers]
    assert await store.expire(*dead)
    assert not await store.expire(*dead)


async def test_a_sweep_ends_leases_where_the_stream_is_foreign(
    store: Store, admin: redis.Redis, plant: Plant
) -> None:
    dead = await dead_one(store, admin)
    plant(KEYS.changes)
    assert (await store.sweep("me")).expired == (dead,)
    assert (await store.sweep("me")).expired == ()


# --- when it has been moved away ----------------------------------------------------------------------------


@pytest.mark.parametrize("key", SHARED)
async def test_what_was_foreign_is_written_again_by_those_who_live(
    store: Store, admin: redis.Redis, plant: Plant, key: str
) -> None:
    held = await store.register(broker(), topics(3))
    plant(key)
    held = await store.register(broker(), topics(3), held=held)
    admin.delete(key)
    assert await healed(store, held)
    assert_whole(admin)
    assert await store.brokers()
    assert await store.topics() == ["t0", "t1", "t2"]


@pytest.mark.parametrize("key", [KEYS.deadlines, KEYS.brokers, KEYS.topics])
async def test_who_never_met_the_foreign_key_is_listed_again_by_its_heartbeat(
    store: Store, admin: redis.Redis, plant: Plant, key: str
) -> None:
    held = await store.register(broker(), topics(3))
    plant(key)
    admin.delete(key)
    if key == KEYS.topics:
        assert await store.heartbeat(held, listings=True) is LeaseStatus.TABLE_LOST
        held = await store.register(broker(), topics(3), held=held)
    assert await store.heartbeat(held, listings=True) is LeaseStatus.OK
    assert_whole(admin)


async def healed(store: Store, held: Registration) -> bool:
    """Do what an agent does: register again, and until the heartbeat finds all in order."""
    held = await store.register(broker(), topics(3), held=held)
    return held.corrupt_keys == () and await store.heartbeat(held) is LeaseStatus.OK


def assert_whole(admin: redis.Redis) -> None:
    assert admin.zscore(KEYS.deadlines, "broker-a:0") is not None
    assert admin.hget(KEYS.brokers, "broker-a") == b"cluster-1"
    assert admin.smembers(KEYS.topics) == {b"t0", b"t1", b"t2"}
    assert admin.get(KEYS.schema) == b"1"


async def test_the_stream_goes_on_with_the_next_change(
    store: Store, admin: redis.Redis, plant: Plant
) -> None:
    held = await store.register(broker(), topics(1))
    position = (await store.changes_since()).position
    plant(KEYS.changes)
    await store.register(broker(), topics(2), held=held)
    admin.delete(KEYS.changes)
    await store.register(broker("broker-b", address=OTHER_ADDRESS), topics(1))
    assert (await store.changes_since(position)).lost
    assert [change.broker_name for change in (await store.changes_since()).changes] == ["broker-b"] * 2


# --- how it is told -----------------------------------------------------------------------------------------


async def test_a_doorbell_without_a_stream_has_no_ids_and_the_record(store: Store, plant: Plant) -> None:
    held = await store.register(broker(), topics(1))
    plant(KEYS.changes)
    bell = store.doorbell()
    assert await bell.wait(10.0) == b""
    await store.unregister(held)
    message = await bell.wait(10.0)
    await bell.aclose()
    assert message is not None
    assert message.startswith(b"- - {")
    change = codec.decode_change(KEYS.changes, ORIGIN, message.removeprefix(b"- - "))
    assert (change.kind, change.broker_name, change.reason) == (ChangeKind.DOWN, "broker-a", "unregistered")


async def test_what_was_done_without_is_logged_once(
    store: Store, plant: Plant, caplog: pytest.LogCaptureFixture
) -> None:
    held = await store.register(broker(), topics(1))
    plant(KEYS.deadlines)
    with caplog.at_level(logging.ERROR, "sharedroutes.registry"):
        for _ in range(3):
            await store.heartbeat(held)
        await store.unregister(held)
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [KEYS.deadlines]


async def test_topics_that_nobody_else_has_are_listed_again_though_others_list_the_rest(
    store: Store, admin: redis.Redis
) -> None:
    other = await store.register(replace(broker("broker-b"), address=OTHER_ADDRESS), topics(3))
    held = await store.register(broker(), topics(4))
    admin.delete(KEYS.topics)
    for owner, table in ((other, topics(3)), (held, topics(4))):
        assert await store.heartbeat(owner, listings=True) is LeaseStatus.TABLE_LOST
        await store.register(owner.broker, table, held=owner)
    assert await store.topics() == ["t0", "t1", "t2", "t3"]
