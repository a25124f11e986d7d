"""What a type checker sees of the public names; `make lint` checks it, nothing runs it."""

from __future__ import annotations

from typing import Literal, assert_type

import redis
import redis.asyncio

from sharedroutes.client import (
    NETWORK_ERRORS,
    AsyncRouteClient,
    AttemptsFailed,
    ClientConfig,
    Failure,
    FaultConfig,
    FaultState,
    Health,
    HintConfig,
    Ladder,
    NoRoute,
    RetryPolicy,
    Route,
    RouteChange,
    RouteClient,
    Sending,
    Weighted,
    ZoneAware,
)
from sharedroutes.client.observers.prometheus import PrometheusObserver
from sharedroutes.registry import MessageQueue, RegistryConfig


def settings() -> ClientConfig:
    return ClientConfig(
        registry=RegistryConfig(namespace="orders"),
        strategy=ZoneAware("zone-1", inner=Weighted({"broker-a": 2.0})),
        faults=FaultConfig(ladder=Ladder()),
        hints=HintConfig(),
        observers=(PrometheusObserver(),),
    )


def retrying() -> RetryPolicy:
    policy = RetryPolicy(retries=1, deadline_s=0.5, retry_on=(*NETWORK_ERRORS, TimeoutError))
    assert_type(policy.retries, int)
    assert_type(policy.deadline_s, float | None)
    return policy


def trusted(health: Health) -> bool:
    assert_type(health.source, Literal["none", "live", "memory", "snapshot"])
    assert_type(health.age_s, float | None)
    assert_type(health.last_error, str | None)
    assert_type(health.position, str | None)
    assert_type(health.held, tuple[str, ...])
    assert_type(health.topics, int)
    return health.source == "live"


def over_clients_of_the_callers(
    blocking: redis.Redis | redis.RedisCluster, asynchronous: redis.asyncio.Redis
) -> tuple[RouteClient, AsyncRouteClient]:
    assert_type(RouteClient.from_client(blocking).config, ClientConfig)
    return RouteClient.from_client(blocking), AsyncRouteClient.from_client(asynchronous, settings())


def in_threads(url: str) -> str:
    with RouteClient.from_url(url, settings()) as routes:
        assert_type(routes, RouteClient)
        assert_type(routes.select_queue("orders", avoid="broker-a"), MessageQueue)
        assert_type(routes.select_queue("orders", {"broker-a", "broker-b"}).queue_id, int)
        assert_type(routes.subscribe_queues("orders"), tuple[MessageQueue, ...])
        assert_type(routes.route("orders"), Route)
        assert_type(routes.get(iter(["orders"])), dict[str, Route])
        assert_type(routes.health(), Health)
        assert_type(routes.faults(), dict[str, FaultState])
        assert_type(next(routes.watch(["orders"])), RouteChange)
        assert_type(routes.sending("orders", key="order-17"), Sending)
        assert_type(routes.find_address("broker-a", 1), tuple[str, int] | None)
        PrometheusObserver().watch(routes)
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
        assert_type(await routes.route("orders"), Route)
        assert_type(await routes.get(["orders"]), dict[str, Route])
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
    assert_type(error.failures[0].broker_name, str)
    assert_type(error.failures[0].latency_s, float)
    return error.topic


class Producer(RouteClient):
    """A client of one's own stays one through the constructors."""


class AsyncProducer(AsyncRouteClient):
    """The same for asyncio."""


def derived(url: str) -> Producer:
    with Producer.from_url(url) as producer:
        assert_type(producer, Producer)
    return producer


async def derived_for_tasks(url: str) -> AsyncProducer:
    async with AsyncProducer.from_url(url) as producer:
        assert_type(producer, AsyncProducer)
    return producer


def no_route(error: NoRoute) -> LookupError:
    assert_type(error.topic, str)
    return error


# An ignore that nothing needs is an error, so each of these says that the line does not type-check.
def mistakes(routes: RouteClient) -> None:
    routes.select_queue(1)  # type: ignore[arg-type]  # a topic is a string
    routes.record("broker-a", 0.1, True)  # type: ignore[call-arg]  # noqa: FBT003 - failed is named
    ClientConfig(RegistryConfig())  # type: ignore[call-arg]  # settings are named
    routes.health().source = "live"  # type: ignore[misc]  # health cannot be written
