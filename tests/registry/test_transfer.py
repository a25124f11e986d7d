"""Export and import on a real server: nothing lost, nothing live overwritten, nothing written twice."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    BrokerOwned,
    DataVersion,
    InvalidInput,
    LeaseStatus,
    NewerSchema,
    Progress,
    RegistryConfig,
    RouteStore,
    StaleEpoch,
    TopicConfig,
    topic_table,
)
from sharedroutes.registry.plans.export_import import Counts, ImportSummary
from tests.fix_redis import Plant, Store, StoreMaker
from tests.registry.builders import ADDRESS, broker, broker_names, names, topic_configs, topics
from tests.registry.probes import dump
from tests.registry.repairs import differences, everything, register_two
from tests.support import examples


async def exported(store: Store) -> list[bytes]:
    return await everything(store.admin.export())


def without_members(lines: list[bytes]) -> list[dict[str, Any]]:
    """Return what an import brings back: the replicas themselves are not among it."""
    found = [json.loads(line) for line in lines]
    for one in found:
        group = one.get("group", {})
        one |= {"group": {name: value for name, value in group.items() if not name.startswith("member:")}}
    return found


async def test_the_lines_hold_what_the_store_holds(store: Store) -> None:
    await store.register(
        Broker("broker-a", ADDRESS, 0, "cluster-1", "10.0.0.1:10912"),
        [TopicConfig("t0", 8, 4, order=True, attributes={"message.type": "FIFO"})],
        version=DataVersion(1, 2, 3),
    )
    await store.admin.wipe_write_perm("broker-a")
    await store.kv.put("ns", "key", "value")
    lines = await exported(store)
    assert all(line.endswith(b"}\n") for line in lines)
    assert [json.loads(line) for line in lines] == [
        {"format": "sharedroutes-export", "version": 1, "schema": 1, "namespace": "sharedroutes"},
        {
            "type": "broker",
            "broker": "broker-a",
            "group": {
                "cluster": "cluster-1",
                "member:0": f'{{"address":"{ADDRESS}","haAddress":"10.0.0.1:10912"}}',
                "version:0": "1 2 3",
                "wiped": "1",
            },
        },
        {
            "type": "topic",
            "broker": "broker-a",
            "topic": "t0",
            "config": '8 4 6 0 {"attributes":{"message.type":"FIFO"},"order":true}',
        },
        {"type": "kv", "namespace": "ns", "key": "key", "value": "value"},
        {"type": "end", "broker": 1, "topic": 1, "kv": 1, "skipped": 0},
    ]


async def test_an_imported_registry_is_what_was_exported_and_hidden_until_its_agents_register(
    store: Store, admin: redis.Redis
) -> None:
    await register_two(store)
    await store.admin.wipe_write_perm("broker-b")
    routes = await store.routes(["t0", "t1", "t2"])
    lines = await exported(store)
    admin.flushall()
    summary = await store.admin.import_(lines)
    assert summary == ImportSummary(Counts(written=2), Counts(written=5), Counts(written=1))
    assert await differences(store) == []
    assert await store.brokers() == []
    assert await store.topics() == []
    assert await store.kv.get("ns", "key") == "value"
    assert without_members(await exported(store)) == without_members(lines)

    position = (await store.changes_since()).position
    await register_two(store)
    changes = (await store.changes_since(position)).changes
    assert {change.kind for change in changes} == {"up"}  # the tables were there
    again = await store.routes(["t0", "t1", "t2"])
    assert {name: {*route.queue_datas} for name, route in again.items()} == {
        name: {*route.queue_datas} for name, route in routes.items()
    }


async def test_a_second_import_changes_nothing(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    lines = await exported(store)
    before = dump(admin)
    unchanged = ImportSummary(Counts(unchanged=2), Counts(unchanged=5), Counts(unchanged=1))
    assert await store.admin.import_(lines) == unchanged  # the brokers are alive: there is nothing to refuse
    assert dump(admin) == before
    admin.flushall()
    await store.admin.import_(lines)
    before = dump(admin)
    assert await store.admin.import_(lines) == unchanged
    assert dump(admin) == before


async def test_a_table_becomes_what_it_is_in_the_export(store: Store, admin: redis.Redis) -> None:
    held = await store.register(broker(), topics(4), version=DataVersion(0, 1, 1))
    lines = await exported(store)
    held = await store.register(
        broker(), [*topics(2), *topics(3, first=3, queues=9)], held=held, version=DataVersion(0, 1, 2)
    )
    await store.unregister(held)
    admin.delete(store.keys.topic("t0"))
    summary = await store.admin.import_(lines)
    assert summary.topics.written == 5  # t0 without row, t2 gone, t3 changed, t4 and t5 new
    assert without_members(await exported(store)) == without_members(lines)
    assert await differences(store) == []


async def test_a_dry_run_says_the_same_and_writes_nothing(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()
    expected = await store.admin.import_(lines, dry_run=True)
    assert admin.dbsize() == 0
    assert await store.admin.import_(lines) == expected


async def test_live_owners_are_refused_and_the_rest_is_imported(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()
    held = await store.register(broker("broker-a"), topics(1, queues=9))
    before = await store.routes(["t0"])
    summary = await store.admin.import_(lines)
    assert (summary.brokers, summary.topics) == (Counts(written=1, refused=1), Counts(written=2, refused=3))
    (refusal,) = summary.refused
    assert (refusal.line, refusal.what) == (2, "broker broker-a")
    assert ADDRESS in refusal.reason
    assert refusal.reason.endswith(
        "; wait until it is unregistered or its lease ends, or import with --replace-live"
    )
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert await store.routes(["t0"]) == before


@pytest.mark.parametrize("broker_id", [0, 1])
async def test_live_owners_are_replaced_and_fenced_when_told_to(
    store: Store, admin: redis.Redis, broker_id: int
) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()
    held = await store.register(broker(broker_id=broker_id), [])
    assert (await store.admin.import_(lines, replace_live=True)).brokers == Counts(written=2)
    assert await store.heartbeat(held) is LeaseStatus.FENCED
    with pytest.raises(StaleEpoch):
        await store.register(broker(broker_id=broker_id), topics(9), held=held)
    assert without_members(await exported(store)) == without_members(lines)
    assert await differences(store) == []
    await store.register(broker(broker_id=broker_id), topics(2))


async def test_a_key_of_another_type_is_a_refusal_and_not_the_end(
    store: Store, admin: redis.Redis, plant: Plant
) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()
    for key in (store.keys.broker_topics("broker-a"), store.keys.topic("t1"), store.keys.kv("ns")):
        plant(key)
    summary = await store.admin.import_(lines)
    assert [refusal.what for refusal in summary.refused] == [
        "broker broker-a",
        "broker broker-b",
        "key ns/key",
    ]
    assert (summary.brokers, summary.topics) == (Counts(written=1, refused=1), Counts(1, 1, 3))
    assert summary.kv == Counts(refused=1)


async def test_what_cannot_be_read_is_named_in_the_export_and_at_import(
    store: Store, admin: redis.Redis
) -> None:
    await register_two(store)
    table = store.keys.broker_topics("broker-a")
    admin.hset(table, "t1", "many")
    lines = await exported(store)
    kinds = [json.loads(line).get("type") for line in lines]
    assert kinds == [None, "broker", "topic", "topic", "skipped", "broker", "topic", "topic", "kv", "end"]
    admin.flushall()
    (refusal,) = (await store.admin.import_(lines)).refused
    assert (refusal.line, refusal.what) == (5, table)
    assert "many" in refusal.reason


async def test_an_export_can_be_read_into_another_namespace(
    store: Store, make_store: StoreMaker, redis_url: str
) -> None:
    await register_two(store)
    other = make_store(redis_url, RegistryConfig(namespace="other"))
    await other.admin.import_(await exported(store))
    assert without_members(await exported(other))[1:] == without_members(await exported(store))[1:]


async def test_lines_that_cannot_be_read_twice_are_taken_as_they_come(
    make_store: StoreMaker, redis_url: str, admin: redis.Redis, store: Store
) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()
    assert (await store.admin.import_(iter(lines))).brokers == Counts(written=2)
    admin.flushall()
    with pytest.raises(InvalidInput, match="line 9: the export is truncated"):
        await store.admin.import_(iter(lines[:-1]))
    assert len(await exported(store)) == len(lines)


async def test_an_asyncio_store_takes_lines_that_come_by_and_by(
    redis_url: str, store: Store, admin: redis.Redis
) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()

    async def by_and_by() -> AsyncIterator[bytes]:
        for line in lines:
            await asyncio.sleep(0)
            yield line

    async def cut() -> AsyncIterator[bytes]:
        yield lines[0]

    async with AsyncRouteStore.from_url(redis_url) as own:
        assert (await own.admin.import_(by_and_by())).brokers == Counts(written=2)
        with pytest.raises(InvalidInput, match="line 1: the export is truncated"):
            await own.admin.import_(cut())


async def test_a_registry_of_a_newer_sharedroutes_is_not_written(store: Store, admin: redis.Redis) -> None:
    await register_two(store)
    lines = await exported(store)
    admin.flushall()
    admin.set(store.keys.schema, 99)
    with pytest.raises(NewerSchema):
        await store.admin.import_(lines)
    assert admin.dbsize() == 1


async def test_progress_is_told(store: Store, admin: redis.Redis) -> None:
    await store.register(broker(), topics(1_500))
    await store.register(broker("broker-b"), topics(10))
    told: list[Progress] = []
    lines = await everything(store.admin.export(told.append))
    assert told[-1].done == told[-1].total == 1_512
    told.clear()
    await store.admin.import_(lines, progress=told.append)
    assert told[-1].done == told[-1].total == len(lines)


async def test_an_owner_that_comes_while_its_table_is_imported_wins(store: Store, admin: redis.Redis) -> None:
    await store.unregister(await store.register(broker(), topics(300)))
    lines = await exported(store)
    for number in range(6):
        await store.unregister(await store.register(broker(), topics(300, queues=8)))
        importing = asyncio.ensure_future(store.admin.import_(lines))
        held = None
        while not importing.done():
            try:
                held = await store.register(broker(), topics(200, queues=1 + number), held=held)
            except StaleEpoch:
                held = None
        summary = await importing
        assert summary.brokers in (Counts(written=1), Counts(refused=1))
        assert await differences(store) == []
        held = await store.register(broker(), topics(200, queues=20 + number))
        found = await store.routes([f"t{n}" for n in range(300)])
        assert len(found) == 200
        assert {route.queue_datas[0].read_queue_nums for route in found.values()} == {20 + number}


def test_a_claim_by_the_import_does_not_look_like_an_owner(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin)
    store.unregister(store.register(broker(), topics(1)))
    lines = list(store.admin.export())
    admin.flushall()
    store.admin.import_(lines)
    assert store.owner("broker-a") is None
    held = store.register(broker(), topics(1))
    with pytest.raises(BrokerOwned):
        store.register(broker(address="10.0.0.2:1"), topics(1))
    assert store.heartbeat(held) is LeaseStatus.OK


_TABLES = st.lists(topic_configs(), max_size=6, unique_by=lambda config: config.topic_name).map(topic_table)
_VERSIONS = st.builds(DataVersion, *[st.integers(0, 2**63 - 1)] * 3)
_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.dictionaries(broker_names(), st.tuples(names(), _TABLES, _VERSIONS, st.booleans()), max_size=4),
    st.dictionaries(st.tuples(_TEXT, _TEXT), st.text(st.characters(codec="utf-8"), max_size=30), max_size=4),
)
def test_any_registry_survives_export_and_import(
    admin: redis.Redis,
    brokers: dict[str, tuple[str, dict[str, TopicConfig], DataVersion, bool]],
    pairs: dict[tuple[str, str], str],
) -> None:
    admin.flushall()
    store = RouteStore.from_client(admin)
    for name, (cluster, table, version, wiped) in brokers.items():
        held = store.register(Broker(name, ADDRESS, 0, cluster), table, version=version)
        if wiped:
            store.admin.wipe_write_perm(name)
        store.unregister(held)
    for (namespace, key), value in pairs.items():
        store.kv.put(namespace, key, value)
    lines = list(store.admin.export())
    assert list(store.admin.verify()) == []
    admin.flushall()
    summary = store.admin.import_(lines)
    assert summary.refused == []
    assert list(store.admin.export()) == lines
    assert list(store.admin.verify()) == []


def fill(store: RouteStore, brokers: int, count: int) -> None:
    for number in range(brokers):
        store.register(broker(f"broker-{number}", address=f"10.0.0.{number}:1"), topics(count))


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_the_memory_is_that_of_the_largest_table_and_not_of_all(admin: redis.Redis) -> None:
    store = RouteStore.from_client(admin, RegistryConfig(lease_ttl_s=3_600))

    def work() -> None:
        assert list(store.admin.verify()) == []
        summary = store.admin.import_(line for line in store.admin.export())
        assert summary.refused == []

    fill(store, 1, 1_500)
    work()  # what is cached for good is cached now
    one = peak_bytes(work)
    fill(store, 12, 1_500)
    assert peak_bytes(work) < 3 * one


@pytest.mark.long
def test_a_large_registry_is_exported_imported_and_rebuilt(admin: redis.Redis) -> None:
    """100,000 entries of ten brokers."""
    store = RouteStore.from_client(admin, RegistryConfig(lease_ttl_s=3_600))
    fill(store, 10, 10_000)
    lines = list(store.admin.export())
    assert len(lines) == 100_012
    admin.flushall()
    assert store.admin.import_(lines).topics == Counts(written=100_000)
    admin.delete(store.keys.topics, *(store.keys.topic(f"t{number}") for number in range(2_000)))
    done = list(store.admin.rebuild())
    assert len(done) == 20_000 + 8_000
    assert all(one.mended for one in done)
