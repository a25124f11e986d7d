"""A client that is asked to takes part in making the end of leases known."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Final

from sharedroutes.registry import EXPIRED, EmbeddedServer, RegistryConfig, RouteStore
from tests.client.clients import BELL_ONLY, ClientMaker, until_held_by
from tests.registry.builders import OTHER_ADDRESS, broker, topics
from tests.support import await_until

SWEEPER: Final = "sharedroutes-sweeper"
SHORT: Final = RegistryConfig(lease_ttl_s=1.5, sweeper_lease_s=0.1)


def sweepers() -> int:
    """Return how many sweepers run: in threads, and in tasks of this loop."""
    threads = sum(thread.name == SWEEPER for thread in threading.enumerate())
    return threads + sum(task.get_name() == SWEEPER for task in asyncio.all_tasks())


async def test_a_client_that_sweeps_makes_the_end_of_a_lease_known_to_all(
    make_client: ClientMaker, redis_url: str, agent: RouteStore
) -> None:
    agent.register(broker("broker-a"), topics(1))
    held = agent.register(broker("broker-b", address=OTHER_ADDRESS), topics(1))
    sweeping = make_client(redis_url, replace(BELL_ONLY, registry=SHORT, sweep=True))
    async with make_client(redis_url, BELL_ONLY) as other, sweeping:
        assert sweepers() == 1
        await until_held_by(other, "t0", "broker-a", "broker-b")
        with RouteStore.from_url(redis_url, SHORT) as dying:
            dying.heartbeat(held)
        await until_held_by(other, "t0", "broker-a")  # which only the doorbell can have told it
    assert sweepers() == 0
    (change,) = (one for one in agent.changes_since().changes if one.reason == EXPIRED)
    assert change.broker_name == "broker-b"


async def test_a_client_does_not_sweep_unless_asked_to(make_client: ClientMaker, redis_url: str) -> None:
    async with make_client(redis_url):
        assert sweepers() == 0


async def test_closing_a_client_that_sweeps_leaves_no_connection(
    make_client: ClientMaker, own_server: EmbeddedServer, own_agent: RouteStore
) -> None:
    def connections() -> int:
        return len(own_agent._link.client.client_list())

    own_agent.brokers()
    before = connections()
    async with make_client(own_server.url, replace(BELL_ONLY, registry=SHORT, sweep=True)):
        await await_until(lambda: connections() >= before + 3, description="it follows, sweeps and listens")
    await await_until(lambda: connections() == before, description="all connections are closed")
