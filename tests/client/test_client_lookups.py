"""What a route client answers, and what it asks the store for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager

import pytest
import redis
import redis.asyncio

from sharedroutes.client import AsyncRouteClient, NoRoute, RouteClient
from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, MessageQueue, RegistryConfig, RouteStore
from tests.client.clients import (
    BELL_ONLY,
    QUICK,
    Stage,
    attempt,
    calls,
    chosen,
    holders,
    tell_silently,
    until_held_by,
    until_position,
)
from tests.registry.builders import ADDRESS, broker, topics
from tests.support import await_until, wait_until


@contextmanager
def no_lookup(admin: redis.Redis) -> Iterator[None]:
    """Check that nothing is looked up meanwhile."""
    before = calls(admin, "mget")
    yield
    assert calls(admin, "mget") == before


async def test_a_topic_is_read_once(stage: Stage, admin: redis.Redis) -> None:
    stage.agent.register(broker(), topics(1))
    async with stage.in_place(BELL_ONLY) as client:
        first = await client.select_queue("t0")
        assert (first.topic, first.broker_name, first.address) == ("t0", "broker-a", ADDRESS)
        with no_lookup(admin):
            others = [await client.select_queue("t0") for _ in range(7)]
            assert await client.subscribe_queues("t0") == tuple(sorted({first, *others}))
            assert (await client.route("t0")).topic == "t0"
            assert list(await client.get(["t0"])) == ["t0"]
    assert [queue.queue_id for queue in others] == [(first.queue_id + turn) % 4 for turn in range(1, 8)]


@pytest.mark.parametrize("topic", ["nowhere", "t0"], ids=["no broker", "a dead broker"])
async def test_a_topic_that_no_live_broker_holds_is_no_route_and_is_read_once(
    stage: Stage, admin: redis.Redis, topic: str
) -> None:
    stage.agent.unregister(stage.agent.register(broker(), topics(1)))
    async with stage.in_place(BELL_ONLY) as client:
        with pytest.raises(NoRoute, match=f"no live broker holds topic '{topic}'"):
            await client.select_queue(topic)
        with no_lookup(admin):
            for ask in (client.select_queue, client.subscribe_queues, client.route):
                with pytest.raises(NoRoute):
                    await ask(topic)
            assert await client.get([topic]) == {}


async def test_many_topics_are_read_at_once(stage: Stage, admin: redis.Redis) -> None:
    stage.agent.register(broker(), topics(300))
    async with stage.in_place(BELL_ONLY) as client:
        before = calls(admin, "mget")
        found = await client.get(f"t{number}" for number in range(400))
        assert set(found) == {f"t{number}" for number in range(300)}
        assert calls(admin, "mget") - before == 2  # the topics, and the leases of the broker that they name


async def test_a_broker_to_avoid_is_avoided_if_there_is_another(stage: Stage) -> None:
    stage.register("broker-a", "broker-b")
    async with stage.client() as client:
        chosen = {(await client.select_queue("t0", "broker-a")).broker_name for _ in range(8)}
        assert chosen == {"broker-b"}
        both = {(await client.select_queue("t0", ("broker-a", "broker-b"))).broker_name for _ in range(8)}
        assert both == {"broker-a", "broker-b"}


async def test_a_broker_that_fails_is_not_tried_again_and_left_alone(stage: Stage) -> None:
    stage.register("broker-a", "broker-b")
    tried: list[str] = []

    def send(queue: MessageQueue) -> str:
        tried.append(queue.broker_name)
        if len(tried) == 1:
            raise ConnectionResetError
        return queue.broker_name

    async with stage.client() as client:
        good = await attempt(client, "t0", send)
        assert tried == [*({"broker-a", "broker-b"} - {good}), good]
        assert await chosen(client) == {good}


async def test_attempts_at_a_topic_that_nobody_holds_are_no_route(stage: Stage) -> None:
    async with stage.client() as client:
        with pytest.raises(NoRoute):
            await attempt(client, "nowhere", lambda queue: queue)


async def test_namespaces_do_not_see_each_other(stage: Stage) -> None:
    other = RegistryConfig(namespace="other")
    stage.agent.register(broker(), topics(1))
    with RouteStore.from_url(stage.url, other) as other_agent:
        other_agent.register(broker("broker-b"), topics(1))
        async with stage.client() as client, stage.client(registry=other) as other_client:
            await until_held_by(client, "t0", "broker-a")
            await until_held_by(other_client, "t0", "broker-b")
            other_agent.register(broker("broker-c"), topics(1))
            await until_held_by(other_client, "t0", "broker-b", "broker-c")
            assert await holders(client, "t0") == {"broker-a"}


@pytest.mark.parametrize("known_before", [True, False])
async def test_a_corrupt_topic_is_said_once_and_the_others_are_served(
    stage: Stage,
    admin: redis.Redis,
    foreign_keys: list[str],
    caplog: pytest.LogCaptureFixture,
    *,
    known_before: bool,
) -> None:
    stage.agent.register(broker(), topics(2))
    key = stage.agent.keys.topic("t0")
    foreign_keys.append(key)
    async with stage.in_place(missing_retry_s=0.0) as client:
        if known_before:
            await until_held_by(client, "t0", "broker-a")
        admin.delete(key)
        admin.rpush(key, "a", "list")
        for _ in range(3):
            change_id = tell_silently(admin, stage.agent.keys, "t0")
            assert set(await client.get(["t0", "t1"])) == ({"t0", "t1"} if known_before else {"t1"})
            await until_position(client, change_id)
        await await_until(lambda: key in caplog.text, description="the key is reported")
        assert set(await client.get(["t0", "t1"])) == ({"t0", "t1"} if known_before else {"t1"})
    assert [record.levelname for record in caplog.records if key in record.getMessage()] == ["ERROR"]


async def test_a_client_of_the_callers_stays_open(redis_url: str, agent: RouteStore) -> None:
    agent.register(broker(), topics(1))
    with redis.Redis.from_url(redis_url) as mine:
        with RouteClient.from_client(mine, QUICK) as client:
            assert client.select_queue("t0").broker_name == "broker-a"
        assert mine.ping()
    async with aclosing(redis.asyncio.Redis.from_url(redis_url)) as async_mine:
        async with AsyncRouteClient.from_client(async_mine, QUICK) as async_client:
            assert (await async_client.select_queue("t0")).broker_name == "broker-a"
        assert await async_mine.ping()


async def test_a_store_of_the_callers_stays_open(own_server: EmbeddedServer, own_agent: RouteStore) -> None:
    own_agent.register(broker(), topics(1))

    def others() -> int:
        return len(admin.client_list()) - 1

    with redis.Redis.from_url(own_server.url) as admin:
        # Several connections: a read that is cut off as the client ends takes its own with it.
        admin.client_pause(100)
        with ThreadPoolExecutor(3) as pool:
            assert all(pool.map(own_agent.lookup, [["t0"]] * 3))
        with RouteClient(own_agent, QUICK) as client:
            assert client.select_queue("t0").broker_name == "broker-a"
        assert others() > 0
        own_agent.close()
        wait_until(lambda: others() == 0, description="the store's connections are closed")
        async with AsyncRouteStore.from_url(own_server.url) as async_store:
            await asyncio.gather(*(async_store.lookup(["t0"]) for _ in range(3)))
            async with AsyncRouteClient(async_store, QUICK) as async_client:
                assert (await async_client.select_queue("t0")).broker_name == "broker-a"
            assert others() > 0
