"""What a front answers brokers, clients and operators, on a real Redis."""

from __future__ import annotations

import random
from dataclasses import replace

import orjson
import pytest
import redis

from sharedroutes.nameserver import listings
from sharedroutes.nameserver.front import Front
from sharedroutes.registry import Broker, RouteStore
from sharedroutes.registry.keys import Keys
from sharedroutes.remoting import (
    RemotingCommand,
    RequestCode,
    ResponseCode,
    SerializeType,
    decode,
    encode,
    request,
)
from tests.nameserver.rig import BrokerPeer, Peer, running
from tests.support import await_until

KEYS = Keys("sharedroutes")


async def test_who_registers_is_in_the_next_answer(redis_url: str) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        assert await Peer(front).route("orders") is None
        assert (await broker.register(front)).code == 0
        route = await Peer(front).route("orders")
        assert route is not None
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
        assert route["queueDatas"][0]["writeQueueNums"] == 4


async def ready_at(front: Front) -> Peer:
    """Register a broker; return a connection to which the route of its topic is ready bytes."""
    await BrokerPeer().register(front)
    peer = Peer(front)
    for _ in range(2):  # the first answer may come from the store
        await peer.route("orders")
    return peer


async def test_a_repeated_request_is_answered_by_its_bytes_and_never_with_an_old_route(
    redis_url: str,
) -> None:
    asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, opaque=7)
    async with running(redis_url) as front:
        broker, peer = BrokerPeer(), Peer(front)
        front.learn(encode(asked), asked)
        assert front.quick_answer(encode(asked), peer) is None  # nobody has the topic
        await broker.register(front)
        await peer.route("orders")
        await peer.route("orders")  # the first answer may come from the store
        for opaque in (7, 0, 123_456, 2**31 - 1):
            learned, again = replace(asked, opaque=opaque), replace(asked, opaque=opaque ^ 1)
            front.learn(encode(learned), learned)  # the length of a frame is that of its opaque, too
            assert front.quick_answer(encode(again), peer) == front.answer(again, peer)
        broker.topics["orders"]["writeQueueNums"] = 9
        broker.version["counter"] += 1
        await broker.register(front)
        assert front.quick_answer(encode(asked), peer) is None
        assert (await peer.route("orders") or {})["queueDatas"][0]["writeQueueNums"] == 9
        assert front.quick_answer(encode(asked), peer) == front.answer(asked, peer)


@pytest.mark.parametrize(
    "number", [b"-7", b"07", b"7.0", b'"7"', b"", b"null", b"2147483648", b"7 ", b"\xb2"]
)
async def test_an_opaque_that_is_written_otherwise_is_left_to_the_decoder(
    redis_url: str, number: bytes
) -> None:
    asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, opaque=7)
    async with running(redis_url) as front:
        peer, frame = await ready_at(front), encode(asked)
        front.learn(frame, asked)
        assert front.quick_answer(frame, peer) is not None
        assert front.quick_answer(frame.replace(b'"opaque":7', b'"opaque":' + number), peer) is None


async def test_whatever_bytes_have_a_quick_answer_have_the_same_one_from_the_decoder(redis_url: str) -> None:
    rng, found = random.Random(20_261_122), 0
    async with running(redis_url) as front:
        peer = await ready_at(front)
        learned = [
            encode(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, opaque=opaque))
            for opaque in (7, 1_234_567_890)
        ]
        for frame in learned:
            front.learn(frame, decode(frame[4:]))
        for _ in range(3_000):
            data = bytearray(rng.choice(learned))
            near = data.index(b'"opaque":') + rng.randrange(20)
            for place in rng.choice(((near,), (near,), (near, rng.randrange(len(data))))):
                data[place] = rng.choice((*b'0123456789",:{} ', rng.randrange(256)))
            quick = front.quick_answer(bytes(data), peer)
            if quick is not None:
                found += 1
                assert quick == front.answer(decode(bytes(data[4:])), peer)
    assert found > 100


@pytest.mark.parametrize(
    "asked",
    [
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, oneway=True),
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders", "opaque": "0"}),
        request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, serialize_type=SerializeType.ROCKETMQ
        ),
        request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            {"topic": "orders", "__ZONE_MODE": "true", "__ZONE_NAME": "z"},
        ),
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC),
        request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"}),
    ],
)
async def test_what_is_more_than_a_question_for_a_route_is_not_learned(
    redis_url: str, asked: RemotingCommand
) -> None:
    async with running(redis_url) as front:
        peer = await ready_at(front)
        front.learn(encode(asked), asked)
        assert front.quick_answer(encode(asked), peer) is None


async def test_a_quick_answer_is_refused_to_whom_it_is_not_allowed(redis_url: str) -> None:
    asked = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
    async with running(redis_url, allow="127.0.0.1=*;10.0.0.0/8=106") as front:
        peer = await ready_at(front)
        front.learn(encode(asked), asked)
        assert front.quick_answer(encode(asked), peer) is not None
        assert front.quick_answer(encode(asked), Peer(front, "10.1.1.1:5")) is None


async def test_a_field_that_is_missing_is_named(redis_url: str) -> None:
    async with running(redis_url) as front:
        answer = await Peer(front).ask(RequestCode.REGISTER_BROKER, {"brokerName": "b"})
        assert (answer.code, answer.remark) == (1, "brokerAddr: the header lacks it")
        named = {"brokerName": "b", "brokerAddr": "127.0.0.1:10911"}
        answer = await Peer(front).ask(RequestCode.BROKER_HEARTBEAT, named)
        assert (answer.code, answer.remark) == (1, "clusterName: the header lacks it")


async def test_versions_are_compared_and_a_question_about_them_is_a_heartbeat(
    redis_url: str, admin: redis.Redis
) -> None:
    async with running(redis_url) as front:
        broker = BrokerPeer()
        broker.fields["heartbeatTimeoutMillis"] = "5000"
        peer = broker.connect(front)
        asked = RequestCode.QUERY_DATA_VERSION, broker.fields
        unknown = await peer.ask(*asked, orjson.dumps(broker.version))
        assert (unknown.ext_fields, unknown.body) == ({"changed": "true"}, b"")
        await broker.register(front)
        admin.pexpire(KEYS.lease("broker-a", 0), 1_000)
        same = await peer.ask(*asked, orjson.dumps(broker.version))
        assert (same.ext_fields, orjson.loads(same.body)) == ({"changed": "false"}, broker.version)
        assert (await peer.ask(*asked, b"null")).ext_fields == {"changed": "true"}
        of_another_id = {**broker.fields, "brokerId": "1"}
        found = await peer.ask(RequestCode.QUERY_DATA_VERSION, of_another_id, orjson.dumps(broker.version))
        assert found.ext_fields == {"changed": "false"}
        assert admin.pttl(KEYS.lease("broker-a", 0)) > 4_000
        admin.pexpire(KEYS.lease("broker-a", 0), 1_000)
        await peer.ask(RequestCode.BROKER_HEARTBEAT, broker.fields)
        assert admin.pttl(KEYS.lease("broker-a", 0)) > 4_000


@pytest.mark.parametrize("name", ["", " ", "two words", "t" * 1_000])
async def test_a_name_that_no_topic_can_have_is_a_topic_that_nobody_has(redis_url: str, name: str) -> None:
    async with running(redis_url) as front:
        answer = await Peer(front).ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST


async def test_lists_follow_the_table(redis_url: str) -> None:
    async with running(redis_url) as front:
        peer, broker = Peer(front), BrokerPeer()
        assert (await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body == b'{"topicList":[]}'
        await broker.register(front)
        listed = await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert listed.body == b'{"topicList":["orders"]}'
        system = await peer.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
        assert system.body == b'{"brokerAddr":"127.0.0.1:10911","topicList":["broker-a","c"]}'
        for cluster, names in (("c", b'"orders"'), ("", b""), ("nobody's", b"")):
            listed = await peer.ask(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
            assert listed.body == b'{"topicList":[%b]}' % names
        await peer.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "orders"})
        assert await peer.route("orders") is None
        assert (await peer.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body == b'{"topicList":[]}'


async def test_a_list_that_rebuild_puts_right_is_right_soon_although_no_change_tells_of_it(
    redis_url: str, admin: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "_KEPT_S", 0.2)
    async with running(redis_url) as front:
        with RouteStore.from_url(redis_url) as store:
            store.register(Broker("broker-a", "127.0.0.1:10911"), [])
        admin.delete(KEYS.brokers)

        async def is_listed() -> bool:
            return b"broker-a" in (await Peer(front).ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body

        assert not await is_listed()
        with RouteStore.from_url(redis_url) as store:
            assert [found.mended for found in store.admin.rebuild()] == [True]
        await await_until(is_listed, description="the broker is listed")


async def test_a_code_that_nobody_knows_is_refused_with_the_originals_words(redis_url: str) -> None:
    async with running(redis_url) as front:
        answer = await Peer(front).ask(12345)
        assert (answer.code, answer.remark) == (3, " request type 12345 not supported")
