"""Reads that may be stale are answered by a replica, and by the primary when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from sharedroutes.registry import EmbeddedServer, plans
from sharedroutes.registry.connection import located, located_async
from sharedroutes.registry.plans import Plan, Reads
from tests.cluster.conftest import Group
from tests.cluster.servers import ClusterServers, SentinelServers
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.support import Stopwatch, await_until, wait_until


class Pair:
    """A primary with a replica that the URL names, under no Sentinel."""

    def __init__(self, primary: EmbeddedServer, replica: EmbeddedServer) -> None:
        self.primary = primary
        self.replica = replica
        self.url = f"{primary.url}?replica=127.0.0.1:{replica.port}"


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return a primary and a replica in step with it."""
    with ExitStack() as stack:
        primary = stack.enter_context(EmbeddedServer("--repl-diskless-sync-delay", "0"))
        replica = stack.enter_context(EmbeddedServer("--replicaof", f"127.0.0.1 {primary.port}"))
        admin = stack.enter_context(redis.Redis(port=replica.port))
        wait_until(
            lambda: admin.info("replication")["master_link_status"] == "up",
            description="the replica is in step",
        )
        yield Pair(primary, replica)


def who_answers() -> Plan[int]:
    (info,) = yield Reads([("INFO", "server")])
    port: int = info["tcp_port"]
    return port


async def replicated(store: Store, *names: str) -> None:
    """Wait until the replicas serve these topics."""

    async def all_there() -> bool:
        return sorted(await store.routes(names, stale=True)) == sorted(names)

    await await_until(all_there, description="the write has reached the replicas")


def replica_ports(group: Group, namespace: str) -> set[int]:
    if isinstance(group, ClusterServers):
        return {group.replica(namespace).port}
    return {server.port for server in group.data} - {group.primary().port}


async def test_only_stale_reads_go_to_a_replica(make_store: StoreMaker, group: Group, namespace: str) -> None:
    store = make_store(group.url, namespace=namespace)
    ports = replica_ports(group, namespace)
    assert await store.run(who_answers(), stale=True) in ports
    assert await store.run(who_answers()) not in ports
    held = await store.register(broker(), topics(2))
    await replicated(store, "t0", "t1")
    found = await store.lookup(["t0"], stale=True)
    assert found.alive["broker-a"].broker_addrs == {0: broker().address}
    assert await store.unregister(held)


async def test_a_script_goes_to_the_primary_even_in_a_plan_that_may_be_stale(
    make_store: StoreMaker, pair: Pair
) -> None:
    store = make_store(pair.url)
    held = await store.register(broker(), topics(1))
    assert (await store.run(plans.heartbeat(store.config, held), stale=True)).value == "ok"


async def test_a_url_may_name_the_replicas(make_store: StoreMaker, pair: Pair) -> None:
    store = make_store(pair.url)
    assert await store.run(who_answers(), stale=True) == pair.replica.port
    assert await store.run(who_answers()) == pair.primary.port


async def test_a_replica_that_lags_serves_what_it_knows(make_store: StoreMaker, pair: Pair) -> None:
    store = make_store(pair.url)
    held = await store.register(broker(), topics(1))
    await replicated(store, "t0")
    with redis.Redis(port=pair.primary.port) as admin:
        admin.execute_command("CLIENT", "PAUSE", "10000", "WRITE")
        # What is written from now on waits, as it would on its way to a replica that lags.
        unregistering = asyncio.ensure_future(store.unregister(held))
        assert list(await store.routes(["t0"], stale=True)) == ["t0"]
        admin.execute_command("CLIENT", "UNPAUSE")
        assert await unregistering
    await await_until(lambda: gone(store), description="the replica has caught up")


async def gone(store: Store) -> bool:
    return not await store.routes(["t0"], stale=True)


async def test_a_lease_ends_on_a_replica_too(make_store: StoreMaker, pair: Pair) -> None:
    store, dying = make_store(pair.url), make_store(pair.url, lease_ttl_s=0.1)
    held = await store.register(broker(), topics(1))
    await replicated(store, "t0")
    await dying.heartbeat(held)
    await await_until(lambda: gone(store), description="the lease has ended on the replica")


async def test_a_replica_that_lost_its_primary_is_not_read(make_store: StoreMaker, pair: Pair) -> None:
    # It would go on serving what it knows: with nobody's lease renewed there, soon not a single broker.
    store = make_store(pair.url)
    assert await store.run(who_answers(), stale=True) == pair.replica.port
    with redis.Redis(port=pair.replica.port) as admin:
        admin.replicaof("127.0.0.1", 1)

    async def primary_answers() -> bool:
        return bool(await store.run(who_answers(), stale=True) == pair.primary.port)

    await await_until(primary_answers, description="the primary is asked instead")


async def test_a_connection_that_the_replica_closed_meanwhile_is_replaced(
    make_store: StoreMaker, pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (located, located_async):
        monkeypatch.setattr(module, "CHECK_AGAIN_S", 0.0)  # as if it had been idle for so long
    store = make_store(pair.url)
    assert await store.run(who_answers(), stale=True) == pair.replica.port
    with redis.Redis(port=pair.replica.port) as admin:
        assert admin.client_kill_filter(_type="normal", skipme=True) > 0
    assert await store.run(who_answers(), stale=True) == pair.replica.port
    assert caplog.records == []


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_without_a_replica_the_primary_answers(
    make_store: StoreMaker, pair: Pair, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store(pair.url, call_deadline_s=2.0)
    await store.register(broker(), topics(1))
    await replicated(store, "t0")
    getattr(pair.replica, how)()
    for _ in range(3):
        assert list(await store.routes(["t0"], stale=True)) == ["t0"]
    assert await store.run(who_answers(), stale=True) == pair.primary.port
    assert [record.msg.partition(":")[0] for record in caplog.records] == [
        "no replica answers, the primary is read instead"
    ]


async def test_a_hung_replica_costs_half_a_deadline_once_a_second(make_store: StoreMaker, pair: Pair) -> None:
    store = make_store(pair.url, call_deadline_s=2.0)
    await store.register(broker(), topics(1))
    await replicated(store, "t0")
    pair.replica.pause()
    with Stopwatch() as watch:
        for _ in range(50):
            assert list(await store.routes(["t0"], stale=True)) == ["t0"]
    assert watch.elapsed_s < 5.0  # and not a second for each of them


async def test_a_replica_that_is_back_is_read_again(make_store: StoreMaker, pair: Pair) -> None:
    store = make_store(pair.url, call_deadline_s=2.0)
    pair.replica.pause()
    assert await store.run(who_answers(), stale=True) == pair.primary.port
    pair.replica.resume()

    async def replica_answers() -> bool:
        return bool(await store.run(who_answers(), stale=True) == pair.replica.port)

    await await_until(replica_answers, description="the replica is asked again")


async def test_when_all_replicas_of_a_service_are_gone_the_primary_answers(
    make_store: StoreMaker, own_sentinels: SentinelServers
) -> None:
    store = make_store(own_sentinels.url)
    await store.register(broker(), topics(1))
    await replicated(store, "t0")
    for replica in own_sentinels.data[1:]:
        replica.kill()
    assert list(await store.routes(["t0"], stale=True)) == ["t0"]
    assert await store.run(who_answers(), stale=True) == own_sentinels.data[0].port


async def test_a_cluster_without_replicas_is_read_at_its_primaries(make_store: StoreMaker) -> None:
    with ClusterServers(primaries=1, replicas=False) as servers:
        store = make_store(servers.url)
        await store.register(broker(), topics(1))
        assert list(await store.routes(["t0"], stale=True)) == ["t0"]


async def test_stale_reads_of_a_url_without_replicas_go_to_the_one_server(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(own_server.url)
    await store.register(broker(), topics(1))
    assert list(await store.routes(["t0"], stale=True)) == ["t0"]
