"""A primary is killed while brokers register and beat: a heartbeat later nothing is lost or stale."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import ExitStack, aclosing, closing
from dataclasses import dataclass, replace
from typing import cast

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.cluster import RedisCluster

from sharedroutes.client import AsyncRouteClient, ClientConfig, NoRoute, RouteClient
from sharedroutes.registry import (
    AsyncRouteStore,
    BrokerData,
    EmbeddedServer,
    RouteStore,
    StoreUnavailable,
    TopicConfig,
    TopicRoute,
)
from tests.cluster.conftest import Group
from tests.cluster.owners import (
    CONFIG,
    FAILED_OVER_WITHIN_S,
    Follower,
    Owner,
    Reader,
    beaten_since,
    stream_of,
)
from tests.cluster.servers import ClusterServers
from tests.fix_redis import PATIENT, Store, StoreMaker
from tests.registry.builders import OTHER_ADDRESS, broker, row
from tests.support import await_until, wait_until


def primary_of(group: Group) -> EmbeddedServer:
    return group.owner(CONFIG.namespace) if isinstance(group, ClusterServers) else group.primary()


def kill_primary(group: Group) -> None:
    """Kill the primary when what was written until now has reached a replica."""
    primary = primary_of(group)
    group.await_replicas(primary)
    primary.kill()


def answers(store: RouteStore) -> bool:
    try:
        store.heartbeat(store.register(broker("probe", address="10.9.9.9:1"), []))
    except StoreUnavailable:
        return False
    return True


def test_nothing_is_lost_and_nothing_is_stale_a_heartbeat_after_a_failover(own_group: Group) -> None:
    url = own_group.url
    with ExitStack() as stack:
        probe = stack.enter_context(RouteStore.from_url(url, CONFIG))
        patient = replace(PATIENT, lease_ttl_s=CONFIG.lease_ttl_s)
        steadfast = stack.enter_context(RouteStore.from_url(url, patient))
        steadfast.unregister(steadfast.register(broker("moved"), [TopicConfig("moved-always")]))
        changing = stack.enter_context(Owner(url, broker("changing", address="10.0.0.3:1"), changing=True))
        steady = stack.enter_context(Owner(url, broker("steady", address="10.0.0.4:1"), changing=False))
        back = stack.enter_context(Owner(url, broker("moved", address=OTHER_ADDRESS), changing=False))
        owners = [changing, steady, back]
        wait_until(beaten_since(owners), description="all brokers are registered")
        follower = stack.enter_context(Follower(url))
        topics = ("changing-always", "steady-always", "moved-always")
        reader = stack.enter_context(Reader(url, *topics))
        wait_until(lambda: follower.turns and reader.addresses, description="they follow and read")
        steadfast.register(broker("dead", address="10.0.0.9:1"), [TopicConfig("dead-always")])
        its_end = time.monotonic() + CONFIG.lease_ttl_s
        kill_primary(own_group)
        wait_until(lambda: not answers(probe), description="the store is away")
        wait_until(lambda: answers(probe), timeout_s=FAILED_OVER_WITHIN_S, description="it is back")
        wait_until(beaten_since(owners), description="every broker has beaten once")
        changing.settle()
        wait_until(lambda: time.monotonic() > its_end, description="the lease of the dead broker has ended")
        compare_with_written(read_between_beats(probe, owners), owners)
        reader.stop()
        assert reader.addresses == {owner.broker.address for owner in owners}
        wait_until(lambda: follower.seen == stream_of(url), description="the follower has seen everything")
        assert all(worker.outages for worker in (changing, follower, reader))


@dataclass(frozen=True, slots=True)
class Reading:
    """What the table says."""

    brokers: list[BrokerData]
    topics: list[str]
    routes: dict[str, TopicRoute]


def read_between_beats(store: RouteStore, owners: list[Owner]) -> Reading:
    """Read the table while nobody's lease can have ended, as it does where the machine stands still."""

    def read() -> Reading | None:
        beaten_s = min(time.monotonic(), *(owner.began_s for owner in owners))
        if not answers(store):
            return None
        names = store.topics()
        reading = Reading(store.brokers(), names, store.routes(names))
        return reading if time.monotonic() < beaten_s + CONFIG.lease_ttl_s else None

    return cast("Reading", wait_until(read, description="the table is read while all brokers beat"))


def compare_with_written(reading: Reading, owners: list[Owner]) -> None:
    """Compare what the table says with what its owners last wrote."""
    assert {data.broker_name: set(data.broker_addrs.values()) for data in reading.brokers} == {
        "probe": {"10.9.9.9:1"},
        **{owner.broker.broker_name: {owner.broker.address} for owner in owners},
    }
    written = {name: (owner, config) for owner in owners for name, config in owner.written.items()}
    assert reading.topics == sorted(written) == sorted(reading.routes)
    for name, route in reading.routes.items():
        owner, config = written[name]
        assert [*route.queue_datas] == [row(owner.broker.broker_name, config)]


def test_a_new_doorbell_works_after_a_failover(own_group: Group) -> None:
    with RouteStore.from_url(own_group.url, CONFIG) as store:
        with closing(store.doorbell()) as bell:
            assert bell.wait(10.0) == b""
            store.register(broker(), [])
            assert bell.wait(10.0)
            kill_primary(own_group)
            wait_until(
                lambda: answers(store), timeout_s=FAILED_OVER_WITHIN_S, description="the store is back"
            )
        with closing(store.doorbell()) as bell:
            assert bell.wait(10.0) == b""
            store.register(broker("after"), [])
            assert b"after" in (bell.wait(10.0) or b"")


async def test_a_new_asyncio_doorbell_works_after_a_failover(
    make_store: StoreMaker, own_group: Group
) -> None:
    store = make_store(own_group.url, CONFIG)
    await store.register(broker(), [])
    kill_primary(own_group)
    await await_until(lambda: is_back(store), timeout_s=FAILED_OVER_WITHIN_S, description="it is back")
    bell = store.doorbell()
    assert await bell.wait(10.0) == b""
    await store.register(broker("after"), [])
    assert b"after" in (await bell.wait(10.0) or b"")
    await bell.aclose()


async def is_back(store: Store) -> bool:
    try:
        await store.register(broker("probe"), [])
    except StoreUnavailable:
        return False
    return True


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_route_clients_follow_the_table_past_a_failover(own_group: Group, how: str) -> None:
    url = own_group.url
    config = ClientConfig(registry=CONFIG, tail_s=0.3, jitter_s=0.2, reconnect_s=0.3)
    with ExitStack() as stack:
        owner = stack.enter_context(Owner(url, broker("changing"), changing=True))
        wait_until(beaten_since([owner]), description="the broker is registered")
        client = stack.enter_context(RouteClient.from_url(url, config))
        async with AsyncRouteClient.from_url(url, config) as asyncio_client:
            assert client.route("changing-always").broker_datas
            assert (await asyncio_client.route("changing-always")).broker_datas
            primary = primary_of(own_group)
            await asyncio.to_thread(own_group.await_replicas, primary)
            getattr(primary, how)()
            before = owner.registrations
            await await_until(
                lambda: owner.registrations > before + 1,
                timeout_s=FAILED_OVER_WITHIN_S,
                description="the broker writes to the successor",
            )
            await asyncio.to_thread(owner.settle)
            (expected,) = [row("changing", owner.written["changing-always"])]

            async def both_know() -> bool:
                with contextlib.suppress(NoRoute):  # where the machine stood still, the lease ends
                    route = await asyncio_client.route("changing-always")
                    known = client.route("changing-always")
                    return [*known.queue_datas] == [expected] == [*route.queue_datas]
                return False

            await await_until(both_know, description="both clients know the last table")


def test_a_new_doorbell_over_a_callers_client_works_after_a_failover(own_cluster: ClusterServers) -> None:
    # redis-py's subscription stays with its node for good: callers ask for a new doorbell.
    client = RedisCluster(
        "127.0.0.1", own_cluster.nodes[0].port, socket_timeout=1.0, socket_connect_timeout=0.5
    )
    with closing(client), RouteStore.from_client(client, CONFIG) as store:
        with closing(store.doorbell()) as bell:
            assert bell.wait(10.0) == b""
            kill_primary(own_cluster)
            wait_until(lambda: answers(store), timeout_s=FAILED_OVER_WITHIN_S, description="it is back")
        with closing(store.doorbell()) as bell:
            assert bell.wait(10.0) == b""
            store.register(broker("after"), [])
            assert b"after" in (bell.wait(10.0) or b"")


async def test_a_new_doorbell_over_a_callers_asyncio_client_works_after_a_failover(
    own_cluster: ClusterServers,
) -> None:
    port = own_cluster.nodes[0].port
    async with AsyncRedisCluster("127.0.0.1", port, socket_timeout=1.0, socket_connect_timeout=0.5) as client:
        store = AsyncRouteStore.from_client(client, CONFIG)
        async with aclosing(store.doorbell()) as bell:
            assert await bell.wait(10.0) == b""
            await asyncio.to_thread(kill_primary, own_cluster)
            await await_until(
                lambda: is_back(store), timeout_s=FAILED_OVER_WITHIN_S, description="it is back"
            )
        async with aclosing(store.doorbell()) as bell:
            assert await bell.wait(10.0) == b""
            await store.register(broker("after"), [])
            assert b"after" in (await bell.wait(10.0) or b"")
