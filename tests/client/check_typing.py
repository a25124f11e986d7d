"""What a type checker sees of the public names; `make lint` checks it, nothing runs it."""

from __future__ import annotations

from typing import assert_type

from sharedroutes.client import (
    AsyncRouteClient,
    AttemptsFailed,
    ClientConfig,
    Failure,
    Health,
    Ladder,
    RetryPolicy,
    RouteClient,
)
from sharedroutes.registry import MessageQueue, RegistryConfig, TopicRoute


def settings() -> ClientConfig:
    return ClientConfig(registry=RegistryConfig(namespace="orders"), ladder=Ladder(latency_ms=(50,)))


def in_threads(url: str) -> str:
    with RouteClient.from_url(url, settings()) as routes:
        assert_type(routes, RouteClient)
        assert_type(routes.select_queue("orders", avoid="broker-a"), MessageQueue)
        assert_type(routes.select_queue("orders", {"broker-a", "broker-b"}).queue_id, int)
        assert_type(routes.subscribe_queues("orders"), tuple[MessageQueue, ...])
        assert_type(routes.route("orders"), TopicRoute)
        assert_type(routes.get(iter(["orders"])), dict[str, TopicRoute])
        assert_type(routes.health(), Health)
        routes.record("broker-a", 0.1, failed=True)
        for attempt in routes.attempts("orders", retries=2, policy=RetryPolicy(deadline_s=None)):
            assert_type(attempt.number, int)
            with attempt as queue:
                assert_type(queue, MessageQueue)
                return queue.address
    return "never reached"


async def in_tasks(url: str) -> str:
    async with AsyncRouteClient.from_url(url, settings()) as routes:
        assert_type(routes, AsyncRouteClient)
        assert_type(await routes.select_queue("orders", avoid="broker-a"), MessageQueue)
        assert_type(await routes.subscribe_queues("orders"), tuple[MessageQueue, ...])
        assert_type(await routes.route("orders"), TopicRoute)
        assert_type(await routes.get(["orders"]), dict[str, TopicRoute])
        assert_type(routes.health(), Health)
        routes.record("broker-a", 0.1)
        async for attempt in routes.attempts("orders"):
            assert_type(attempt.number, int)
            async with attempt as queue:
                assert_type(queue, MessageQueue)
                return queue.address
    return "never reached"


def told(error: AttemptsFailed) -> str:
    assert_type(error.failures, tuple[Failure, ...])
    assert_type(error.failures[0].cause, BaseException)
    return error.topic


class Producer(RouteClient):
    """A client of one's own stays one through the constructors."""


def derived(url: str) -> Producer:
    with Producer.from_url(url) as producer:
        assert_type(producer, Producer)
    return producer


# An ignore that nothing needs is an error, so each of these says that the line does not type-check.
def mistakes(routes: RouteClient) -> None:
    routes.select_queue(1)  # type: ignore[arg-type]  # a topic is a string
    routes.record("broker-a", 0.1, True)  # type: ignore[call-arg]  # noqa: FBT003 - failed is named
    ClientConfig(RegistryConfig())  # type: ignore[call-arg]  # settings are named
    routes.health().source = "live"  # type: ignore[misc]  # health cannot be written
