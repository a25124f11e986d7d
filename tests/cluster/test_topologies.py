"""The registry works wherever its keys live: in a Cluster, under Sentinels, behind TLS, in a unix socket."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.cluster
from redis.crc import key_slot

from sharedroutes.registry import (
    AsyncRouteStore,
    EmbeddedServer,
    InvalidInput,
    LeaseStatus,
    RouteStore,
    StoreUnavailable,
    TopicConfig,
)
from sharedroutes.registry import RegistryConfig as Config
from sharedroutes.registry.plans import Plan, Reads, Reply
from tests.cluster.conftest import Group
from tests.cluster.servers import SERVICE, ClusterServers, SentinelServers
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker, topics
from tests.support import await_until


async def serves(store: Store) -> None:
    """Take a broker through its life, and see it in the table, the feed and the doorbell."""
    bell = store.doorbell()
    assert await bell.wait(10.0) == b""
    held = await store.register(broker(), topics(3))
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert sorted(await store.routes(["t0", "t1", "t2", "absent"])) == ["t0", "t1", "t2"]
    assert await bell.wait(10.0)
    await store.unregister(held)
    assert await store.routes(["t0"]) == {}
    assert [change.kind.value for change in (await store.changes_since()).changes][-1] == "down"
    await bell.aclose()


async def test_a_registry_lives_in_a_group_of_servers(
    make_store: StoreMaker, group: Group, namespace: str
) -> None:
    await serves(make_store(group.url, namespace=namespace))


async def test_a_registry_is_reached_through_a_unix_socket(make_store: StoreMaker, tmp_path: Path) -> None:
    with EmbeddedServer(unix_socket=tmp_path / "redis.sock") as server:
        await serves(make_store(server.url))
        await serves(make_store(f"{server.url}?db=3"))


async def test_registries_in_one_cluster_live_on_several_nodes_and_know_nothing_of_each_other(
    make_store: StoreMaker, cluster: ClusterServers, namespace: str
) -> None:
    names = [f"{namespace}-{number}" for number in range(8)]
    assert len({cluster.owner(name).port for name in names}) > 1
    for name in names:
        await make_store(cluster.url, namespace=name).register(broker(name), [TopicConfig(name)])
    for name in names:
        store = make_store(cluster.url, namespace=name)
        assert [data.broker_name for data in await store.brokers()] == [name]
        assert await store.topics() == [name]


def server_port() -> Plan[Reply]:
    replies = yield Reads([("INFO", "server"), ("TIME",), ("CONFIG", "GET", "port")])
    return replies


def alone() -> Plan[Reply]:
    (reply,) = yield Reads([("INFO", "server")])
    return reply


async def test_commands_without_a_key_reach_the_owner_of_the_registrys_slot(
    make_store: StoreMaker, cluster: ClusterServers, namespace: str
) -> None:
    for number in range(6):
        name = f"{namespace}-{number}"
        store = make_store(cluster.url, namespace=name)
        port = cluster.owner(name).port
        info, time, setting = await store.run(server_port())
        assert info["tcp_port"] == (await store.run(alone()))["tcp_port"] == port
        assert time[0] > 1_500_000_000
        assert setting == {b"port": b"%d" % port}


async def test_the_nodes_that_the_url_names_are_only_where_the_search_begins(
    make_store: StoreMaker, own_cluster: ClusterServers
) -> None:
    named = own_cluster.nodes[3:5]  # two replicas: without them, the Cluster goes on
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in named)
    store = make_store(f"redis+cluster://{hosts}")
    await store.register(broker(), topics(1))
    for node in named:
        node.kill()
    own_cluster.admin(own_cluster.owner(store.config.namespace)).client_kill_filter(
        _type="normal", skipme=True
    )

    async def serves_on() -> bool:
        try:
            return list(await store.routes(["t0"])) == ["t0"]
        except StoreUnavailable:  # the connection that was cut
            return False

    await await_until(serves_on, description="the other nodes tell where the registry is")


async def test_a_registry_is_followed_to_the_node_its_slot_moves_to(
    make_store: StoreMaker, own_cluster: ClusterServers
) -> None:
    store = make_store(own_cluster.url)
    held = await store.register(broker(), topics(3))
    source = own_cluster.owner(store.config.namespace)
    target = next(node for node in own_cluster.nodes[:3] if node is not source)
    slot = key_slot(store.config.namespace.encode())
    ids = {node.port: own_cluster.cluster(node, "MYID").decode() for node in (source, target)}
    own_cluster.cluster(target, "SETSLOT", slot, "IMPORTING", ids[source.port])
    own_cluster.cluster(source, "SETSLOT", slot, "MIGRATING", ids[target.port])
    move(own_cluster, source, target)
    # The slot is still the source's: it answers ASK for what has gone.
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert sorted(await store.routes(["t0", "t1", "t2"])) == ["t0", "t1", "t2"]
    for node in (target, source):
        own_cluster.cluster(node, "SETSLOT", slot, "NODE", ids[target.port])
    # Now it answers MOVED.
    assert await store.heartbeat(held) is LeaseStatus.OK
    assert sorted(await store.routes(["t0", "t1", "t2"])) == ["t0", "t1", "t2"]
    assert (await store.run(alone()))["tcp_port"] == target.port
    await store.unregister(held)


def move(cluster: ClusterServers, source: EmbeddedServer, target: EmbeddedServer) -> None:
    """Move all keys from a node to another."""
    admin = cluster.admin(source)
    keys = list(admin.scan_iter())
    assert keys
    admin.migrate("127.0.0.1", target.port, keys, 0, 5_000)


def test_a_caller_may_bring_a_client_of_a_cluster(cluster: ClusterServers, namespace: str) -> None:
    (host, port) = "127.0.0.1", cluster.nodes[0].port
    with closing(redis.cluster.RedisCluster(host, port)) as client:
        for number in range(4):
            config = Config(namespace=f"{namespace}-{number}")
            store = RouteStore.from_client(client, config)
            held = store.register(broker(), topics(3))
            assert store.heartbeat(held) is LeaseStatus.OK
            assert sorted(store.routes(["t0", "t1"], stale=True)) == ["t0", "t1"]
            port = cluster.owner(config.namespace).port
            info, _, setting = store.run(server_port())
            assert (info["tcp_port"], setting) == (port, {b"port": b"%d" % port})
            with closing(store.doorbell()) as bell:
                assert bell.wait(10.0) == b""
                store.unregister(held)
                assert bell.wait(10.0)
            store.close()
        assert client.ping(target_nodes=redis.cluster.RedisCluster.RANDOM)


async def test_a_caller_may_bring_an_asyncio_client_of_a_cluster(
    cluster: ClusterServers, namespace: str
) -> None:
    async with redis.asyncio.cluster.RedisCluster("127.0.0.1", cluster.nodes[0].port) as client:
        for number in range(4):
            config = Config(namespace=f"{namespace}-{number}")
            store = AsyncRouteStore.from_client(client, config)
            bell = store.doorbell()
            assert await bell.wait(10.0) == b""
            held = await store.register(broker(), topics(3))
            assert await store.heartbeat(held) is LeaseStatus.OK
            assert sorted(await store.routes(["t0", "t1"], stale=True)) == ["t0", "t1"]
            port = cluster.owner(config.namespace).port
            info, _, setting = await store.run(server_port())
            assert (info["tcp_port"], setting) == (port, {b"port": b"%d" % port})
            assert await bell.wait(10.0)
            await bell.aclose()
            await store.unregister(held)


@pytest.mark.parametrize("wrong", [{"decode_responses": True}, {"read_from_replicas": True}])
def test_a_client_of_a_cluster_that_decodes_or_reads_replicas_by_itself_is_refused(
    cluster: ClusterServers, wrong: dict[str, bool]
) -> None:
    strategy = redis.cluster.LoadBalancingStrategy.ROUND_ROBIN
    options = {"load_balancing_strategy": strategy} if "read_from_replicas" in wrong else wrong
    client = redis.cluster.RedisCluster("127.0.0.1", cluster.nodes[0].port, **options)
    with closing(client), pytest.raises(InvalidInput, match=r"decode_responses|replicas"):
        RouteStore.from_client(client)
    lazy = redis.asyncio.cluster.RedisCluster("127.0.0.1", cluster.nodes[0].port, **options)
    with pytest.raises(InvalidInput, match=r"decode_responses|replicas"):
        AsyncRouteStore.from_client(lazy)


def test_a_caller_may_bring_clients_of_sentinels(sentinels: SentinelServers, namespace: str) -> None:
    hosts = [("127.0.0.1", sentinel.port) for sentinel in sentinels.sentinels]
    manager = redis.Sentinel(hosts, socket_timeout=5)
    client = manager.master_for(SERVICE)
    replica = manager.slave_for(SERVICE)
    with closing(manager), closing(client), closing(replica):
        store = RouteStore.from_client(client, Config(namespace=namespace), replica=replica)
        held = store.register(broker(), topics(1))
        assert store.heartbeat(held) is LeaseStatus.OK
        sentinels.await_replicas(sentinels.primary(), 2)
        assert list(store.routes(["t0"], stale=True)) == ["t0"]
