"""The asyncio client under uvloop, which is not asyncio's own loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import warnings
from collections.abc import Iterator
from typing import Final

import pytest

from sharedroutes.client import AsyncRouteClient
from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, RouteStore, StoreUnavailable
from tests.client.clients import (
    BELL_ONLY,
    FOLLOWER,
    IMPATIENT,
    QUICK,
    attempt,
    until_held_by,
    until_in_place,
    until_source,
)
from tests.proxy import OUTAGES, FaultyProxy, Outage
from tests.registry.builders import ADDRESS, broker, topics
from tests.support import await_until

if sys.platform == "win32" or sys.implementation.name != "cpython":
    pytest.skip("uvloop is for CPython on POSIX", allow_module_level=True)

import uvloop

SOON_S: Final = 10.0


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    """Return the runner of this test's event loop, which is one of uvloop."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    yield runner
    runner.close()


async def test_a_lookup_an_attempt_and_a_change_that_the_doorbell_tells_of(
    redis_url: str, agent: RouteStore
) -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
    agent.register(broker("broker-a"), topics(1))
    async with AsyncRouteClient.from_url(redis_url, BELL_ONLY) as client:
        assert (await client.select_queue("t0")).address == ADDRESS
        assert await attempt(client, "t0", lambda queue: queue.broker_name) == "broker-a"
        await until_in_place(client)
        agent.register(broker("broker-b"), topics(1))
        await until_held_by(client, "t0", "broker-a", "broker-b")


async def test_a_change_that_only_the_tail_tells_of(
    own_server: EmbeddedServer, own_agent: RouteStore
) -> None:
    with FaultyProxy(own_server.port) as proxy:
        async with AsyncRouteClient.from_url(proxy.url, QUICK) as client:
            await until_in_place(client)
            proxy.abandon(b"SUBSCRIBE")
            own_agent.register(broker("broker-a"), topics(1))
            await until_held_by(client, "t0", "broker-a")


async def test_a_connection_that_ends_as_it_is_written_to_is_a_store_that_cannot_be_reached(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncRouteStore.from_url(redis_url) as store:
        await store.topics()
        (connection,) = store._link.client.connection_pool._available_connections
        is_read = connection.can_read

        async def end_after_the_look() -> bool:
            monkeypatch.undo()
            found: bool = await is_read()
            connection._writer.transport.abort()
            await asyncio.sleep(0)  # uvloop closes it then
            return found

        monkeypatch.setattr(connection, "can_read", end_after_the_look)
        with pytest.raises(StoreUnavailable):
            await store.topics()
        assert await store.topics() == []


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES)
async def test_an_outage_and_the_time_after_it(
    own_server: EmbeddedServer, own_agent: RouteStore, outage: Outage
) -> None:
    own_agent.register(broker("broker-a"), topics(1))
    with FaultyProxy(own_server.port) as proxy:
        async with AsyncRouteClient.from_url(proxy.url, IMPATIENT) as client:
            await until_in_place(client)
            await until_held_by(client, "t0", "broker-a")
            with outage(proxy):
                await until_source(client, "memory")
                assert (await client.select_queue("t0")).broker_name == "broker-a"
                async with asyncio.timeout(SOON_S):
                    with pytest.raises(StoreUnavailable):
                        await client.select_queue("unknown")
                own_agent.register(broker("broker-b"), topics(1))
            await until_source(client, "live")
            await until_held_by(client, "t0", "broker-a", "broker-b")


async def test_closing_leaves_no_task_no_connection_and_nothing_to_complain_about(
    own_server: EmbeddedServer, own_agent: RouteStore
) -> None:
    def connections() -> int:
        return len(own_agent._link.client.client_list())

    own_agent.register(broker("broker-a"), topics(1))
    before = connections()
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        async with AsyncRouteClient.from_url(own_server.url, QUICK) as client:
            await until_held_by(client, "t0", "broker-a")
            await until_in_place(client)
        assert all(task.get_name() != FOLLOWER for task in asyncio.all_tasks())
        await await_until(lambda: connections() == before, description="all connections are closed")
        del client
        gc.collect()
    assert [str(complaint.message) for complaint in complaints] == []


async def test_closing_in_an_outage_ends_within_the_deadlines(
    own_server: EmbeddedServer, own_agent: RouteStore
) -> None:
    with FaultyProxy(own_server.port) as proxy:
        async with AsyncRouteClient.from_url(proxy.url, IMPATIENT) as client:
            await until_in_place(client)
            with proxy.hanging():
                await until_source(client, "memory")
                async with asyncio.timeout(SOON_S):
                    await client.aclose()
