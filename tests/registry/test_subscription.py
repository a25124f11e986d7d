"""Subscriptions to changes and to the events of leases: whatever ended one, the next wait begins anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, StoreRefused, StoreUnavailable
from tests.fix_redis import Store, StoreMaker
from tests.registry.builders import broker
from tests.registry.servers import quick
from tests.support import await_until, wait_until

KINDS = ["doorbell", "lease_events"]


def subscription(store: Store, kind: str) -> contextlib.aclosing[Any]:
    """Return a subscription of one kind, which is closed at the end; nothing is subscribed yet."""
    return contextlib.aclosing(getattr(store, kind)())


async def until_hearing(listener: Any, store: Store, admin: redis.Redis) -> None:
    """Wait until a subscription tells of a broker that comes up, and whose lease somebody deletes."""

    async def hears() -> bool:
        with contextlib.suppress(StoreUnavailable):
            await listener.wait(0.0)
            await store.register(broker(), [])
            admin.delete(store.keys.lease("broker-a", 0))
            return await listener.wait(0.2) is not None
        return False

    await await_until(hears, description="the subscription hears again")


@pytest.fixture
def notifying(own_server: EmbeddedServer) -> Iterator[redis.Redis]:
    """Return a plain client of the test's own server, which tells of keys that go away."""
    with redis.Redis.from_url(own_server.url) as admin:
        admin.config_set("notify-keyspace-events", "Kgxe")
        yield admin


@pytest.mark.parametrize("kind", KINDS)
async def test_who_was_refused_hears_as_soon_as_it_may(
    make_store: StoreMaker, own_server: EmbeddedServer, notifying: redis.Redis, kind: str
) -> None:
    rules = ("on", ">pw", "~*", "+@all", "resetchannels")
    notifying.execute_command("ACL", "SETUSER", "u", *rules)
    store = make_store(own_server.url.replace("//", "//u:pw@"))
    async with subscription(store, kind) as listener:

        async def refused() -> bool:
            with contextlib.suppress(StoreRefused):
                await listener.wait(0.2)
                return False
            return True

        for _ in range(3):
            await await_until(refused, description="the subscription is refused")
        notifying.execute_command("ACL", "SETUSER", "u", "allchannels")
        await until_hearing(listener, make_store(own_server.url), notifying)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_subscription_that_was_cut_off_begins_anew(
    make_store: StoreMaker, own_server: EmbeddedServer, notifying: redis.Redis, kind: str
) -> None:
    store = make_store(own_server.url)
    async with subscription(store, kind) as listener:
        await until_hearing(listener, store, notifying)
        notifying.client_kill_filter(_type="pubsub")
        await until_hearing(listener, store, notifying)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("timeout_s", [0.0, -0.001, -60.0])
async def test_a_wait_whose_time_is_over_only_looks(
    store: Store, admin: redis.Redis, kind: str, timeout_s: float
) -> None:
    async with subscription(store, kind) as listener:
        await listener.wait(0.05)
        async with asyncio.timeout(5):
            assert await listener.wait(timeout_s) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_subscription_holds_no_connection(
    make_store: StoreMaker, own_server: EmbeddedServer, notifying: redis.Redis, kind: str
) -> None:
    store = make_store(own_server.url)
    async with subscription(store, kind) as listener:
        await listener.wait(0.01)
        assert listeners(notifying) == 1
    wait_until(lambda: listeners(notifying) == 0, description="the connection is closed")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wait_that_is_cancelled_while_it_subscribes_spoils_nothing(kind: str) -> None:
    with quick() as server, redis.Redis.from_url(server.url) as admin:
        admin.config_set("notify-keyspace-events", "Kgxe")
        async with AsyncRouteStore.from_url(server.url) as store, subscription(store, kind) as listener:
            server.pause()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(listener.wait(5.0), 0.05)
            server.resume()
            await until_hearing(listener, store, admin)


def listeners(admin: redis.Redis) -> int:
    """Return how many connections of a server are subscribed to something."""
    return len(admin.client_list(_type="pubsub"))
