"""A route client begins anew at the servers of its URL when all that it has learned of are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest

from sharedroutes.registry import RegistryConfig, RouteStore
from tests.client.clients import (
    AnyClient,
    ClientMaker,
    async_client,
    holders,
    sync_client,
)
from tests.cluster.conftest import Group
from tests.cluster.servers import SERVICE, ClusterServers
from tests.proxy import FaultyProxy
from tests.registry.builders import broker, topics
from tests.support import await_until

WITHIN_S: Final = 40.0
"""For each step, on a slow machine: of whole groups of servers some are busy to be started or ended."""

LASTING: Final = RegistryConfig(lease_ttl_s=3_600)
OLD, NEW = "10.0.0.1:10911", "10.0.0.2:10911"


@dataclass
class Successors:
    """Two groups of servers that know nothing of each other; a seed leads to the first one."""

    old: Group
    new: Group
    seed: FaultyProxy

    @property
    def url(self) -> str:
        if isinstance(self.old, ClusterServers):
            return f"redis+cluster://{self.seed.address}"
        return f"redis+sentinel://{self.seed.address}/{SERVICE}"

    def move_on(self) -> None:
        """Let the seed lead to the new group."""
        self.seed.lead_to(seed_port(self.new))


def seed_port(group: Group) -> int:
    """Return the port of a server that a URL may name: of a node of the Cluster, or of a Sentinel."""
    return (group.nodes if isinstance(group, ClusterServers) else group.sentinels)[0].port


@pytest.fixture(params=["fresh_clusters", "fresh_sentinels"])
def successors(request: pytest.FixtureRequest) -> Iterator[Successors]:
    """Return two groups of one kind, which run both: so the second has no port of the first."""
    stock: Any = request.getfixturevalue(request.param)
    with ExitStack() as stack:
        groups: list[Group] = []
        for _ in range(2):
            groups.append(stock.take())
            stack.callback(groups[-1].stop)
        old, new = groups
        seed = stack.enter_context(FaultyProxy(seed_port(old)))
        yield Successors(old, new, seed)


def register(group: Group, name: str, address: str) -> None:
    """Let a broker with topic t0 be known for longer than any test takes."""
    with RouteStore.from_url(group.url, LASTING) as agent:
        agent.register(broker(name, address=address), topics(1))


async def until_held(client: AnyClient, *names: str) -> None:
    """Wait until the client's route of topic t0 names these brokers and no other."""

    async def reached() -> bool:
        return await holders(client, "t0") == set(names)

    await await_until(reached, timeout_s=WITHIN_S, description=f"t0 is held by {names}")


async def address_of(client: AnyClient, name: str) -> str:
    (found,) = [data for data in (await client.route("t0")).broker_datas if data.broker_name == name]
    return found.broker_addrs[0]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("make_client", [sync_client, async_client], ids=["sync", "async"])
async def test_a_client_whose_servers_are_all_gone_finds_those_that_the_urls_address_leads_to_now(
    successors: Successors, make_client: ClientMaker
) -> None:
    register(successors.old, "broker-a", OLD)
    async with make_client(successors.url) as client:
        await until_held(client, "broker-a")
        with successors.seed.refusing():
            await asyncio.to_thread(successors.old.stop)
            await await_until(
                lambda: client._core.known.freshness.failures >= 5,
                timeout_s=WITHIN_S,
                description="nobody answers, again and again",
            )
            assert client.health().source == "memory"
            assert await address_of(client, "broker-a") == OLD
            assert (await client.select_queue("t0")).address == OLD
        register(successors.new, "broker-a", NEW)
        register(successors.new, "broker-b", NEW.replace("10911", "10921"))
        assert await holders(client, "t0") == {"broker-a"}
        successors.move_on()
        await until_held(client, "broker-a", "broker-b")
        await await_until(
            lambda: client.health().source == "live", timeout_s=WITHIN_S, description="all is well again"
        )
        assert await address_of(client, "broker-a") == NEW
        register(successors.new, "broker-c", NEW.replace("10911", "10931"))
        await until_held(client, "broker-a", "broker-b", "broker-c")
