"""Who a front keeps alive and who it takes out, on a real Redis and with brokers that hang and die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import redis

from sharedroutes.nameserver.bodies import crc32
from sharedroutes.nameserver.config import Current, FrontConfig
from sharedroutes.nameserver.front import Front
from sharedroutes.nameserver.prober import Prober
from sharedroutes.nameserver.sessions import Sessions
from sharedroutes.registry import (
    AsyncRouteStore,
    Broker,
    EmbeddedServer,
    RouteStore,
    StoreUnavailable,
    TopicConfig,
    plans,
)
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import fronts
from sharedroutes.registry.plans.base import Plan
from sharedroutes.remoting import FrameReader, RequestCode, encode, request
from tests.broker_agent.speaking_broker import SpeakingBroker, topic
from tests.nameserver.rig import BrokerPeer, Peer, records, running
from tests.nameserver.server.rig import listening_for
from tests.proxy import FaultyProxy
from tests.support import await_until

T = TypeVar("T")

KEYS = Keys("sharedroutes")
QUICK = {"hang_check": "0.1", "hang_deadline": "0.2"}


async def is_served(*fronts: Front) -> bool:
    return all([await Peer(front).route("orders") for front in fronts])


async def is_gone(*fronts: Front) -> bool:
    return not any([await Peer(front).route("orders") for front in fronts])


def prober_of(store: AsyncRouteStore) -> Prober:
    """Return one that is as quick as QUICK, and not elected."""
    config = FrontConfig(hang_check_s=0.1, hang_deadline_s=0.2)
    return Prober(store, Current(config), random.Random(1))


@asynccontextmanager
async def brokers_and_fronts(url: str, **flags: str) -> AsyncIterator[tuple[SpeakingBroker, Front, Front]]:
    async with SpeakingBroker() as process, running(url, **flags) as one, running(url, **flags) as two:
        yield process, one, two


async def test_a_broker_that_dies_is_out_at_all_fronts_when_its_connections_close(redis_url: str) -> None:
    async with running(redis_url) as one, running(redis_url) as two:
        broker = BrokerPeer()
        await asyncio.gather(broker.register(one), broker.register(two))
        await await_until(lambda: is_served(one, two), description="both serve it")
        broker.die()
        await await_until(lambda: is_gone(one, two), description="both have heard")


async def test_a_broker_that_is_still_connected_to_one_front_stays(redis_url: str) -> None:
    async with running(redis_url) as one, running(redis_url) as two:
        broker = BrokerPeer()
        await asyncio.gather(broker.register(one), broker.register(two))
        broker.peers.pop(one.name).close()
        assert (await broker.register(two)).code == 0
        assert await is_served(one, two)


async def test_a_connection_that_closes_while_its_registration_is_written_leaves_nothing(
    redis_url: str, admin: redis.Redis
) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        registering = asyncio.ensure_future(broker.register(front))
        await asyncio.sleep(0)
        broker.die()
        await registering
        await await_until(
            lambda: not admin.exists(KEYS.sessions("broker-a", 0), KEYS.lease("broker-a", 0)),
            description="lease and session are gone",
        )


async def test_a_broker_that_connects_anew_before_the_old_connection_is_seen_to_close_stays(
    redis_url: str,
) -> None:
    """apache/rocketmq#11043."""
    async with running(redis_url) as front:
        broker = BrokerPeer()
        await broker.register(front)
        old = broker.peers.pop(front.name)
        await broker.register(front)
        old.close()
        await broker.register(front)  # what the end of the old one began is done before this is answered
        assert await is_served(front)


async def test_a_front_that_ends_takes_no_broker_with_it(redis_url: str) -> None:
    async with running(redis_url) as other:
        async with running(redis_url) as one:
            await BrokerPeer().register(one)
        assert await is_served(other)


async def test_a_broker_that_says_goodbye_is_out_at_once(redis_url: str) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        await broker.register(front)
        peer = broker.peers[front.name]
        assert (await peer.ask(104, {**broker.fields, "brokerId": "7"})).code == 0  # its address counts
        assert await is_gone(front)


async def test_a_broker_that_hangs_is_out_though_its_connections_are_open_and_back_when_it_wakes(
    redis_url: str,
) -> None:
    async with brokers_and_fronts(redis_url, **QUICK) as (process, one, two):
        broker = BrokerPeer(address=f"127.0.0.1:{process.port}")
        await asyncio.gather(broker.register(one), broker.register(two))
        await await_until(lambda: is_served(one, two), description="both serve it")
        await await_until(
            lambda: one.status().is_prober or two.status().is_prober, description="one of them asks"
        )
        await hang_until_out(process, one, two)
        process.wake()
        await await_until(
            lambda: is_served(one, two), description="it is back, though it registered not again"
        )


async def test_a_broker_that_its_agent_watches_is_left_to_the_agent(redis_url: str) -> None:
    async with brokers_and_fronts(redis_url, **QUICK) as (process, one, two):
        broker = BrokerPeer(address=f"127.0.0.1:{process.port}")
        with RouteStore.from_url(redis_url) as agent:
            held = agent.register(Broker("broker-a", f"127.0.0.1:{process.port}"), [TopicConfig("orders")])
            await broker.register(one)
            await await_until(lambda: process.asked[34] > 1, description="it was asked")
            process.hangs = True
            for _ in range(5):
                await asyncio.sleep(0.2)
                assert agent.heartbeat(held) == "ok"
            assert await is_served(one, two)


async def test_a_front_that_is_no_longer_elected_asks_nobody_of_whom_it_reads_too_late(
    redis_url: str,
) -> None:
    def tasks(begin: str) -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if task.get_name().startswith(f"sharedroutes: {begin}")]

    async with SpeakingBroker() as process, running(redis_url, hang_check="0") as front:
        await BrokerPeer(address=f"127.0.0.1:{process.port}").register(front)
        async with AsyncRouteStore.from_url(redis_url) as store:
            prober = prober_of(store)
            prober.elect(is_elected=True)
            await asyncio.sleep(0)  # it reads
            prober.elect(is_elected=False)
            await await_until(lambda: not tasks("prober"), description="it has read")
            assert not tasks("asks")


@pytest.mark.parametrize("hang_check", ["0", "5"])
async def test_brokers_with_acting_masters_are_told_who_has_the_lowest_id(
    redis_url: str, admin: redis.Redis, hang_check: str
) -> None:
    """RocketMQ: NOTIFY_MIN_BROKER_ID_CHANGE, when the master goes and when it is back."""
    flags = {"hang_check": hang_check, "notify_min_broker_id_changed": "true"}
    async with SpeakingBroker() as process, running(redis_url, **flags) as front:
        acts = {"enableActingMaster": "true"}
        master, at = BrokerPeer(), f"127.0.0.1:{process.port}"
        slave = BrokerPeer(address=at, broker_id=1)
        await master.register(front, **acts)
        await slave.register(front, **acts)
        await await_until(lambda: admin.exists(KEYS.prober), description="it speaks for all")
        gone = {"minBrokerId": "1", "minBrokerAddr": at, "offlineBrokerAddr": "127.0.0.1:10911"}
        back = {"minBrokerId": "0", "minBrokerAddr": "127.0.0.1:10911", "haBrokerAddr": "127.0.0.1:10912"}
        master.die()
        await await_until(lambda: process.told == [gone], description="that the master is gone")
        await master.register(front, **acts)
        await await_until(lambda: process.told == [gone, back], description="that it is back")


async def hang_until_out(process: SpeakingBroker, *fronts: Front) -> None:
    await await_until(lambda: process.asked[34] > 1, description="it was asked")
    process.hangs = True
    await await_until(lambda: is_gone(*fronts), description="it is out")


async def test_a_broker_that_was_out_is_not_brought_back_by_another_one_at_its_address(
    redis_url: str,
) -> None:
    async with SpeakingBroker() as process, running(redis_url, **QUICK) as front:
        address = f"127.0.0.1:{process.port}"
        former, latter = BrokerPeer(address=address), BrokerPeer("broker-b", address=address)
        await former.register(front)
        await hang_until_out(process, front)
        former.die()
        await latter.register(front)
        asked = process.asked[34]
        process.wake()
        await await_until(lambda: process.asked[34] > asked + 12, description="it answers for some rounds")
        route = await Peer(front).route("orders")
        assert route is not None
        assert [row["brokerName"] for row in route["queueDatas"]] == ["broker-b"]


async def test_a_broker_that_was_out_and_says_goodbye_stays_out(redis_url: str) -> None:
    async with SpeakingBroker() as process, SpeakingBroker() as beside, running(redis_url, **QUICK) as front:
        broker = BrokerPeer(address=f"127.0.0.1:{process.port}")
        other = BrokerPeer("broker-b", address=f"127.0.0.1:{beside.port}")
        await broker.register(front)
        await hang_until_out(process, front)
        assert (await broker.peers[front.name].ask(104, broker.fields)).code == 0
        process.wake()
        await other.register(front)
        await await_until(lambda: beside.asked[34] > 12, description="the front acts for some rounds")
        route = await Peer(front).route("orders")
        assert route is not None
        assert [row["brokerName"] for row in route["queueDatas"]] == ["broker-b"]


async def test_a_broker_that_dies_right_after_a_front_is_out_when_that_front_is_known_to_be_dead(
    redis_url: str,
) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        await broker.register(front)
        async with AsyncRouteStore.from_url(redis_url) as store:
            await store.run(fronts.front_beat(store.config, "killed", 3_000))
            plan = fronts.vouch(
                store.config, Broker("broker-a", broker.fields["brokerAddr"]), "killed.1", anew=True
            )
            assert isinstance(await store.run(plan), fronts.Vouched)
        broker.die()
        await await_until(lambda: is_gone(front), description="nobody who lives has it")


async def test_what_the_store_could_not_be_told_of_is_made_up_for(own_server: EmbeddedServer) -> None:
    async with running(own_server.url, call_deadline="0.3") as front:
        broker = BrokerPeer()
        await broker.register(front)
        own_server.pause()
        broker.die()
        await asyncio.sleep(0.4)
        own_server.resume()
        await await_until(lambda: is_gone(front), description="the broker is out")


async def test_who_gave_up_before_the_store_was_back_does_not_come_and_go_before_who_waits(
    own_server: EmbeddedServer,
) -> None:
    async with running(own_server.url, call_deadline="1") as front:
        broker = BrokerPeer()
        own_server.kill()
        asked = []
        for _ in range(4):
            broker.die()
            asked.append(asyncio.create_task(broker.register(front)))
            await asyncio.sleep(0)
        assert (await asked[0]).code == 1
        own_server.start()
        assert (await asked[-1]).code == 0
        assert await is_served(front)
        with redis.Redis.from_url(own_server.url) as admin:
            kinds = [record["kind"] for record in records(admin)]
        assert kinds.count("down") == 0


@pytest.mark.parametrize("waits_still", [False, True])
async def test_who_registers_on_another_connection_stays_when_the_former_one_was_closed(
    own_server: EmbeddedServer, *, waits_still: bool
) -> None:
    broker, lease = Broker("broker-a", "127.0.0.1:1"), KEYS.lease("broker-a", 0)
    held = KEYS.sessions("broker-a", 0)
    async with running(own_server.url) as front, AsyncRouteStore.from_url(own_server.url) as store:
        former, waits = Peer(front), Peer(front)
        await store.run(plans.register(store.config, broker, {}, admit=False, joint=True))
        await store.run(fronts.vouch(store.config, broker, f"f1.{former.number}", anew=True))
        sessions = Sessions(store, "f1", lambda **_: None, random.Random(1))
        for connection in (former,) if waits_still else (former, waits):
            with sessions.in_use(connection.number):
                sessions.open(connection.number, broker)
        with redis.Redis.from_url(own_server.url) as admin:
            with sessions.registering(waits, broker):
                sessions.closed(former)
                await await_until(lambda: not admin.exists(held), description="its session has ended")
                assert admin.exists(lease)
                sessions.open(waits.number, broker)
            sessions.closed(waits)
            await await_until(lambda: not admin.exists(lease), description="it is out")


@pytest.mark.parametrize("policy", ["serve", "ask", "refuse"])
async def test_without_the_store_routes_are_answered_by_policy(
    own_server: EmbeddedServer, policy: str
) -> None:
    async with running(own_server.url, when_stale=policy, stale="0.5", call_deadline="0.3") as front:
        await BrokerPeer().register(front)
        assert await is_served(front)
        own_server.kill()

        async def is_as_wanted() -> bool:
            answer = await Peer(front).ask(105, {"topic": "orders"})
            if policy == "refuse":
                return answer.code == 1 and "name server not ready" in (answer.remark or "")
            return answer.code == 0 and (front.status().feed_age_s or 0) > 1

        await await_until(is_as_wanted, description="it answers as it was told to")


async def test_who_gave_up_at_a_port_before_the_store_was_back_does_not_come_and_go(
    own_server: EmbeddedServer,
) -> None:
    async with (
        running(own_server.url, call_deadline="1") as front,
        listening_for(front, quick=front) as (_, port),
    ):
        broker = BrokerPeer()
        broker.topics |= {f"topic-{number}": topic(f"topic-{number}") for number in range(600)}
        body = broker.body()
        fields = {**broker.fields, "bodyCrc32": str(crc32(body))}
        frame = encode(request(RequestCode.REGISTER_BROKER, fields, body=body))
        own_server.pause()
        for number in range(4):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame)
            await writer.drain()
            await asyncio.sleep(0.05)  # the front reads it, and nothing tells
            if number < 3:  # it gives up, and connects anew
                writer.close()
                await writer.wait_closed()
        own_server.resume()
        (answer,) = FrameReader().feed(await asyncio.wait_for(reader.read(65_536), 10.0))
        with redis.Redis.from_url(own_server.url) as admin:
            kinds = [record["kind"] for record in records(admin)]
        writer.close()
        await writer.wait_closed()
        assert answer.code == 0
        assert kinds.count("down") == 0


async def test_a_goodbye_that_the_store_did_not_take_is_made_up_for_when_the_connection_closes(
    own_server: EmbeddedServer,
) -> None:
    async with running(own_server.url, hang_check="0") as front:
        broker = BrokerPeer()
        await broker.register(front)
        with redis.Redis.from_url(own_server.url) as admin:
            admin.config_set("min-replicas-to-write", 1)  # as while no replica is there: reads are answered
            answer = await broker.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, broker.fields)
            broker.die()
            admin.config_set("min-replicas-to-write", 0)
        assert answer.code == 1
        await await_until(lambda: is_gone(front), description="the broker is out")


async def test_a_front_restores_once_at_a_time_while_the_store_is_slow(own_server: EmbeddedServer) -> None:
    beats, restores, is_over = 0, 0, asyncio.Event()

    def beaten(*, is_elected: bool) -> None:
        nonlocal beats
        beats += 1

    async def restore() -> None:
        nonlocal restores
        restores += 1
        await is_over.wait()

    with FaultyProxy(own_server.port) as proxy, proxy.slow(0.15):
        async with AsyncRouteStore.from_url(proxy.url) as store:
            sessions = Sessions(store, "front-1", beaten, random.Random(1))
            with sessions.in_use(1):
                sessions.open(1, Broker("broker-a", "127.0.0.1:1"))
            await sessions.start(restore)
            await await_until(lambda: beats == 3, timeout_s=20.0, description="three slow beats")
            assert restores == 1
            is_over.set()
            await await_until(lambda: restores == 2, description="what was lost meanwhile is looked for")
            await sessions.aclose()


class LossyStore(AsyncRouteStore):
    """A store that is away once when it is asked something, or when it has done it."""

    before = after = ""
    """The name of what it was asked."""

    async def run(self, plan: Plan[T], **more: Any) -> T:
        """Run it, and lose the answer, or lose what is asked."""
        name = plan.__qualname__  # type: ignore[attr-defined]
        if name == self.before:
            self.before = ""
            plan.close()
            raise StoreUnavailable("not reached")
        found = await super().run(plan, **more)
        if name == self.after and found:
            self.after = ""
            raise StoreUnavailable("no answer")
        return found


@pytest.mark.parametrize("lost", [{"before": "register"}, {"after": "release"}], ids=str)
async def test_a_broker_that_wakes_up_is_back_although_the_store_was_away_once(
    redis_url: str, lost: dict[str, str]
) -> None:
    async with SpeakingBroker() as process, running(redis_url, hang_check="0") as front:
        await BrokerPeer(address=f"127.0.0.1:{process.port}").register(front)
        async with LossyStore.from_url(redis_url) as store:
            vars(store).update(lost)
            prober = prober_of(store)
            prober.elect(is_elected=True)
            await await_until(lambda: process.asked[34] > 1, description="it was asked")
            process.hangs = True
            await await_until(lambda: is_gone(front), description="it is out")
            process.wake()
            await await_until(lambda: is_served(front), timeout_s=10.0, description="it is back")
            await prober.aclose()
            assert not store.before + store.after


async def test_a_broker_that_is_out_is_back_when_it_wakes_up_although_a_beat_has_failed(
    own_server: EmbeddedServer,
) -> None:
    async with SpeakingBroker() as process, running(own_server.url, **QUICK, call_deadline="1") as front:
        await BrokerPeer(address=f"127.0.0.1:{process.port}").register(front)
        await await_until(lambda: process.asked[34] > 1, description="it was asked")
        process.hangs = True
        await await_until(lambda: is_gone(front), description="it is out")
        own_server.pause()
        await await_until(lambda: not front.status().is_prober, description="a beat has failed")
        own_server.resume()
        await await_until(lambda: front.status().is_prober, description="it asks again")
        process.wake()
        await await_until(lambda: is_served(front), timeout_s=10.0, description="it is back")


async def test_a_broker_that_has_spoken_is_taken_out_after_two_elections_in_a_row(redis_url: str) -> None:
    async with SpeakingBroker() as process, running(redis_url, hang_check="0") as front:
        await BrokerPeer(address=f"127.0.0.1:{process.port}").register(front)
        async with AsyncRouteStore.from_url(redis_url) as store:
            prober = prober_of(store)
            prober.elect(is_elected=True)
            await await_until(lambda: process.asked[34] > 2, description="it has answered")
            prober.elect(is_elected=False)
            process.hangs = True
            prober.elect(is_elected=True)
            await asyncio.sleep(0)  # it reads whom to ask
            prober.elect(is_elected=False)
            prober.elect(is_elected=True)
            await await_until(lambda: is_gone(front), timeout_s=10.0, description="it is out")
            await prober.aclose()


async def test_a_front_that_has_closed_is_not_elected_by_a_late_beat(redis_url: str) -> None:
    async with AsyncRouteStore.from_url(redis_url) as store:
        prober = prober_of(store)
        await prober.aclose()
        prober.elect(is_elected=True)
        assert not prober.is_asking
