"""A network that fails between a client and a store that is well: see tests/proxy.py for the faults."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
import redis

from sharedroutes.client import NoRoute
from sharedroutes.registry import (
    EmbeddedServer,
    RouteStore,
    StoreTimeout,
    StoreUnavailable,
    TopicConfig,
    TopicRoute,
)
from tests.client.clients import (
    IMPATIENT,
    QUICK,
    AnyClient,
    ClientMaker,
    Stage,
    holders,
    until_held_by,
    until_known,
    until_source,
)
from tests.proxy import OUTAGES, FaultyProxy, Outage
from tests.registry.builders import broker, topics
from tests.support import await_until

SOON_S: Final = 10.0
"""Far more than any deadline of IMPATIENT, far less than a wait that nobody bounds."""

SUBSCRIBE: Final = b"SUBSCRIBE"
"""What only a doorbell says."""

IN_EVERY_OUTAGE: Final = pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)


@pytest.fixture
def proxy(own_server: EmbeddedServer) -> Iterator[FaultyProxy]:
    """Return the network between the test's client and its own server."""
    with FaultyProxy(own_server.port) as proxy:
        yield proxy


@pytest.fixture
def stage(make_client: ClientMaker, proxy: FaultyProxy, own_agent: RouteStore) -> Stage:
    """Return the test's own server behind that network."""
    return Stage(make_client, proxy.url, own_agent)


async def learn(client: AnyClient, agent: RouteStore) -> None:
    """Let the client know of two brokers and hear of every change."""
    for name in ("broker-a", "broker-b"):
        agent.register(broker(name), topics(1))
    await until_known(client, "broker-a", "broker-b")


async def found(client: AnyClient, topic: str) -> TopicRoute:
    """Wait until a topic that was not known is found; a connection that is half open costs a call first."""

    async def look() -> TopicRoute | None:
        with contextlib.suppress(StoreUnavailable, NoRoute):
            return await client.route(topic)
        return None

    route = await await_until(look, description=f"{topic} is found")
    assert isinstance(route, TopicRoute)
    return route


def told_apart(count: int) -> list[TopicConfig]:
    """Return topics of which no two have the same route."""
    return [TopicConfig(f"t{number}", number + 1, number + 1) for number in range(count)]


# --- no call gets through ----------------------------------------------------------------------------------


@IN_EVERY_OUTAGE
async def test_an_outage_is_said_touches_no_known_route_and_costs_no_change(
    stage: Stage, proxy: FaultyProxy, outage: Outage
) -> None:
    async with stage.client(IMPATIENT) as client:
        await learn(client, stage.agent)
        with outage(proxy):
            await until_source(client, "memory")
            stage.agent.register(broker("broker-c"), topics(2))
            async with asyncio.timeout(SOON_S):
                with pytest.raises(StoreUnavailable):
                    await client.select_queue("t1")
            for _ in range(100):
                assert (await client.select_queue("t0")).broker_name in ("broker-a", "broker-b")
            assert await holders(client, "t0") == {"broker-a", "broker-b"}
            health = client.health()
            assert (health.source, bool(health.last_error)) == ("memory", True)
        await until_source(client, "live")
        await until_held_by(client, "t0", "broker-a", "broker-b", "broker-c")
        await found(client, "t1")
        assert await holders(client, "t1") == {"broker-c"}
        await await_until(lambda: client.health().last_error is None, description="all is well again")


@IN_EVERY_OUTAGE
async def test_a_client_that_is_started_in_an_outage_works_when_it_is_over(
    stage: Stage, proxy: FaultyProxy, outage: Outage
) -> None:
    with contextlib.ExitStack() as fault:
        fault.enter_context(outage(proxy))
        async with stage.client(IMPATIENT) as client:
            async with asyncio.timeout(SOON_S):
                with pytest.raises(StoreUnavailable):
                    await client.select_queue("t0")
                with pytest.raises(StoreUnavailable):
                    await client.get(["t0", "t1"])
            await await_until(lambda: client.health().last_error, description="the follower fails")
            assert client.health().source == "none"
            fault.close()
            await until_source(client, "live")
            await learn(client, stage.agent)


@IN_EVERY_OUTAGE
async def test_a_client_is_closed_within_its_deadlines_in_an_outage(
    stage: Stage, proxy: FaultyProxy, outage: Outage
) -> None:
    async with stage.client(IMPATIENT) as client:
        await learn(client, stage.agent)
        with outage(proxy):
            await until_source(client, "memory")
            async with asyncio.timeout(SOON_S):
                await client.aclose()


async def test_one_outage_after_another_leaves_nothing_behind(stage: Stage, proxy: FaultyProxy) -> None:
    async with stage.client(IMPATIENT) as client:
        await learn(client, stage.agent)
        for number, outage in enumerate(OUTAGES.values()):
            with outage(proxy):
                await until_source(client, "memory")
                held = stage.agent.register(broker(f"broker-{number}"), topics(1))
            await until_held_by(client, "t0", "broker-a", "broker-b", f"broker-{number}")
            stage.agent.unregister(held)
            await until_held_by(client, "t0", "broker-a", "broker-b")


# --- connections that end ----------------------------------------------------------------------------------


async def test_connections_that_are_reset_again_and_again_cost_no_change(
    stage: Stage, proxy: FaultyProxy
) -> None:
    async with stage.client() as client:
        await learn(client, stage.agent)
        for _ in range(5):
            held = stage.agent.register(broker("broker-c"), topics(1))
            proxy.reset()
            await until_held_by(client, "t0", "broker-a", "broker-b", "broker-c")
            stage.agent.unregister(held)
            proxy.reset()
            await until_held_by(client, "t0", "broker-a", "broker-b")
        await until_source(client, "live")


async def test_a_reply_that_is_cut_anywhere_is_never_taken_for_a_route(
    stage: Stage, proxy: FaultyProxy
) -> None:
    stage.agent.register(broker(), told_apart(60))
    right = stage.agent.routes([f"t{number}" for number in range(60)])
    whole = 0
    async with stage.in_place() as client:
        for number, topic in enumerate(right):
            with proxy.cutting(after_bytes=20 * number), contextlib.suppress(StoreUnavailable):
                assert await client.route(topic) == right[topic]
                whole += 1
        assert 0 < whole < len(right)
        await until_source(client, "live")
        for topic in right:
            assert await client.route(topic) == right[topic]


# --- connections that say nothing any more -----------------------------------------------------------------


async def test_changes_are_heard_of_although_the_doorbell_is_half_open(
    stage: Stage, proxy: FaultyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage.client() as client:
        await learn(client, stage.agent)
        assert proxy.abandon(SUBSCRIBE) == 1
        held = stage.agent.register(broker("broker-c"), topics(1))
        await until_held_by(client, "t0", "broker-a", "broker-b", "broker-c")
        stage.agent.unregister(held)
        await until_held_by(client, "t0", "broker-a", "broker-b")
        assert client.health().source == "live"
    assert "does not answer" not in caplog.text


async def test_a_doorbell_that_tells_of_nothing_any_more_is_renewed(
    stage: Stage, proxy: FaultyProxy, own_server: EmbeddedServer
) -> None:
    with redis.Redis.from_url(own_server.url) as admin:

        def listeners() -> int:
            ((_, count),) = admin.pubsub_numsub(stage.agent.keys.changes)
            return int(count)

        async with stage.client() as client:
            await learn(client, stage.agent)
            assert proxy.abandon(SUBSCRIBE) == listeners() == 1
            for _ in range(10):
                held = stage.agent.register(broker("broker-c"), topics(1))
                await until_held_by(client, "t0", "broker-a", "broker-b", "broker-c")
                stage.agent.unregister(held)
                await until_held_by(client, "t0", "broker-a", "broker-b")
            # The server still believes in the connection that nobody serves.
            await await_until(lambda: listeners() == 2, description="the client listens anew")


async def test_answers_that_come_too_late_are_not_taken_for_those_to_later_questions(
    stage: Stage, proxy: FaultyProxy
) -> None:
    stage.agent.register(broker(), told_apart(20))
    right = stage.agent.routes([f"t{number}" for number in range(20)])
    names = iter(right)
    async with stage.in_place(IMPATIENT) as client:
        for late, later in zip(names, names, strict=True):
            with proxy.hanging(), pytest.raises(StoreTimeout):
                await client.route(late)
            assert await found(client, later) == right[later]
            assert await found(client, late) == right[late]


# --- slow, but in time -------------------------------------------------------------------------------------


async def test_replies_that_are_slow_but_in_time_do_no_harm(
    stage: Stage, proxy: FaultyProxy, caplog: pytest.LogCaptureFixture
) -> None:
    patient = replace(QUICK, registry=replace(QUICK.registry, call_deadline_s=30, connect_deadline_s=30))
    with caplog.at_level(logging.INFO, "sharedroutes.client"), proxy.slow(0.05):
        async with stage.client(patient) as client:
            await learn(client, stage.agent)
            stage.agent.register(broker("broker-c"), topics(2))
            await until_held_by(client, "t0", "broker-a", "broker-b", "broker-c")
            await until_held_by(client, "t1", "broker-c")
            assert client.health().source == "live"
    assert "does not answer" not in caplog.text
