"""What a test can do to a registry in memory; done to a real server, it has the same effects."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest
import redis

from sharedroutes.client import AsyncRouteClient, ClientConfig, NoRoute, RouteClient, StoreUnavailable
from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    EmbeddedServer,
    InvalidInput,
    NotFound,
    RegistryConfig,
    RouteStore,
    TopicConfig,
)
from sharedroutes.testing import InMemoryRegistry
from tests.support import wait_until

A: Final = Broker("broker-a", "10.0.0.1:10911")
B: Final = Broker("broker-b", "10.0.0.2:10911")
ORDERS: Final = [TopicConfig("orders", 4, 4)]
PAYMENTS: Final = [TopicConfig("payments", 4, 4)]
PROMPT: Final = ClientConfig(reconnect_s=0.1, jitter_s=0.0, missing_retry_s=0.0, tail_s=0.05)


class OverAServer(InMemoryRegistry):
    """The same, over a server: what the registry in memory is held against."""

    def __init__(self, server: EmbeddedServer, config: RegistryConfig | None = None) -> None:
        super().__init__(config)
        self._embedded = server
        self._redis = redis.Redis.from_url(server.url)
        self._redis.flushall()
        self.store = RouteStore.from_url(server.url, self.config)

    def close(self) -> None:
        self._redis.close()
        self.store.close()

    def client(self, config: ClientConfig = PROMPT) -> RouteClient:
        return RouteClient.from_url(self._embedded.url, config, namespace=self.config.namespace)

    def async_client(self, config: ClientConfig = PROMPT) -> AsyncRouteClient:
        return AsyncRouteClient.from_url(self._embedded.url, config, namespace=self.config.namespace)

    def async_store(self) -> AsyncRouteStore:
        return AsyncRouteStore.from_url(self._embedded.url, self.config)

    @contextmanager
    def unavailable(self) -> Iterator[None]:
        content = {key: self._redis.dump(key) for key in self._redis.scan_iter()}
        self._embedded.kill()
        yield
        self._embedded.start()
        for key, value in content.items():
            self._redis.restore(key, 0, value)


@pytest.fixture(params=["in memory", "over a server"])
def registry(request: pytest.FixtureRequest) -> Iterator[InMemoryRegistry]:
    """Return a registry whose brokers live until the test says otherwise."""
    if request.param == "in memory":
        with InMemoryRegistry() as registry:
            yield registry
    else:
        with OverAServer(request.getfixturevalue("own_server")) as registry:
            yield registry


@pytest.fixture
def memory() -> Iterator[InMemoryRegistry]:
    with InMemoryRegistry() as registry:
        yield registry


def brokers_of(client: RouteClient, topic: str) -> set[str]:
    try:
        return {data.broker_name for data in client.route(topic).broker_datas}
    except NoRoute:
        return set()


def test_a_broker_that_dies_is_used_no_more(registry: InMemoryRegistry) -> None:
    registry.register(A, ORDERS)
    registry.register(B, ORDERS)
    with registry.client(PROMPT) as client:
        assert brokers_of(client, "orders") == {"broker-a", "broker-b"}
        registry.settle(client)
        registry.expire("broker-a")
        registry.settle(client)
        assert brokers_of(client, "orders") == {"broker-b"}
        registry.register(A, ORDERS)
        registry.settle(client)
        assert brokers_of(client, "orders") == {"broker-a", "broker-b"}


def test_a_broker_that_is_shut_down_leaves_no_route(registry: InMemoryRegistry) -> None:
    registry.register(A, ORDERS)
    with registry.client(PROMPT) as client:
        assert client.select_queue("orders").host == "10.0.0.1"
        registry.settle(client)
        registry.unregister("broker-a")
        registry.settle(client)
        with pytest.raises(NoRoute):
            client.select_queue("orders")


def test_the_only_broker_that_a_client_knows_is_held_when_it_dies(registry: InMemoryRegistry) -> None:
    registry.register(A, ORDERS)
    with registry.client(PROMPT) as client:
        client.select_queue("orders")
        registry.settle(
            client
        )  # until then, an answer may be older than what was heard: not worth holding on to
        registry.expire("broker-a")
        registry.settle(client)
        (loss,) = client.health().held_losses
        assert (loss.kind, loss.name, loss.why) == ("broker", "broker-a", "mass loss")
        assert loss.left_s <= PROMPT.guard_hold_s + PROMPT.tail_s
        assert client.select_queue("orders").broker_name == "broker-a"
        client.accept()
        wait_until(lambda: not brokers_of(client, "orders"), description="the loss is believed")
        assert client.health().held_losses == ()


def test_a_client_that_needs_a_store_that_is_away_says_so(registry: InMemoryRegistry) -> None:
    registry.register(A, ORDERS)
    with registry.client(PROMPT) as client:
        client.select_queue("orders")
        registry.settle(client)
        with registry.unavailable():
            with pytest.raises(StoreUnavailable):
                client.select_queue("payments")
            assert client.select_queue("orders").broker_name == "broker-a"
            wait_until(lambda: client.health().source == "memory", description="the client noticed")
            with pytest.raises(StoreUnavailable):
                registry.store.topics()
        wait_until(lambda: client.health().source == "live", description="the client is back")
        assert brokers_of(client, "payments") == set()


def test_a_store_that_lost_everything_is_not_believed(registry: InMemoryRegistry) -> None:
    registry.register(A, ORDERS)
    registry.register(B, ORDERS)
    with registry.client(PROMPT) as client:
        client.select_queue("orders")
        registry.settle(client)
        registry.lose_everything()
        wait_until(lambda: client.health().held_topics, description="the loss is held back")
        assert brokers_of(client, "orders") == {"broker-a", "broker-b"}
        assert {loss.why for loss in client.health().held_losses} <= {"changes lost", "mass loss"}


def test_time_ends_the_leases_of_who_is_silent(registry: InMemoryRegistry) -> None:
    registry.register(replace(A, heartbeat_timeout_ms=600_000), ORDERS)
    held = registry.register(replace(B, heartbeat_timeout_ms=600_000), ORDERS)
    registry.advance(300)
    registry.store.heartbeat(held)
    registry.advance(200)
    assert [broker.broker_name for broker in registry.store.brokers()] == ["broker-a", "broker-b"]
    registry.advance(100)
    assert [broker.broker_name for broker in registry.store.brokers()] == ["broker-b"]
    down = registry.store.changes_since().changes[-1]
    assert (down.kind, down.broker_name, down.reason) == ("down", "broker-a", "expired")
    registry.advance(500)
    assert registry.store.brokers() == []


def test_time_ends_hints(registry: InMemoryRegistry) -> None:
    registry.store.hint("client-1", ["broker-a"], ttl_s=60)
    registry.advance(30)
    assert registry.store.hints() == {"broker-a": frozenset({"client-1"})}
    registry.advance(30)
    assert registry.store.hints() == {}


@pytest.mark.parametrize("use", ["expire", "unregister"])
def test_a_broker_that_is_not_there_cannot_end(registry: InMemoryRegistry, use: str) -> None:
    with pytest.raises(NotFound, match="broker-z:0"):
        getattr(registry, use)("broker-z")


def test_both_kinds_of_clients_see_the_same(registry: InMemoryRegistry) -> None:
    async def follow() -> None:
        store = registry.async_store()
        await store.register(A, ORDERS)
        async with registry.async_client(PROMPT) as client:
            assert (await client.select_queue("orders")).port == 10911
            await store.register(B, ORDERS)
            await registry.settle_async(client)
            assert len((await client.route("orders")).broker_datas) == 2
        await store.aclose()

    asyncio.run(follow())


# --- in memory alone ----------------------------------------------------------------------------------------


def test_a_broker_lives_for_as_long_as_a_test_may_last(memory: InMemoryRegistry) -> None:
    memory.register(A, ORDERS)
    memory.advance(3_600)
    assert memory.store.topics() == ["orders"]


def test_registries_do_not_know_of_each_other(memory: InMemoryRegistry) -> None:
    memory.register(A, ORDERS)
    with InMemoryRegistry() as other:
        assert other.store.topics() == []


def test_the_settings_of_the_registry_are_those_of_its_clients() -> None:
    with InMemoryRegistry(RegistryConfig(namespace="blue")) as registry:
        registry.register(A, ORDERS)
        with registry.client() as client:
            assert client.select_queue("orders").broker_name == "broker-a"


def test_a_client_that_does_not_run_is_not_waited_for_in_vain(memory: InMemoryRegistry) -> None:
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        memory.settle(memory.client(), timeout_s=0.05)


def test_a_place_in_the_stream_has_a_form(memory: InMemoryRegistry) -> None:
    with memory.client() as client, pytest.raises(InvalidInput, match="position"):
        client.has_taken_in("yesterday")


def test_it_says_what_it_needs() -> None:
    program = "import sys; sys.modules['fakeredis'] = None; import sharedroutes.testing"
    done: Any = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "sharedroutes.testing needs fakeredis: run " in done.stderr
    assert "[testing]" in done.stderr
