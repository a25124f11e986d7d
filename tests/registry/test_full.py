"""A store that is full (maxmemory) refuses what is new; whoever is registered stays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import redis

from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, LeaseStatus, StoreRefused
from sharedroutes.registry.plans import fronts
from sharedroutes.registry.plans.fronts import Ending, Vouched
from tests.registry.builders import broker, topics
from tests.registry.test_fronts import BROKER, Fronts

TTL_MS = 60_000


@asynccontextmanager
async def full(server: EmbeddedServer) -> AsyncIterator[Fronts]:
    """Return fronts on a store with a broker that is at a front alone, and one with an agent; it is full."""
    async with AsyncRouteStore.from_url(server.url) as store:
        there = Fronts(store)
        await there.live("f1")
        await there.register("f1.1")
        with redis.Redis(port=server.port) as admin:
            admin.config_set("maxmemory", 1)
        yield there


def left_ms(server: EmbeddedServer, key: str) -> int:
    with redis.Redis(port=server.port) as admin:
        found = admin.pttl(key)
    assert isinstance(found, int)
    return found


async def test_brokers_at_fronts_keep_their_leases(own_server: EmbeddedServer) -> None:
    async with full(own_server) as there:
        lease = there.store.keys.lease("broker-a", 0)
        with redis.Redis(port=own_server.port) as admin:
            admin.pexpire(lease, 1_000)
        assert isinstance(await there.vouch("f1.1", anew=False), Vouched)
        assert left_ms(own_server, lease) > TTL_MS / 2
        assert isinstance(await there.vouch("f1.2"), Vouched)  # over another connection
        await there.live("f1")
        assert await there.store.run(
            fronts.release(there.store.config, BROKER, ("f1.1", "f1.2"), Ending.DEAD, "silent", judged_ms=0)
        )


@pytest.mark.parametrize("sessions", [[], ["f1.1"]], ids=["alone", "beside a front"])
async def test_brokers_with_agents_keep_their_leases(own_server: EmbeddedServer, sessions: list[str]) -> None:
    async with AsyncRouteStore.from_url(own_server.url) as store:
        held = await store.register(broker(), topics(2))
        there = Fronts(store)
        for session in sessions:
            assert isinstance(await there.vouch(session, replace(BROKER, heartbeat_timeout_ms=500)), Vouched)
        with redis.Redis(port=own_server.port) as admin:
            admin.config_set("maxmemory", 1)
            admin.pexpire(store.keys.lease("broker-a", 0), 1_000)
        assert await store.heartbeat(held) is LeaseStatus.OK
        assert left_ms(own_server, store.keys.lease("broker-a", 0)) > 10_000
        with pytest.raises(StoreRefused, match="maxmemory"):
            await store.register(broker("broker-b"), topics(1))
        assert await store.unregister(held)
