"""Each operation under each fault: it says what is wrong, and serves nothing half done."""

from __future__ import annotations

import pytest
import redis

from sharedroutes.registry import (
    CorruptData,
    EmbeddedServer,
    LeaseStatus,
    RegistryError,
    StoreRefused,
    StoreUnavailable,
    plans,
)
from sharedroutes.registry.plans import Batch, Call
from tests.fix_redis import Plant, Store, StoreMaker
from tests.registry.builders import OTHER_ADDRESS, broker, table, topics
from tests.registry.operations import (
    DEAD,
    KEYS,
    KINDS_OF_KEYS,
    OPERATIONS,
    Prepared,
    outcome,
    prepared,
    with_a_dead_one,
)
from tests.registry.probes import SCRIPTS, Crash, dump, interrupted, observed, unchanged
from tests.registry.servers import quick

NOBODY_LISTENS = 1
OF_TABLES = ["register", "register again", "register a slave", "delete a topic"]
HALF_DONE = [("register again", "lease")]
"""The owner's topics are written when it finds that its lease cannot be; nothing else is ever half done."""

# The plans decide what a foreign key means, and they are the same ones over both faces.
ONE_FACE = pytest.mark.parametrize("make_store", ["async"], indirect=True)

WRITING = [name for name, operation in OPERATIONS.items() if operation.writes]
READING = [name for name, operation in OPERATIONS.items() if not operation.writes]


async def said(store: Store, name: str, ready: Prepared) -> str:
    """Return the name of the error that an operation raises, or nothing."""
    try:
        await store.run(OPERATIONS[name].plan(ready))
    except RegistryError as error:
        return type(error).__name__
    return ""


# --- foreign keys -------------------------------------------------------------------------------------------


@ONE_FACE
@pytest.mark.parametrize("kind", KINDS_OF_KEYS)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_names_the_foreign_key_or_does_without_it(
    store: Store, admin: redis.Redis, plant: Plant, name: str, kind: str
) -> None:
    ready, key, operation = await prepared(store), KINDS_OF_KEYS[kind], OPERATIONS[name]
    if operation.needs_dead:
        await with_a_dead_one(store, admin)
    plant(key)
    before = dump(admin)
    if kind in operation.needs:
        with pytest.raises(CorruptData) as corrupt:
            await store.run(operation.plan(ready))
        assert corrupt.value.key == key
    else:
        await store.run(operation.plan(ready))
    after = dump(admin)
    assert after[key] == before[key]
    if (name, kind) in HALF_DONE:
        written = {KEYS.topic("t2"), *(KINDS_OF_KEYS[one] for one in ("group", "table", "topics", "changes"))}
        assert {key for key in after if after[key] != before.get(key)} == written
        assert admin.hget(KINDS_OF_KEYS["group"], "epoch:0") == str(ready.held.epoch).encode()
    elif not operation.writes or kind in operation.needs:
        assert after == before


@pytest.mark.parametrize("kind", ["table"])
@pytest.mark.parametrize("name", ["register", "register a slave"])
async def test_a_registration_that_cannot_be_completed_fences_nobody(
    store: Store, admin: redis.Redis, plant: Plant, name: str, kind: str
) -> None:
    ready, key = await prepared(store), KINDS_OF_KEYS[kind]
    slave = await store.run(OPERATIONS["register a slave"].plan(ready))
    plant(key)
    assert await said(store, name, ready) == "CorruptData"
    assert [await store.heartbeat(held) for held in (ready.held, slave)] == [LeaseStatus.OK] * 2


@ONE_FACE
@pytest.mark.parametrize("kind", KINDS_OF_KEYS)
@pytest.mark.parametrize("name", OF_TABLES)
async def test_a_foreign_key_on_the_way_of_one_broker_costs_no_other_its_routes(
    store: Store, admin: redis.Redis, plant: Plant, name: str, kind: str
) -> None:
    ready, key = await prepared(store), KINDS_OF_KEYS[kind]
    plant(key)
    await said(store, name, ready)
    routes = await store.routes(["t1"])
    assert OTHER_ADDRESS in {data.master_address for data in routes["t1"].broker_datas}


# --- scripts that the server forgets ------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_does_not_notice_that_the_scripts_are_forgotten_between_its_steps(
    store: Store, admin: redis.Redis, name: str
) -> None:
    results, streams = [], []

    def forget(_: Batch) -> None:
        admin.script_flush()
        assert not any(admin.script_exists(*(script.sha for script in SCRIPTS)))

    def nothing(_: Batch) -> None:
        pass

    for look in (nothing, forget):
        admin.flushall()
        ready = await prepared(store)
        if OPERATIONS[name].needs_dead:
            await with_a_dead_one(store, admin)
        admin.script_flush()
        results.append(outcome(await store.run(observed(OPERATIONS[name].plan(ready), look))))
        streams.append(outcome(await store.run(plans.changes_since(KEYS, plans.ORIGIN))))
    assert results[0] == results[1]
    assert streams[0] == streams[1]


# --- a server that is full, read-only, without replicas, gone -----------------------------------------------


async def test_a_full_store_refuses_what_needs_memory_and_lets_brokers_live_and_go(
    make_store: StoreMaker,
) -> None:
    with quick("--maxmemory-policy", "noeviction") as full, redis.Redis.from_url(full.url) as admin:
        store = make_store(full.url)
        ready = await prepared(store)
        await with_a_dead_one(store, admin)
        admin.zadd(KEYS.deadlines, {KEYS.lease_member("broker-b", 0): 1})  # it lives: noted anew by the sweep
        admin.config_set("maxmemory", 1)
        for name in ("register", "register again", "register one topic", "wipe", "set a value"):
            with pytest.raises(StoreRefused, match="OOM"):
                await store.run(OPERATIONS[name].plan(ready))
        assert [await said(store, name, ready) for name in READING] == [""] * len(READING)
        assert await store.heartbeat(ready.held) is LeaseStatus.OK
        assert (await store.sweep("me")).expired == (DEAD,)
        admin.pexpire(KEYS.sweeper, round(store.config.sweeper_lease_s * 1000 / 4))
        assert (await store.sweep("me")).lease_after_ms == round(store.config.sweeper_lease_s * 1000)
        assert await store.admin.delete_topic("t1") == ("broker-a", "broker-b", "broker-c")
        assert await store.unregister(ready.held)
        admin.config_set("maxmemory", 0)
        await store.register(broker(), topics(3))
        assert await store.topics() == ["t0", "t1", "t2"]


@pytest.mark.parametrize("chunks", [0, 1, 2])
async def test_a_registration_that_fills_the_store_serves_nothing_half_done_and_is_completed_later(
    make_store: StoreMaker, chunks: int
) -> None:
    with quick("--maxmemory-policy", "noeviction") as full, redis.Redis.from_url(full.url) as admin:
        store = make_store(full.url, chunk_topics=2)
        written = -1

        def fill(batch: Batch) -> None:
            nonlocal written
            written += isinstance(batch, Call)
            if written == chunks:
                admin.config_set("maxmemory", 1)

        with pytest.raises(StoreRefused, match="OOM"):
            await store.run(observed(plans.register(store.config, broker(), table(6)), fill))
        assert (
            admin.hlen(store.keys.broker_topics("broker-a")) == 2 * chunks
        )  # and none after one was refused
        assert await store.routes([*table(6)]) == {}
        assert await store.topics() == []
        assert await store.brokers() == []
        admin.config_set("maxmemory", 0)
        held = await store.register(broker(), topics(6))
        assert sorted(await store.routes([*table(6)])) == sorted(table(6))
        assert await store.heartbeat(held) is LeaseStatus.OK


@pytest.mark.parametrize(
    ("breaks", "mends", "said_of_it"),
    [
        (f"REPLICAOF 127.0.0.1 {NOBODY_LISTENS}", "REPLICAOF NO ONE", "read only replica"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
    ],
    ids=["read-only", "without its replicas"],
)
async def test_a_server_that_takes_no_writes_is_unavailable_to_every_operation_that_writes(
    make_store: StoreMaker, own_server: EmbeddedServer, breaks: str, mends: str, said_of_it: str
) -> None:
    store = make_store(own_server.url)
    ready = await prepared(store)
    with redis.Redis.from_url(own_server.url) as admin:
        await with_a_dead_one(store, admin)
        admin.execute_command(*breaks.split())
        before = dump(admin)
        found = {name: await said(store, name, ready) for name in OPERATIONS}
        refused = {name for name, error in found.items() if error == "StoreUnavailable"}
        assert refused == {*WRITING} - {"lift", "release"}  # there is nothing that they would change
        assert set(found.values()) == {"", "StoreUnavailable"}
        assert dump(admin) == before
        with pytest.raises(StoreUnavailable, match=said_of_it):
            await store.heartbeat(ready.held)
        admin.execute_command(*mends.split())
        assert await store.heartbeat(ready.held) is LeaseStatus.OK


@pytest.mark.parametrize("name", ["register", "register again", "delete a topic", "sweep"])
async def test_a_server_that_is_killed_between_two_steps_is_unavailable_and_the_next_try_is_a_fresh_one(
    make_store: StoreMaker, own_server: EmbeddedServer, name: str
) -> None:
    store = make_store(own_server.url, chunk_topics=1)
    ready = await prepared(store)
    with redis.Redis.from_url(own_server.url) as admin:
        await with_a_dead_one(store, admin)
    steps = 0

    def kill(_: Batch) -> None:
        nonlocal steps
        steps += 1
        own_server.kill()

    with pytest.raises(StoreUnavailable):
        await store.run(observed(OPERATIONS[name].plan(ready), kill))
    assert steps == 1
    own_server.start()
    held = await store.register(broker(), topics(3))
    assert await store.topics() == ["t0", "t1", "t2"]
    assert await store.heartbeat(held) is LeaseStatus.OK


# --- processes that die -------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_a_deletion_that_dies_before_its_last_step_has_changed_nothing(
    store: Store, admin: redis.Redis, steps: int
) -> None:
    await prepared(store)
    await with_a_dead_one(store, admin)
    with unchanged(admin), pytest.raises(Crash):
        await store.run(interrupted(plans.delete_topic(store.config, "t0"), steps))


async def test_a_sweep_that_dies_leaves_the_rest_to_the_next_one(store: Store, admin: redis.Redis) -> None:
    await prepared(store)
    await with_a_dead_one(store, admin)
    for steps in (1, 2):
        with pytest.raises(Crash):
            await store.run(interrupted(plans.sweep(store.config, "me"), steps))
    assert (await store.sweep("me")).expired == (DEAD,)
    assert (await store.sweep("me")).expired == ()
