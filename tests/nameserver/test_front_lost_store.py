"""What fronts bring back by themselves when the store has lost it."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import cast

import pytest
import redis

from sharedroutes.nameserver.front import _SETTLED_S, Front
from sharedroutes.registry import AsyncRouteStore, EmbeddedServer, StoreUnavailable
from sharedroutes.registry.keys import Keys
from sharedroutes.remoting import RequestCode
from tests.broker_agent.speaking_broker import SpeakingBroker, topic
from tests.nameserver.rig import BrokerPeer, Peer, gone_everywhere, records, running
from tests.proxy import FaultyProxy
from tests.support import await_until

KEYS = Keys("sharedroutes")
QUICK = {"hang_check": "0.1", "hang_deadline": "0.2"}


def lose_everything(server: EmbeddedServer) -> None:
    server.kill()
    server.start()


async def stored(server: EmbeddedServer) -> set[tuple[str, str]]:
    """Return the topics of each broker as they are in the store itself."""
    async with AsyncRouteStore.from_url(server.url) as store:
        routes = await store.routes(("orders", "bills"))
        return {(row.broker_name, name) for name, route in routes.items() for row in route.queue_datas}


async def await_stored(server: EmbeddedServer, wanted: set[tuple[str, str]]) -> None:
    async def is_there() -> bool:
        return await stored(server) == wanted

    await await_until(is_there, description=f"the store has {wanted}")


async def delete(front: Front, name: str) -> None:
    await Peer(front).ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": name})


async def test_a_topic_that_was_deleted_and_is_made_again_is_there(own_server: EmbeddedServer) -> None:
    async with running(own_server.url) as front:
        broker = BrokerPeer()
        broker.topics["bills"] = topic("bills")
        await broker.register(front)
        await delete(front, "bills")
        await broker.register(front, ["orders"])
        assert await Peer(front).route("bills") is None
        await broker.register(front)
        assert await Peer(front).route("bills") is not None


async def test_what_is_deleted_after_the_store_came_back_empty_is_gone_at_once(
    own_server: EmbeddedServer,
) -> None:
    async with running(own_server.url) as one, running(own_server.url) as two:
        broker = BrokerPeer()
        broker.topics["bills"] = topic("bills")
        await asyncio.gather(broker.register(one), broker.register(two))
        assert await Peer(two).route("bills") is not None
        lose_everything(own_server)
        with redis.Redis.from_url(own_server.url) as admin:
            await await_until(lambda: admin.zcard(KEYS.fronts) == 2, description="both fronts are there")
        broker.topics["orders"]["writeQueueNums"] = 9
        broker.version["counter"] += 1
        for front in (one, two):  # each has brought back what it knew before it takes in a registration
            await broker.register(front)
        for front in (one, two):  # from then on its feed tells it of what is deleted
            await await_until(lambda: has_queues(front, 9), description="it has read all again")  # noqa: B023
        await delete(one, "bills")
        for front in (one, two):
            await await_until(
                lambda: gone_everywhere("bills", front),  # noqa: B023 - called in this round
                timeout_s=10,
                description="the route is gone long before the guard's 30 s have passed",
            )
            assert await Peer(front).route("orders") is not None


async def test_a_store_that_comes_back_empty_is_filled_again_while_brokers_say_nothing(
    own_server: EmbeddedServer,
) -> None:
    async with running(own_server.url) as one, running(own_server.url) as two:
        at_both, at_one = BrokerPeer("broker-a"), BrokerPeer("broker-b", "127.0.0.1:10921")
        at_both.topics["bills"] = topic("bills")
        await asyncio.gather(at_both.register(one, ["orders"]), at_both.register(two, ["orders"]))
        await at_both.register(one, ["bills"])
        await at_one.register(two)
        lose_everything(own_server)
        await await_stored(
            own_server, {("broker-a", "orders"), ("broker-a", "bills"), ("broker-b", "orders")}
        )
        for front in (one, two):
            assert await Peer(front).route("orders") is not None
        # The sessions are there again, too: who dies now is out.
        at_one.die()
        await await_stored(own_server, {("broker-a", "orders"), ("broker-a", "bills")})


async def test_a_connection_that_a_store_has_lost_is_as_old_there_as_it_was(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-open one would else look as if the broker had just connected, and lived."""
    held = KEYS.sessions("broker-a", 0)
    async with running(own_server.url) as front:
        await BrokerPeer().register(front)
        monkeypatch.setattr("sharedroutes.nameserver.sessions.monotonic", lambda: monotonic() + 60)
        lose_everything(own_server)
        await await_stored(own_server, {("broker-a", "orders")})
        with redis.Redis.from_url(own_server.url) as admin:
            await await_until(lambda: admin.exists(held), description="its session is there again")
            (said,) = cast(list[bytes], admin.hvals(held))
            now_us = 1_000_000 * cast(tuple[int, int], admin.time())[0]
    assert int(said.split()[0]) < now_us - 50_000_000


@pytest.mark.parametrize("fronts", [1, 2])
async def test_a_change_of_one_topic_that_an_empty_store_hears_of_first_brings_the_others_along(
    own_server: EmbeddedServer, fronts: int
) -> None:
    async with running(own_server.url) as one, running(own_server.url) as two:
        broker, at = BrokerPeer(), (one, two)[:fronts]
        broker.topics["bills"] = topic("bills")
        await asyncio.gather(*(broker.register(front) for front in at))
        with redis.Redis.from_url(own_server.url) as admin:
            admin.flushall()
        await asyncio.gather(*(broker.register(front, ["bills"]) for front in at))
        await await_stored(own_server, {("broker-a", "orders"), ("broker-a", "bills")})


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_broker_that_says_goodbye_while_it_is_brought_back_is_out(
    own_server: EmbeddedServer, *, is_lost: bool
) -> None:
    async with running(own_server.url) as front:
        for number in range(10):
            broker = BrokerPeer()
            await broker.register(front)
            goodbye = broker.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, broker.fields)
            if is_lost:
                with redis.Redis.from_url(own_server.url) as admin:
                    admin.flushall()
            restoring = asyncio.create_task(front._registrar.restore())
            await asyncio.sleep(number / 2_000)
            await goodbye
            await restoring
            assert await Peer(front).route("orders") is None


async def test_nothing_of_a_restore_goes_on_when_it_has_failed(own_server: EmbeddedServer) -> None:
    def restoring() -> list[str]:
        works = [repr(task.get_coro()) for task in asyncio.all_tasks()]
        return [work for work in works if "Registrar.restore" in work or "Registrar._restore" in work]

    async with running(own_server.url, call_deadline="0.3") as front:
        for number in range(20):
            await BrokerPeer(f"broker-{number}", f"127.0.0.1:{10_000 + number}").register(front)
        own_server.pause()
        try:
            with pytest.raises(StoreUnavailable):
                await front._registrar.restore()
            assert not restoring()
        finally:
            own_server.resume()


async def test_what_was_deleted_is_not_brought_back(own_server: EmbeddedServer) -> None:
    async with running(own_server.url) as one, running(own_server.url) as two:
        broker = BrokerPeer()
        broker.topics["bills"] = topic("bills")
        await asyncio.gather(broker.register(one), broker.register(two))
        await delete(one, "bills")
        await await_until(lambda: is_gone(two, "bills"), description="the other front has heard")
        lose_everything(own_server)
        await await_stored(own_server, {("broker-a", "orders")})


async def has_queues(front: Front, number: int) -> bool:
    route = await Peer(front).route("orders")
    return route is not None and bool(route["queueDatas"][0]["writeQueueNums"] == number)


async def is_gone(front: Front, name: str) -> bool:
    return await Peer(front).route(name) is None


async def test_a_broker_that_hangs_is_not_brought_back(own_server: EmbeddedServer) -> None:
    async with SpeakingBroker() as process, running(own_server.url, **QUICK) as front:
        hanging, other = BrokerPeer("broker-a", f"127.0.0.1:{process.port}"), BrokerPeer("broker-b")
        hanging.topics = {"bills": topic("bills")}
        await hanging.register(front)
        await other.register(front)
        await await_until(lambda: process.asked[34] > 1, description="it was asked")
        process.hangs = True
        await await_until(lambda: is_gone(front, "bills"), description="it is out")
        lose_everything(own_server)
        await await_stored(own_server, {("broker-b", "orders")})
        await asyncio.sleep(1.5)
        assert await stored(own_server) == {("broker-b", "orders")}


async def test_a_broker_that_was_taken_out_meanwhile_stays_out_when_a_front_reaches_the_store_again(
    own_server: EmbeddedServer,
) -> None:
    with FaultyProxy(own_server.port) as proxy:
        async with (
            SpeakingBroker() as process,
            running(own_server.url, **QUICK) as one,
            running(proxy.url, **QUICK, call_deadline="1") as other,
        ):

            def age_s() -> float:
                return other.status().feed_age_s or 0.0

            broker = BrokerPeer(address=f"127.0.0.1:{process.port}")
            await asyncio.gather(broker.register(one), broker.register(other))
            await await_until(lambda: process.asked[34] > 1, description="it was asked")
            with proxy.refusing():
                await await_until(
                    lambda: age_s() > 3.0, timeout_s=20.0, description="its feed rests for long"
                )
                process.hangs = True
                await await_stored(own_server, set())
            await await_until(lambda: age_s() < 1.0, timeout_s=20.0, description="it has read what it missed")
            with redis.Redis.from_url(own_server.url) as admin:
                kinds = [record["kind"] for record in records(admin)]
            assert kinds.count("up") == 1


async def test_a_store_that_is_away_when_a_front_has_missed_changes_is_no_error(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(own_server.url) as front:
        own_server.kill()
        front._heard(None)

        def levels() -> list[int]:
            return [record.levelno for record in caplog.records if "be followed" in record.getMessage()]

        await await_until(levels, timeout_s=10, description="it is logged")
        assert levels() == [logging.WARNING]


@pytest.mark.parametrize("listing", ["brokers", "topics"])
async def test_a_listing_that_was_lost_has_a_broker_and_its_topics_again_when_it_registers(
    own_server: EmbeddedServer, listing: str
) -> None:
    async with running(own_server.url) as front, AsyncRouteStore.from_url(own_server.url) as store:
        broker = BrokerPeer()
        broker.topics["bills"] = topic("bills")
        await broker.register(front)
        with redis.Redis.from_url(own_server.url) as admin:
            admin.delete(getattr(KEYS, listing))
        await broker.register(front)
        assert [one.broker_name for one in await store.brokers()] == ["broker-a"]
        assert await store.topics() == ["bills", "orders"]


async def test_a_topic_that_cannot_be_listed_makes_no_registration_write_again(
    own_server: EmbeddedServer,
) -> None:
    async with running(own_server.url) as front:
        broker = BrokerPeer()
        broker.topics["bills"] = topic("bills")
        with redis.Redis.from_url(own_server.url) as admin:
            admin.lpush(KEYS.topic("orders"), "foreign")
            await broker.register(front)
            token = admin.hget(KEYS.broker("broker-a"), "token")
            await broker.register(front)
            assert admin.hget(KEYS.broker("broker-a"), "token") == token


async def test_a_front_follows_again_before_it_no_longer_waits_for_that(own_server: EmbeddedServer) -> None:
    async with running(own_server.url) as front:
        assert front._client.config.reconnect_s < _SETTLED_S
