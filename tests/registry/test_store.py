"""A store runs plans over a client: whose client it is, how many use it at once, what is closed when."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
import redis
import redis.asyncio

from sharedroutes.registry import (
    AsyncRouteStore,
    EmbeddedServer,
    InvalidInput,
    RouteStore,
    StoreUnavailable,
    plans,
)
from sharedroutes.registry.plans import Plan, Reads
from tests.fix_redis import Store, StoreMaker
from tests.support import wait_until


async def test_more_callers_than_connections_wait_for_a_free_one(
    make_store: StoreMaker, redis_url: str
) -> None:
    store = make_store(redis_url, max_connections=3)
    assert await asyncio.gather(*(store.topics() for _ in range(20))) == [[]] * 20


async def test_a_plan_is_closed_when_the_store_fails(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    store = make_store(own_server.url)
    assert await store.topics() == []
    own_server.kill()
    closed = []

    def plan() -> Plan[None]:
        try:
            yield Reads([("PING",)])
        finally:
            closed.append(True)

    with pytest.raises(StoreUnavailable):
        await store.run(plan())
    assert closed == [True]


async def test_a_plan_that_was_not_begun_is_closed_too(
    make_store: StoreMaker, own_server: EmbeddedServer
) -> None:
    own_server.kill()
    store = make_store(own_server.url)
    plan = plans.topics(store.keys)
    with pytest.raises(StoreUnavailable):
        await store.run(plan)
    assert inspect.getgeneratorstate(plan) == inspect.GEN_CLOSED


async def test_a_plan_is_closed_when_it_is_done(store: Store) -> None:
    plan = plans.topics(store.keys)
    await store.run(plan)
    assert inspect.getgeneratorstate(plan) == inspect.GEN_CLOSED


@pytest.mark.parametrize("make", [redis.Redis.from_url, redis.asyncio.Redis.from_url])
def test_a_client_that_decodes_answers_is_refused(make: Callable[..., object]) -> None:
    client = make("redis://127.0.0.1:1", decode_responses=True)
    stores: tuple[Callable[..., object], ...] = (RouteStore.from_client, AsyncRouteStore.from_client)
    for from_client in stores:
        with pytest.raises(InvalidInput, match="decode_responses"):
            from_client(client)


def connections(server: EmbeddedServer) -> int:
    """Return how many connections a server has besides the one that asks."""
    with redis.Redis.from_url(server.url) as admin:
        return len(admin.client_list()) - 1


async def test_a_store_closes_a_client_of_its_own(make_store: StoreMaker, own_server: EmbeddedServer) -> None:
    store = make_store(own_server.url)
    await store.topics()
    assert connections(own_server) == 1
    await store.aclose()
    wait_until(lambda: not connections(own_server), description="the connection is closed")


async def test_a_store_leaves_a_client_of_the_callers_open(own_server: EmbeddedServer) -> None:
    with redis.Redis.from_url(own_server.url) as client, RouteStore.from_client(client) as store:
        assert store.topics() == []
        store.close()
        assert connections(own_server) == 1
    async with redis.asyncio.Redis.from_url(own_server.url) as aclient:
        async with AsyncRouteStore.from_client(aclient) as astore:
            assert await astore.topics() == []
        assert await aclient.ping()
        assert connections(own_server) == 1
