"""What a front does with the registrations of brokers, on a real Redis."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import orjson
import pytest
import redis

from sharedroutes.nameserver import bodies, registrar
from sharedroutes.nameserver.front import Front
from sharedroutes.registry import Broker, RouteStore
from sharedroutes.registry.keys import Keys
from sharedroutes.remoting import (
    RequestCode,
    ResponseCode,
)
from sharedroutes.remoting.broker.owner import OwnerFound, probe_owner
from tests.broker_agent.speaking_broker import SpeakingBroker, topic
from tests.nameserver.rig import BrokerPeer, Peer, records, running
from tests.registry.builders import topics
from tests.support import await_until

KEYS = Keys("sharedroutes")


def queues(broker_name: str) -> dict[str, object]:
    numbers = {"perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2}
    return {"brokerName": broker_name, **numbers}


async def test_a_broker_that_starts_at_three_fronts_at_once_is_one_owner_and_says_it_once(
    redis_url: str, admin: redis.Redis
) -> None:
    async with running(redis_url) as one, running(redis_url) as two, running(redis_url) as three:
        broker = BrokerPeer()
        broker.topics = {f"t{number}": topic(f"t{number}") for number in range(700)}
        answers = await asyncio.gather(*(broker.register(front) for front in (one, two, three)))
        assert [answer.code for answer in answers] == [0, 0, 0]
        told = [record["kind"] for record in records(admin)]
        assert told == ["topics"] * 3 + ["up"]
        for _ in range(3):
            await asyncio.gather(*(broker.register(front) for front in (one, two, three)))
        assert len(records(admin)) == len(told)


async def test_beside_an_agent_a_registration_writes_nothing_and_fences_nobody(
    redis_url: str, admin: redis.Redis
) -> None:
    with RouteStore.from_url(redis_url) as agent:
        held = agent.register(Broker("broker-a", "127.0.0.1:10911"), topics(3))
        before = records(admin)
        async with running(redis_url) as one, running(redis_url) as two:
            broker = BrokerPeer()
            for front in (one, two, one):
                assert (await broker.register(front)).code == 0
            assert records(admin) == before
            assert agent.heartbeat(held) == "ok"
            broker.die()
            await await_until(
                lambda: not admin.exists(KEYS.sessions("broker-a", 0)), description="sessions are over"
            )
            assert agent.heartbeat(held) == "ok"


async def test_beside_an_agent_a_large_registration_is_read_once(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, bodies_read = bodies.registration, list[bytes]()

    def counted(body: bytes, **more: Any) -> bodies.RegisterBody:
        bodies_read.append(body)
        return read(body, **more)

    monkeypatch.setattr(bodies, "registration", counted)
    with RouteStore.from_url(redis_url) as agent:
        agent.register(Broker("broker-a", "127.0.0.1:10911"), topics(3))
        async with running(redis_url) as front:
            broker = BrokerPeer()
            broker.topics = {f"topic-{number}": topic(f"topic-{number}") for number in range(1_000)}
            for _ in range(3):
                assert (await broker.register(front)).code == 0
    assert len(bodies_read) == 1


async def test_a_part_of_the_table_adds_and_changes_and_removes_nothing(redis_url: str) -> None:
    async with running(redis_url) as one, running(redis_url) as two:
        broker = BrokerPeer()
        broker.topics = {name: topic(name) for name in ("a", "b", "c")}
        await broker.register(one)
        broker.version["counter"] = 2
        broker.topics["b"] = topic("b", writeQueueNums=8)
        broker.topics["d"] = topic("d")
        await broker.register(two, ["b"])
        await broker.register(two, ["d"])
        await broker.register(one)
        for name, queues in (("a", 4), ("b", 8), ("c", 4), ("d", 4)):
            route = await Peer(one).route(name)
            assert route is not None
            assert route["queueDatas"][0]["writeQueueNums"] == queues, name


async def test_what_another_front_has_written_is_not_written_again(
    redis_url: str, admin: redis.Redis
) -> None:
    async with running(redis_url) as one, running(redis_url) as two:
        broker = BrokerPeer()
        broker.topics = {name: topic(name) for name in "abc"}
        await broker.register(one)
        await broker.register(two)
        broker.topics |= {"d": topic("d"), "e": topic("e")}
        for part in ("d", "e"):
            await broker.register(one, part)
        told = records(admin)
        for part in ("d", "e", "abcde"):
            await broker.register(two, part)
        assert records(admin) == told


async def test_who_comes_back_after_its_end_has_what_it_says_now(redis_url: str) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        broker.topics = {name: topic(name) for name in "abc"}
        await broker.register(front)
        await broker.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, broker.fields)
        del broker.topics["a"]
        await broker.register(front)
        assert await Peer(front).route("a") is None
        assert await Peer(front).route("b") is not None


async def test_a_front_forgets_the_tables_of_brokers_that_are_gone(redis_url: str) -> None:
    def tables() -> int:
        gc.collect()
        return sum(type(one) is registrar._Known for one in gc.get_objects())

    before = tables()
    async with running(redis_url) as front:
        for number in range(20):
            broker = BrokerPeer(f"broker-{number}", f"127.0.0.1:{11_000 + number}")
            await broker.register(front)
            if number % 2:
                await broker.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, broker.fields)
            elif number:
                broker.die()
        await await_until(lambda: tables() - before == 1, description="one table is left")


async def test_who_comes_back_to_its_group_or_with_one_topic_takes_nothing_away(redis_url: str) -> None:
    async with running(redis_url) as front:
        master, slave = BrokerPeer(), BrokerPeer(address="127.0.0.1:10921", broker_id=1)
        for broker in (master, slave):
            broker.topics = {name: topic(name) for name in "abc"}
        await slave.register(front)
        await master.register(front, "ab")
        assert await Peer(front).route("c") is not None
        await slave.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, slave.fields)
        await master.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, master.fields)
        await master.register(front, "a")
        assert await Peer(front).route("b") is not None
        await master.peers[front.name].ask(RequestCode.UNREGISTER_BROKER, master.fields)
        await slave.register(front, "bc")
        assert await Peer(front).route("a") is None
        assert await Peer(front).route("c") is not None


async def test_a_table_in_parts_loses_no_change_in_any_order(redis_url: str) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        broker.topics = {name: topic(name) for name in "abcdef"}
        await broker.register(front, "abc")
        await broker.register(front, "def")
        broker.version["counter"] = 2
        for name in "abcdef":
            broker.topics[name] = topic(name, readQueueNums=6)
        await broker.register(front, "def")
        await broker.register(front, "abc")
        for name in "abcdef":
            route = await Peer(front).route(name)
            assert route is not None
            assert route["queueDatas"][0]["readQueueNums"] == 6, name


async def test_all_at_once_can_be_told_to_remove_what_is_missing(redis_url: str) -> None:
    async with running(redis_url, delete_topic_with_registration="true") as front:
        broker = BrokerPeer()
        broker.topics = {name: topic(name) for name in "ab"}
        await broker.register(front)
        del broker.topics["a"]
        await broker.register(front)
        assert await Peer(front).route("a") is None
        assert await Peer(front).route("b") is not None


async def test_one_topic_of_a_broker_is_registered(redis_url: str) -> None:
    async with running(redis_url) as front:
        await BrokerPeer().register(front)
        row = {
            "brokerName": "broker-a",
            "perm": 6,
            "readQueueNums": 2,
            "topicSysFlag": 0,
            "writeQueueNums": 2,
        }
        body = orjson.dumps({"queueDatas": [row]})
        answer = await Peer(front).ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "new"}, body)
        assert answer.code == 0
        route = await Peer(front).route("new")
        assert route is not None
        assert route["queueDatas"] == [row]


async def test_a_topic_of_an_unknown_broker_is_an_error_and_not_half_done(redis_url: str) -> None:
    async with running(redis_url) as front:
        await BrokerPeer().register(front)
        body = orjson.dumps({"queueDatas": [queues("broker-a"), queues("no-such")]})
        answer = await Peer(front).ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "new"}, body)
        assert (answer.code, answer.remark) == (1, "no-such: no live master of this name")
        assert await Peer(front).route("new") is None


@pytest.mark.parametrize("number", [" 1", "1_0", "\u0663", "1\n", "", "1.0", "9" * 5_000])
async def test_what_java_reads_as_no_number_is_none(redis_url: str, number: str) -> None:
    async with running(redis_url) as front:
        answer = await BrokerPeer().register(front, brokerId=number)
        assert answer.code == 1
        assert answer.remark is not None
        assert answer.remark.endswith("is no whole number")


async def test_a_body_that_cannot_be_read_leaves_nothing_of_its_broker(redis_url: str) -> None:
    async with running(redis_url) as front:
        peer = Peer(front)
        for number in range(300):
            fields = {**BrokerPeer(f"broker-{number}").fields, "brokerId": "0"}
            answer = await peer.ask(RequestCode.REGISTER_BROKER, fields, b"{")
            assert answer.code == 1
        assert answer.remark == "a connection may register 256 replicas: use another one"


async def test_a_slave_is_told_its_master_and_brings_no_topics(redis_url: str) -> None:
    async with running(redis_url) as front:
        await BrokerPeer().register(front)
        slave = BrokerPeer(address="127.0.0.1:10921", broker_id=1)
        slave.topics["of-a-slave"] = topic("of-a-slave")
        answer = await slave.register(front)
        assert answer.ext_fields == {"haServerAddr": "127.0.0.1:10912", "masterAddr": "127.0.0.1:10911"}
        assert await Peer(front).route("of-a-slave") is None
        route = await Peer(front).route("orders")
        assert route is not None
        assert set(route["brokerDatas"][0]["brokerAddrs"]) == {"0", "1"}


@pytest.mark.parametrize(("supports", "ids"), [("false", {"1"}), ("true", {"0"})])
async def test_a_slave_stands_in_where_that_is_on(redis_url: str, supports: str, ids: set[str]) -> None:
    async with running(redis_url, support_acting_master=supports) as front:
        master = BrokerPeer()
        master.fields["enableActingMaster"] = "true"
        await master.register(front)
        slave = BrokerPeer(address="127.0.0.1:10921", broker_id=1)
        slave.fields["enableActingMaster"] = "true"
        await slave.register(front)
        master.die()

        async def shown() -> set[str]:
            route = await Peer(front).route("orders")
            return set(route["brokerDatas"][0]["brokerAddrs"]) if route else set()

        await await_until(lambda: _is(shown, ids), description="the slave alone is there")
        route = await Peer(front).route("orders")
        assert route is not None
        assert route["queueDatas"][0]["perm"] == 4


async def _is(what: object, wanted: object) -> bool:
    assert callable(what)
    return bool(await what() == wanted)


async def test_two_live_brokers_of_one_name_and_id_are_an_error_that_names_the_owner(redis_url: str) -> None:
    async with running(redis_url) as front, SpeakingBroker() as owner, SpeakingBroker() as newcomer:
        await BrokerPeer(address=f"127.0.0.1:{owner.port}").register(front)
        answer = await BrokerPeer(address=f"127.0.0.1:{newcomer.port}").register(front)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"127.0.0.1:{owner.port}" in (answer.remark or "")


async def test_a_newcomer_takes_over_from_an_owner_that_is_gone(redis_url: str) -> None:
    async with running(redis_url) as front, SpeakingBroker() as newcomer:
        await BrokerPeer(address="127.0.0.1:1").register(front)  # nobody listens there
        assert (await BrokerPeer(address=f"127.0.0.1:{newcomer.port}").register(front)).code == 0

        async def address() -> object:
            route = await Peer(front).route("orders")
            return route and route["brokerDatas"][0]["brokerAddrs"]

        there = {"0": f"127.0.0.1:{newcomer.port}"}
        await await_until(lambda: _is(address, there), description="clients are told the newcomer")


@pytest.mark.parametrize(("renewals", "code", "times_asked"), [(2, 0, 3), (99, 1, 3)])
async def test_an_owner_whose_lease_was_renewed_meanwhile_is_asked_again(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, renewals: int, code: int, times_asked: int
) -> None:
    async with running(redis_url) as front, SpeakingBroker() as newcomer:
        gone, asked = BrokerPeer(address="127.0.0.1:1"), 0  # nobody listens there
        await gone.register(front)

        async def probe_and_renew(address: str, own_address: str) -> OwnerFound:
            nonlocal asked
            asked += 1
            found = await probe_owner(address, own_address)
            if asked <= renewals:  # as a front does that hears of the owner, or has lost its place
                await gone.peers[front.name].ask(RequestCode.BROKER_HEARTBEAT, gone.fields)
            return found

        monkeypatch.setattr(registrar, "probe_owner", probe_and_renew)
        answer = await BrokerPeer(address=f"127.0.0.1:{newcomer.port}").register(front)
        assert (answer.code, asked) == (code, times_asked)
        assert code == 0 or "127.0.0.1:1" in (answer.remark or "")


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"bodyCrc32": "5"}, "crc32 not match"),
        ({"brokerId": "first"}, "brokerId: 'first' is no whole number"),
        ({"brokerId": "-1"}, "brokerId"),
        ({"brokerAddr": "nowhere"}, "brokerAddr"),
    ],
)
async def test_a_registration_that_makes_no_sense_is_refused_by_name(
    redis_url: str, admin: redis.Redis, fields: dict[str, str], remark: str
) -> None:
    async with running(redis_url) as front:
        answer = await BrokerPeer().register(front, None, **fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert remark in (answer.remark or "")
        assert records(admin) == []


@pytest.mark.parametrize(("sums", "remark"), [(-1, "crc32 not match"), (0, "is no JSON")])
async def test_a_large_body_that_makes_no_sense_is_refused_by_its_checksum_first(
    redis_url: str, admin: redis.Redis, sums: int, remark: str
) -> None:
    body = b"{" + b" " * 100_000
    async with running(redis_url) as front:
        fields = {**BrokerPeer().fields, "bodyCrc32": str(bodies.crc32(body) + sums)}
        answer = await Peer(front).ask(RequestCode.REGISTER_BROKER, fields, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert remark in (answer.remark or "")
        assert records(admin) == []
        assert not admin.exists(KEYS.broker("broker-a"))


async def test_a_hundred_brokers_that_start_at_once_are_all_registered(redis_url: str) -> None:
    async with running(redis_url) as front:
        brokers = [BrokerPeer(f"broker-{number}", f"127.0.0.1:{20_000 + number}") for number in range(100)]
        answers = await asyncio.gather(*(broker.register(front) for broker in brokers))
        assert {answer.code for answer in answers} == {0}
        route = await Peer(front).route("orders")
        assert route is not None
        assert len(route["brokerDatas"]) == 100


@pytest.mark.parametrize("count", [1, 2])
async def test_what_a_broker_takes_back_is_gone_though_it_has_said_the_same_before(
    redis_url: str, count: int
) -> None:
    """With the same topics; at one front, and at another one that has not heard what came between."""
    async with running(redis_url) as first, running(redis_url) as second:
        between = (first, second)[count - 1]
        broker = BrokerPeer()
        at = broker.fields["brokerAddr"]

        async def says(front: Front, *servers: str) -> object:
            broker.filter_servers = [*servers]
            assert (await broker.register(front)).code == 0
            found = await Peer(front).route("orders")
            return found and found["filterServerTable"]

        assert await says(first) == {}
        assert await says(between, "127.0.0.1:9") == {at: ["127.0.0.1:9"]}
        assert await says(first) == {}


@pytest.mark.parametrize("count", [1, 2])
async def test_a_zone_that_a_broker_changes_and_changes_back_is_the_last_one(
    redis_url: str, count: int
) -> None:
    async with running(redis_url) as first, running(redis_url) as second:
        broker = BrokerPeer()
        for front, zone in ((first, "z1"), ((first, second)[count - 1], "z2"), (first, "z1")):
            assert (await broker.register(front, __ZONE_NAME=zone)).code == 0
            found = await Peer(front).route("orders")
            assert found is not None
            assert found["brokerDatas"][0]["zoneName"] == zone


async def test_a_broker_of_3x_that_names_no_filter_servers_keeps_those_that_it_has(redis_url: str) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        broker.filter_servers = ["127.0.0.1:9"]
        await broker.register(front)
        topics_alone = orjson.dumps({"topicConfigTable": broker.topics, "dataVersion": {"counter": 2}})
        answer = await Peer(front).ask(RequestCode.REGISTER_BROKER, broker.fields, topics_alone, version=36)
        assert answer.code == 0, answer.remark
        found = await Peer(front).route("orders")
        assert found is not None
        assert found["filterServerTable"] == {broker.fields["brokerAddr"]: ["127.0.0.1:9"]}
