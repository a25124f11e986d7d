"""A client that hears pulses reads the store less often, and notices as soon what it did not hear of."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import redis

from sharedroutes.registry import RouteStore, Sweeper
from tests.client.clients import HOUR_S, AnyClient, OwnStage, calls, until_in_place
from tests.fix_redis import PATIENT
from tests.proxy import FaultyProxy
from tests.support import await_until

_SLOW_TAIL_S = 0.5


def pulsing_store(own: OwnStage) -> RouteStore:
    return RouteStore.from_url(own.server.url, PATIENT.__class__(sweeper_lease_s=0.1, call_deadline_s=15.0))


def pulse_of(client: AnyClient) -> float | None:
    core = cast(Any, client)._core
    at: float | None = core.known.stream.pulse_at
    return at


async def heard_more_pulses(client: AnyClient, count: int) -> None:
    seen = {pulse_of(client)}

    def heard_all() -> bool:
        seen.add(pulse_of(client))
        return len(seen) > count

    await await_until(heard_all, description="pulses were heard")


async def has_brokers(client: AnyClient, count: int) -> bool:
    return len((await client.route("t0")).broker_datas) == count


async def test_a_client_that_hears_pulses_asks_nothing_and_is_as_sure(own: OwnStage) -> None:
    own.register("broker-a")
    settings = {"tail_s": 30.0, "proven_tail_s": HOUR_S, "refresh_s": HOUR_S}
    with pulsing_store(own) as store, redis.Redis.from_url(own.server.url) as admin, Sweeper(store):
        async with own.client(**settings) as client:
            await client.route("t0")
            await until_in_place(client)
            await heard_more_pulses(client, 2)
            reads, lookups = calls(admin, "xrange"), calls(admin, "mget")
            first = pulse_of(client)
            await heard_more_pulses(client, 10)
            assert (calls(admin, "xrange"), calls(admin, "mget")) == (reads, lookups)
            confirmed = (await client.route("t0")).as_of
            assert first is not None
            assert confirmed is not None
            assert confirmed > first


async def test_a_change_whose_doorbell_was_lost_is_found_though_pulses_were_heard_before(
    own: OwnStage,
) -> None:
    own.register("broker-a")
    settings = {"tail_s": _SLOW_TAIL_S, "proven_tail_s": HOUR_S, "refresh_s": HOUR_S}
    with FaultyProxy(own.server.port) as proxy, pulsing_store(own) as store, Sweeper(store):
        async with own.make_client(proxy.url, **settings) as client:
            await client.route("t0")
            await until_in_place(client)
            await heard_more_pulses(client, 3)
            assert proxy.abandon(b"SUBSCRIBE") == 1
            own.register("broker-b")
            await await_until(
                partial(has_brokers, client, 2),
                description="the change was found without a doorbell",
            )


async def test_without_a_sweeper_the_leases_are_looked_at_as_often_as_ever(own: OwnStage) -> None:
    own.register("broker-a", "broker-b")
    settings = {"tail_s": 0.05, "proven_tail_s": HOUR_S, "refresh_s": HOUR_S}
    with redis.Redis.from_url(own.server.url) as admin:
        async with own.client(**settings) as client:
            await client.route("t0")
            await until_in_place(client)
            admin.delete(own.agent.keys.lease("broker-b", 0))  # nobody announces it
            await await_until(
                partial(has_brokers, client, 1),
                description="the end of the lease was seen",
            )
