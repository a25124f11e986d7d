"""The asyncio client under uvloop, which is not asyncio's own loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from sharedroutes.client import AsyncRouteClient
from sharedroutes.registry import AsyncRouteStore, RouteStore, StoreUnavailable
from tests.client import test_client_lifecycle, test_client_network
from tests.client.clients import BELL_ONLY, ClientMaker, async_client, attempt, until_held_by, until_in_place
from tests.client.test_client_network import proxy, stage  # noqa: F401 - fixtures of its tests
from tests.registry.builders import ADDRESS, broker, topics

if sys.platform == "win32" or sys.implementation.name != "cpython":
    pytest.skip("uvloop is for CPython on POSIX", allow_module_level=True)

import uvloop

TESTS: Final = (
    test_client_lifecycle.test_closing_leaves_no_connection,
    test_client_lifecycle.test_closing_leaves_nothing_for_the_collector_to_complain_about,
    test_client_lifecycle.test_closing_right_after_the_start_leaves_nothing,
    test_client_network.test_a_client_is_closed_within_its_deadlines_in_an_outage,
    test_client_network.test_an_outage_is_said_touches_no_known_route_and_costs_no_change,
    test_client_network.test_changes_are_heard_of_although_the_doorbell_is_half_open,
)
"""What holds under asyncio's own loop holds under this one."""

globals().update({test.__name__: test for test in TESTS})


@pytest.fixture(autouse=True)
def runner() -> Iterator[asyncio.Runner]:
    """Return the runner of this test's event loop, which is one of uvloop."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    yield runner
    runner.close()


@pytest.fixture
def make_client() -> ClientMaker:
    """Return what makes clients for asyncio."""
    return async_client


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
