"""What repair sends: reads or one script at a time, on one slot of a Cluster, and never of long duration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, RouteStore
from sharedroutes.registry.export_file import Reader
from sharedroutes.registry.plans import Batch, Call, Reads, Stream, advance
from sharedroutes.registry.plans.bulk_load import forget
from sharedroutes.registry.plans.export_import import ImportSummary, export, import_record
from sharedroutes.registry.plans.repair.walk import rebuild, verify
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.registry.probes import recorded
from tests.registry.repairs import REPAIR_SCRIPTS, differences, everything, register_two
from tests.support import wait_until


def spoil(admin: Any, store: Store) -> None:
    """Plant what each script of repair is for."""
    keys = store.keys
    admin.delete(keys.topic("t0"), keys.schema)
    admin.srem(keys.topics, "t1")
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
    assert len(await collect(store, verify(store.config), batches)) == 8
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
    batches = await every_repair(store, admin)
    sent = {str(command[0]) for batch in batches if isinstance(batch, Reads) for command in batch.commands}
    described = admin.execute_command("COMMAND", "INFO", *sorted(sent))
    for name in sent:
        flags = described[name.lower()]["flags"]
        assert "readonly" in flags or name == "TIME", name
    run = {batch.script for batch in batches if isinstance(batch, Call)}
    assert run >= REPAIR_SCRIPTS


async def test_no_page_keeps_the_server_long(store: Store, admin: redis.Redis) -> None:
    """What one command may touch is bounded, whatever the size of the registry."""
    batches: list[Batch] = []
    await store.register(broker(), topics(5_000))
    admin.delete(*(store.keys.topic(f"t{number}") for number in range(5_000)))
    assert len(await collect(store, rebuild(store.config), batches)) == 5_000
    assert max(len(batch.keys) for batch in batches if isinstance(batch, Call)) <= 1_100
    assert max(len(c) for batch in batches if isinstance(batch, Reads) for c in batch.commands) <= 1_100


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Return the address of a Redis Cluster of one node, which refuses what concerns several slots."""
    with EmbeddedServer("--cluster-enabled", "yes") as node, redis.Redis.from_url(node.url) as admin:
        admin.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        wait_until(
            lambda: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO"),
            description="the cluster of one node is ready",
        )
        yield node.url


async def test_every_repair_is_legal_on_a_cluster(make_store: StoreMaker, cluster: str) -> None:
    with redis.Redis.from_url(cluster) as admin:
        admin.flushall()
        await every_repair(make_store(cluster), admin)


async def test_a_clusters_own_client_walks_through_all_keys_too(cluster: str) -> None:
    with redis.Redis.from_url(cluster) as admin:
        admin.flushall()
        with redis.RedisCluster.from_url(cluster) as client:
            store = RouteStore.from_client(client)
            store.register(broker(), topics(2_500))
            assert list(store.admin.verify()) == []
            spoil(admin, store)  # type: ignore[arg-type]
            kinds = {found.kind for found in store.admin.verify()}
        async with redis.asyncio.RedisCluster.from_url(cluster) as own:
            found = await everything(AsyncRouteStore.from_client(own).admin.rebuild())
        assert {done.kind for done in found} == kinds - {"topic-gone"}  # mended with its rows
        assert len(kinds) == 7
