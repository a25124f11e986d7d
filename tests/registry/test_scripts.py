"""The Lua scripts, what plans send, and that all of it is legal on a Cluster and never of long duration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from sharedroutes.registry import (
    AsyncRouteStore,
    EmbeddedServer,
    RouteStore,
    scripts,
)
from sharedroutes.registry.export_file import Reader
from sharedroutes.registry.plans import Batch, Call, Reads, Stream, advance
from sharedroutes.registry.plans.bulk_load import forget
from sharedroutes.registry.plans.export_import import ImportSummary, export, import_record
from sharedroutes.registry.plans.repair.walk import rebuild, verify
from sharedroutes.registry.scripts import Script
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.registry.operations import OPERATIONS, prepared, with_a_dead_one
from tests.registry.probes import SCRIPTS, recorded
from tests.registry.repairs import REPAIR_SCRIPTS, differences, everything, register_two
from tests.support import wait_until

SOURCES = sorted(Path(scripts.__file__).with_name("lua").glob("[!_]*.lua"))


def test_every_script_file_is_loaded() -> None:
    assert sorted(script.name for script in SCRIPTS) == [path.stem for path in SOURCES]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_first_line_of_a_script_is_its_contract(path: Path) -> None:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    assert re.fullmatch(r"-- KEYS .+; ARGV .+; reply .+; may be repeated.*", first)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_server_knows_a_script_by_the_same_digest(admin: redis.Redis, script: Script) -> None:
    assert admin.script_load(script.source) == script.sha


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_names_no_key_that_it_was_not_given(script: Script) -> None:
    code = re.sub(r"--[^\n]*", "", script.source)
    assert "{" + "sharedroutes" not in code
    for call in re.findall(r"redis\.p?call\('\w+',\s*([^,)]+)", code):
        assert re.match(r"KEYS\[|unpack\(|key\b|stream\b", call), call


async def every_operation(store: Store, admin: redis.Redis) -> list[Batch]:
    """Run every operation, each on a registry of its own, and return what they sent."""
    batches: list[Batch] = []
    for operation in OPERATIONS.values():
        admin.flushall()
        ready = await prepared(store)
        if operation.needs_dead:
            await with_a_dead_one(store, admin)
        await store.run(recorded(operation.plan(ready), batches))
    return batches


def spoil(admin: Any, store: Store) -> None:
    """Plant what each script of repair is for."""
    keys = store.keys
    admin.delete(keys.topic("t0"), keys.schema)
    admin.srem(keys.topics, "t1")
    admin.sadd(keys.topics, "gone")
    admin.hset(keys.broker("broker-a"), "token", "x")
    admin.persist(keys.lease("broker-a", 0))
    admin.expire(keys.broker_topics("broker-a"), 1_000)


async def collect(store: Store, stream: Stream[Any], batches: list[Batch]) -> list[Any]:
    found: list[Any] = []
    while (page := await store.run(recorded(advance(stream), batches))) is not None:
        found += page.found
    return found


async def every_repair(store: Store, admin: Any) -> list[Batch]:
    """Run every operation on a whole registry and return what it sent."""
    batches: list[Batch] = []
    await register_two(store)
    spoil(admin, store)
    assert len(await collect(store, verify(store.config), batches)) == 9
    assert all(done.mended for done in await collect(store, rebuild(store.config), batches))
    assert await collect(store, verify(store.config), []) == []
    assert len(await collect(store, export(store.config), batches)) == 3
    lines = await everything(store.admin.export())
    for name, broker_id in (("broker-a", 0), ("broker-a", 1), ("broker-b", 0)):
        admin.delete(store.keys.lease(name, broker_id))
    for name in ("broker-a", "broker-b"):
        await store.run(recorded(forget(store.config, name), batches))
    for line, record in Reader().records(lines):
        await store.run(recorded(import_record(store.config, line, record, ImportSummary()), batches))
    assert await differences(store) == []
    return batches


async def test_a_batch_is_plain_reads_or_one_script(store: Store, admin: redis.Redis) -> None:
    operations = await every_operation(store, admin)
    admin.flushall()
    repairs = await every_repair(store, admin)
    reads = [batch for batch in (*operations, *repairs) if isinstance(batch, Reads)]
    names = [command[0] for batch in reads for command in batch.commands]
    sent = {name.decode() if isinstance(name, bytes) else str(name) for name in names}
    described = admin.execute_command("COMMAND", "INFO", *sorted(sent))
    assert "write" not in described["time"]["flags"]
    for name in sent - {"TIME", "XINFO"}:  # the one concerns no key, of the other only parts have flags
        assert "readonly" in described[name.lower()]["flags"], name
    assert {batch.script for batch in operations if isinstance(batch, Call)} == {*SCRIPTS} - REPAIR_SCRIPTS
    assert {batch.script for batch in repairs if isinstance(batch, Call)} >= REPAIR_SCRIPTS


async def test_nothing_that_is_sent_walks_over_all_keys(store: Store, admin: redis.Redis) -> None:
    for batch in await every_operation(store, admin):
        if isinstance(batch, Reads):
            assert not {command[0] for command in batch.commands} & {"KEYS", "SCAN"}
    assert not [script for script in SCRIPTS if re.search(r"'(KEYS|SCAN)'", script.source)]


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    """Return the address of a Redis Cluster of one node, which refuses what concerns several slots."""
    with EmbeddedServer("--cluster-enabled", "yes") as node, redis.Redis.from_url(node.url) as admin:
        admin.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        wait_until(
            lambda: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO"),
            description="the cluster of one node is ready",
        )
        yield node.url


@pytest.fixture
def cluster(node: str) -> str:
    """Return that address when nothing is kept there."""
    with redis.Redis.from_url(node) as admin:
        admin.flushall()
    return node


async def test_every_operation_is_legal_on_a_cluster(make_store: StoreMaker, cluster: str) -> None:
    store = make_store(cluster)
    with redis.Redis.from_url(cluster) as admin:
        await every_operation(store, admin)
    held = await store.register(broker(), topics(1_500))
    assert len(await store.routes([*held.topics])) == 1_500


async def test_no_page_keeps_the_server_long(store: Store, admin: redis.Redis) -> None:
    """What one command may touch is bounded, whatever the size of the registry."""
    batches: list[Batch] = []
    await store.register(broker(), topics(5_000))
    admin.delete(*(store.keys.topic(f"t{number}") for number in range(5_000)))
    assert len(await collect(store, rebuild(store.config), batches)) == 5_000
    assert max(len(batch.keys) for batch in batches if isinstance(batch, Call)) <= 1_100
    assert max(len(c) for batch in batches if isinstance(batch, Reads) for c in batch.commands) <= 1_100


async def test_every_repair_is_legal_on_a_cluster(make_store: StoreMaker, cluster: str) -> None:
    with redis.Redis.from_url(cluster) as admin:
        await every_repair(make_store(cluster), admin)


async def test_a_clusters_own_client_walks_through_all_keys_too(cluster: str) -> None:
    with redis.Redis.from_url(cluster) as admin:
        with redis.RedisCluster.from_url(cluster) as client:
            store = RouteStore.from_client(client)
            store.register(broker(), topics(2_500))
            assert list(store.admin.verify()) == []
            spoil(admin, store)  # type: ignore[arg-type]
            kinds = {found.kind for found in store.admin.verify()}
        async with redis.asyncio.RedisCluster.from_url(cluster) as own:
            found = await everything(AsyncRouteStore.from_client(own).admin.rebuild())
        assert {done.kind for done in found} == kinds
        assert len(kinds) == 7
