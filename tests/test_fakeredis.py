"""The stores and the client work over fakeredis, so that the tests of a service need no server."""

from __future__ import annotations

import asyncio

import fakeredis
import pytest

from sharedroutes.client import AsyncRouteClient, RouteClient
from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    InvalidInput,
    LeaseStatus,
    RouteStore,
    StaleEpoch,
    TopicConfig,
)
from tests.support import await_until, wait_until

BROKER = Broker("broker-a", "127.0.0.1:10911")


@pytest.fixture
def fake_server() -> fakeredis.FakeServer:
    """Return a store in the memory of this test."""
    return fakeredis.FakeServer()


def test_the_store_registers_looks_up_and_fences(fake_server: fakeredis.FakeServer) -> None:
    with RouteStore.from_client(fakeredis.FakeRedis(server=fake_server)) as store:
        first = store.register(BROKER, [TopicConfig("orders", 4, 4), TopicConfig("payments")])
        assert store.topics() == ["orders", "payments"]
        assert store.routes(["orders"])["orders"].broker_datas[0].master_address == BROKER.address
        second = store.register(BROKER, [TopicConfig("orders", 8, 8)])
        assert store.heartbeat(second) is LeaseStatus.OK
        assert store.heartbeat(first) is LeaseStatus.FENCED
        with pytest.raises(StaleEpoch):
            store.unregister(first)
        assert store.unregister(second)
        assert store.brokers() == []


def test_the_client_follows_changes(fake_server: fakeredis.FakeServer) -> None:
    with (
        RouteStore.from_client(fakeredis.FakeRedis(server=fake_server)) as store,
        RouteClient.from_client(fakeredis.FakeRedis(server=fake_server)) as routes,
    ):
        held = store.register(BROKER, [TopicConfig("orders", 1, 1)])
        assert routes.select_queue("orders").address == BROKER.address
        store.register(BROKER, [TopicConfig("orders", 1, 2)], held=held)
        wait_until(
            lambda: routes.select_queue("orders").queue_id == 1, description="the second queue is used"
        )


def test_the_asyncio_client_follows_changes(fake_server: fakeredis.FakeServer) -> None:
    async def follow() -> None:
        store = AsyncRouteStore.from_client(fakeredis.FakeAsyncRedis(server=fake_server))
        client = fakeredis.FakeAsyncRedis(server=fake_server)
        async with AsyncRouteClient.from_client(client) as routes:
            held = await store.register(BROKER, [TopicConfig("orders", 1, 1)])

            async def selected() -> int:
                return (await routes.select_queue("orders")).queue_id

            assert await selected() == 0
            await store.register(BROKER, [TopicConfig("orders", 1, 2)], held=held)
            await await_until(selected, description="the second queue is used")

    asyncio.run(follow())


def test_a_client_that_decodes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="decode_responses"):
        RouteStore.from_client(fakeredis.FakeRedis(decode_responses=True))
