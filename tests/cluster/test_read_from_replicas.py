"""Route clients that follow and look up at replicas: the primary has no work, and nothing goes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
import redis

from sharedroutes.client import ClientConfig, Health, RouteClient
from sharedroutes.client.observers.events import FeedLost, RoutesChanged, ServerChanged
from sharedroutes.registry import EmbeddedServer, InvalidInput, RegistryConfig, RouteStore, Sweeper
from sharedroutes.registry.acl import Role, acl_rules
from sharedroutes.registry.connection import located, located_async, reading
from tests.client.clients import HOUR_S, AnyClient, ClientMaker, async_client, calls, holders, sync_client
from tests.client.heard import Heard
from tests.cluster.conftest import Group
from tests.cluster.owners import FAILED_OVER_WITHIN_S
from tests.cluster.servers import ClusterServers, SentinelServers
from tests.proxy import FaultyProxy
from tests.registry.builders import broker, topics
from tests.support import await_until, wait_until

LASTING: Final = RegistryConfig(lease_ttl_s=3_600, call_deadline_s=15.0, sweeper_lease_s=0.3)
WORD: Final = "abracadabra"
CONFIG: Final = ClientConfig(
    registry=RegistryConfig(call_deadline_s=3.0, connect_deadline_s=3.0, sweeper_lease_s=0.3),
    read_from="replica",
    tail_s=0.2,
    reconnect_s=0.5,
    jitter_s=0.0,
    refresh_s=HOUR_S,
)


class Trio:
    """A primary with two replicas; what these hear of it goes through proxies."""

    def __init__(self, stack: ExitStack) -> None:
        self.primary = stack.enter_context(EmbeddedServer("--repl-diskless-sync-delay", "0"))
        self.links = [stack.enter_context(FaultyProxy(self.primary.port)) for _ in range(2)]
        self.replicas = [stack.enter_context(EmbeddedServer()) for _ in self.links]
        self.admins = [
            stack.enter_context(redis.Redis(port=server.port, socket_timeout=15))
            for server in (self.primary, *self.replicas)
        ]
        self.url = self.primary.url + "?" + "&".join(f"replica=127.0.0.1:{one.port}" for one in self.replicas)
        self.agent = stack.enter_context(RouteStore.from_url(self.primary.url, LASTING))
        self.sweeper = stack.enter_context(Sweeper(self.agent))
        for admin, link in zip(self.admins[1:], self.links, strict=True):
            admin.replicaof(*link.address.split(":"))
        wait_until(lambda: all(map(is_linked, self.admins[1:])), description="the replicas are in step")

    def used(self, client: AnyClient) -> int:
        """Return which of the replicas a client reads at."""
        return [f"127.0.0.1:{one.port}" for one in self.replicas].index(client.health().server)


def is_linked(admin: redis.Redis) -> bool:
    info: Any = admin.info("replication")
    return bool(info["master_link_status"] == "up")


@pytest.fixture
def trio() -> Iterator[Trio]:
    with ExitStack() as stack:
        yield Trio(stack)


@pytest.fixture(params=["sync", "async"])
def make_client(request: pytest.FixtureRequest) -> ClientMaker:
    return async_client if request.param == "async" else sync_client


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at servers often, and go back to a replica soon."""
    for module in (located, located_async):
        monkeypatch.setattr(module, "CHECK_AGAIN_S", 0.1)
    monkeypatch.setattr(reading, "_BACK_S", (0.5, 1.0))
    monkeypatch.setattr(reading, "_REST_S", 0.5)


async def until(client: AnyClient, role: str, *names: str, timeout_s: float = 20.0) -> Health:
    """Wait until a client reads at a server of this role, and knows these brokers of t0."""

    async def reached() -> bool:
        return client.health().role == role and await holders(client, "t0") == {*names}

    await await_until(reached, timeout_s=timeout_s, description=f"{names} are known at a {role}")
    return client.health()


async def until_pulses(client: AnyClient) -> None:
    await await_until(lambda: client.health().lag_s is not None, description="a pulse was heard")


async def test_the_primary_has_no_work_with_a_client_that_reads_at_replicas(
    make_client: ClientMaker, trio: Trio
) -> None:
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG) as client:
        await until(client, "replica", "broker-a")
        trio.agent.register(broker("broker-b"), topics(1))
        await until(client, "replica", "broker-a", "broker-b")
        await until_pulses(client)
        primary, *replicas = trio.admins
        primary.config_resetstat()
        heard = [calls(admin, "publish") for admin in replicas]
        await await_until(
            lambda: all(calls(admin, "publish") > 5 + n for admin, n in zip(replicas, heard, strict=True)),
            description="pulses go on",
        )
        assert calls(primary, "subscribe", "xrange", "mget", "hgetall", "role", "hello") == 0
        assert client.health().lag_s is not None
        assert client.health().last_error is None


async def test_a_replica_of_a_replica_tells_its_clients_as_any_other(
    make_client: ClientMaker, trio: Trio
) -> None:
    trio.agent.register(broker("broker-a"), topics(1))
    relay, last = (f"127.0.0.1:{server.port}" for server in trio.replicas)
    trio.admins[2].replicaof(*relay.split(":"))
    await await_until(lambda: is_linked(trio.admins[2]), description="it follows the relay")
    async with make_client(f"{trio.primary.url}?replica={last}", CONFIG) as client:
        await until(client, "replica", "broker-a")
        trio.agent.register(broker("broker-b"), topics(1))
        at = await until(client, "replica", "broker-a", "broker-b")
        await until_pulses(client)
        assert at.server == last
        assert trio.admins[0].info("replication")["connected_slaves"] == 1


async def test_a_replica_that_stops_is_left_for_the_other(make_client: ClientMaker, trio: Trio) -> None:
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG) as client:
        await until(client, "replica", "broker-a")
        used = trio.used(client)
        trio.replicas[used].pause()
        await await_until(
            lambda: client.health().role == "replica" and trio.used(client) != used,
            description="the other replica is read",
        )
        trio.agent.register(broker("broker-b"), topics(1))
        await until(client, "replica", "broker-a", "broker-b")
        trio.replicas[used].resume()


async def test_a_replica_that_is_behind_is_no_gap_and_takes_nothing_back(
    make_client: ClientMaker, trio: Trio
) -> None:
    heard = Heard()
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG, observers=(heard,)) as client:
        await until(client, "replica", "broker-a")
        used = trio.used(client)
        with trio.links[1 - used].hanging():  # it goes on to believe that it hears its primary
            trio.agent.register(broker("broker-b"), topics(1))
            await until(client, "replica", "broker-a", "broker-b")
            trio.sweeper.close()  # nobody knows that silence means anything
            trio.replicas[used].kill()
            at = await until(client, "primary", "broker-a", "broker-b")
            assert at.server == f"127.0.0.1:{trio.primary.port}"
            trio.agent.register(broker("broker-c"), topics(1))
            await until(client, "primary", "broker-a", "broker-b", "broker-c")
        await until(client, "replica", "broker-a", "broker-b", "broker-c")
        assert trio.used(client) == 1 - used
    assert heard.all(FeedLost) == []
    assert len(heard.all(RoutesChanged)) == 3  # each broker came once, and none went


async def test_a_replica_that_hears_nothing_any_more_is_left_before_leases_end_there(
    make_client: ClientMaker, trio: Trio
) -> None:
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG) as client:
        await until(client, "replica", "broker-a")
        await until_pulses(client)
        used = trio.used(client)
        with trio.links[used].hanging():
            await await_until(
                lambda: client.health().role == "replica" and trio.used(client) != used,
                description="the replica that hears something is read",
            )
            assert is_linked(trio.admins[1 + used])  # as far as it knows


async def test_a_reader_has_all_rights_that_it_takes(make_client: ClientMaker, trio: Trio) -> None:
    rights = acl_rules(LASTING.namespace, Role.READER, user="reader", password=f">{WORD}")
    for admin in trio.admins:
        admin.execute_command(*rights.split())
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url.replace("redis://", f"redis://reader:{WORD}@"), CONFIG) as client:
        await until(client, "replica", "broker-a")
        trio.agent.register(broker("broker-b"), topics(1))
        await until(client, "replica", "broker-a", "broker-b")
        assert client.health().last_error is None


async def test_lag_is_seen(make_client: ClientMaker, trio: Trio) -> None:
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG) as client:
        await until(client, "replica", "broker-a")
        await until_pulses(client)
        with trio.links[trio.used(client)].slow(0.8):  # pulses are 0.2 s apart
            await await_until(lambda: (client.health().lag_s or 0.0) > 0.7, description="the lag is seen")


async def test_without_any_replica_the_primary_is_read_until_one_is_back(
    make_client: ClientMaker, trio: Trio
) -> None:
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG) as client:
        await until(client, "replica", "broker-a")
        for admin in trio.admins[1:]:
            admin.replicaof("127.0.0.1", 1)
        await until(client, "primary", "broker-a")
        trio.agent.register(broker("broker-b"), topics(1))
        await until(client, "primary", "broker-a", "broker-b")
        trio.admins[1].replicaof("127.0.0.1", trio.primary.port)
        await until(client, "replica", "broker-a", "broker-b")
        assert trio.used(client) == 0


async def test_a_loss_of_the_primary_is_found_at_a_replica(make_client: ClientMaker, trio: Trio) -> None:
    heard = Heard()
    trio.agent.register(broker("broker-a"), topics(1))
    async with make_client(trio.url, CONFIG, observers=(heard,)) as client:
        await until(client, "replica", "broker-a")
        trio.admins[0].flushall()
        await await_until(lambda: heard.all(FeedLost), description="the loss is found")
        trio.agent.register(broker("broker-a"), topics(1))
        trio.agent.register(broker("broker-b"), topics(1))
        await until(client, "replica", "broker-a", "broker-b")


async def test_an_unknown_topic_is_looked_up_at_the_primary_when_no_replica_answers(
    make_client: ClientMaker, trio: Trio
) -> None:
    trio.agent.register(broker("broker-a"), topics(2))
    async with make_client(trio.url, CONFIG, reconnect_s=HOUR_S) as client:  # the primary is followed late
        await until(client, "replica", "broker-a")
        for replica in trio.replicas:
            replica.kill()
        assert await holders(client, "t1") == {"broker-a"}


async def test_a_client_follows_at_a_replica_through_a_failover(
    make_client: ClientMaker, own_sentinels: SentinelServers
) -> None:
    heard = Heard()
    with RouteStore.from_url(own_sentinels.url, LASTING) as agent, Sweeper(agent):
        agent.register(broker("broker-a"), topics(1))
        async with make_client(own_sentinels.url, CONFIG, observers=(heard,)) as client:
            await until(client, "replica", "broker-a")
            await asyncio.to_thread(own_sentinels.await_replicas, own_sentinels.primary(), 2)
            own_sentinels.primary().kill()
            await registered(agent, "broker-b")
            await until(client, "replica", "broker-a", "broker-b", timeout_s=FAILED_OVER_WITHIN_S)
            assert client.health().server != f"127.0.0.1:{own_sentinels.primary().port}"
    assert heard.all(FeedLost) == []


async def registered(agent: RouteStore, name: str) -> None:
    """Register a broker as soon as there is a primary that takes it."""

    async def done() -> bool:
        try:
            await asyncio.to_thread(agent.register, broker(name), topics(1))
        except Exception:  # noqa: BLE001 - whatever a failover answers
            return False
        return True

    await await_until(done, timeout_s=FAILED_OVER_WITHIN_S, description=f"{name} is registered")


async def test_a_client_follows_at_the_replica_of_a_slot_and_at_its_owner_without_one(
    make_client: ClientMaker, own_cluster: ClusterServers, namespace: str
) -> None:
    with RouteStore.from_url(own_cluster.url, LASTING, namespace=namespace) as agent, Sweeper(agent):
        agent.register(broker("broker-a"), topics(1))
        config = ClientConfig.of(CONFIG, namespace)
        async with make_client(own_cluster.url, config) as client:
            at = await until(client, "replica", "broker-a")
            assert at.server == f"127.0.0.1:{own_cluster.replica(namespace).port}"
            agent.register(broker("broker-b"), topics(1))
            await until(client, "replica", "broker-a", "broker-b")
            own_cluster.replica(namespace).kill()
            agent.register(broker("broker-c"), topics(1))
            at = await until(client, "primary", "broker-a", "broker-b", "broker-c")
            assert at.server == f"127.0.0.1:{own_cluster.owner(namespace).port}"


async def test_it_is_told_where_a_client_reads(
    make_client: ClientMaker, group: Group, namespace: str
) -> None:
    heard = Heard()
    async with make_client(group.url, ClientConfig.of(CONFIG, namespace), observers=(heard,)) as client:
        await await_until(lambda: heard.all(ServerChanged), description="it is told")
        health = client.health()
        assert heard.all(ServerChanged) == [ServerChanged(health.server, "replica")]


def test_replicas_have_to_be_named(own_server: EmbeddedServer) -> None:
    with pytest.raises(InvalidInput, match="read_from"):
        RouteClient.from_url(own_server.url, CONFIG)
    with redis.Redis(port=own_server.port) as plain, pytest.raises(InvalidInput, match="read_from"):
        RouteClient.from_client(plain, CONFIG)
    with pytest.raises(InvalidInput, match="read_from"):
        ClientConfig(read_from="nearest")  # type: ignore[arg-type]  # what a caller without mypy may pass
