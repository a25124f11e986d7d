"""Route clients of several registries in one process share nothing, wherever the registries are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack

import pytest

from sharedroutes.registry import EmbeddedServer, RegistryConfig, RouteStore
from tests.client.clients import (
    QUICK,
    AnyClient,
    ClientMaker,
    chosen,
    holders,
    until_held_by,
    until_in_place,
    until_source,
)
from tests.client.heard import plain
from tests.fix_redis import PATIENT
from tests.registry.builders import broker, topics

EAST, WEST = "east", "west"


@pytest.fixture
def urls(redis_url: str, own_server: EmbeddedServer) -> dict[str, str]:
    """Return where each of three registries is: two share a server, two share a name."""
    return {EAST: redis_url, WEST: redis_url, "far": own_server.url}


@pytest.fixture
def agents(urls: dict[str, str]) -> Iterator[dict[str, RouteStore]]:
    """Return a store of each registry, where a broker of the registry's own name holds t0."""
    with ExitStack() as stack:
        stores = {}
        for name, url in urls.items():
            config = RegistryConfig(lease_ttl_s=3_600, namespace=namespace_of(name))
            stores[name] = stack.enter_context(RouteStore.from_url(url, config))
            stores[name].register(broker(f"broker-{name}"), topics(1))
        yield stores


def namespace_of(name: str) -> str:
    return EAST if name == "far" else name


def client_of(make: ClientMaker, urls: dict[str, str], name: str, **settings: object) -> AnyClient:
    registry = RegistryConfig(namespace=namespace_of(name), call_deadline_s=PATIENT.call_deadline_s)
    return make(urls[name], QUICK, registry=registry, **settings)


async def test_each_client_hears_of_its_own_registry_alone(
    make_client: ClientMaker, urls: dict[str, str], agents: dict[str, RouteStore]
) -> None:
    async with AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(client_of(make_client, urls, name)) for name in urls}
        for name, client in clients.items():
            await until_in_place(client)
            assert await holders(client, "t0") == {f"broker-{name}"}
        for name in urls:
            agents[name].register(broker(f"second-{name}"), topics(1))
            await until_held_by(clients[name], "t0", f"broker-{name}", f"second-{name}")
            clients[name].record(f"broker-{name}", 0.1, failed=True)
        for name, client in clients.items():
            assert await chosen(client) <= {f"broker-{name}", f"second-{name}"}
            assert set(plain(client).faults()) <= {f"broker-{name}", f"second-{name}"}


async def test_the_end_of_one_store_or_client_is_no_matter_to_another(
    make_client: ClientMaker, urls: dict[str, str], agents: dict[str, RouteStore], own_server: EmbeddedServer
) -> None:
    async with client_of(make_client, urls, EAST) as east:
        async with client_of(make_client, urls, WEST) as west, client_of(make_client, urls, "far") as far:
            for name, client in ((EAST, east), (WEST, west), ("far", far)):
                await until_held_by(client, "t0", f"broker-{name}")
            own_server.kill()
            await until_source(far, "memory")
            assert (east.health().source, west.health().source) == ("live", "live")
        agents[EAST].register(broker("second-east"), topics(1))
        await until_held_by(east, "t0", "broker-east", "second-east")
