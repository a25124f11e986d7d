"""Questions to a broker over its own protocol."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sharedroutes.remoting import FrameError, RemotingCommand, RequestCode, encode, request, response_to
from sharedroutes.remoting.broker.client import (
    BrokerClient,
    BrokerRefused,
    BrokerTimeout,
    BrokerUnreachable,
    configuration,
)
from sharedroutes.remoting.fastjson import loads
from tests.broker_agent.speaking_broker import SpeakingBroker, SpeakingProcess, topic
from tests.broker_agent.stand_ins import deaf_port
from tests.ports import free_port
from tests.support import await_until

DEADLINE_S = 10.0
SOON_S = 0.05
QUESTION = request(RequestCode.HEART_BEAT)
TOPICS = request(RequestCode.GET_ALL_TOPIC_CONFIG)


@asynccontextmanager
async def connected(broker: SpeakingBroker) -> AsyncIterator[BrokerClient]:
    async with broker, await connect(broker.port) as client:
        yield client


async def connect(port: int) -> BrokerClient:
    return await BrokerClient.connect("127.0.0.1", port, deadline_s=DEADLINE_S)


class Echo(asyncio.Protocol):
    """A peer that keeps what it is asked, so that the test answers it as it likes."""

    def __init__(self) -> None:
        self.received = b""
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def answer(self, *data: bytes) -> None:
        assert self.transport is not None
        self.transport.writelines(data)


@asynccontextmanager
async def facing() -> AsyncIterator[tuple[BrokerClient, Echo]]:
    """Connect a client with a peer that the test plays itself."""
    peer = Echo()
    server = await asyncio.get_running_loop().create_server(lambda: peer, "127.0.0.1", 0)
    try:
        async with await connect(server.sockets[0].getsockname()[1]) as client:
            await await_until(lambda: peer.transport, description="connected")
            yield client, peer
    finally:
        server.close()


def ask(client: BrokerClient, *codes: int) -> list[asyncio.Task[RemotingCommand]]:
    """Ask for something with each of the codes at the same time."""
    return [asyncio.create_task(client.invoke(request(code), deadline_s=DEADLINE_S)) for code in codes]


async def test_a_request_is_answered_also_with_an_error_code() -> None:
    async with connected(SpeakingBroker()) as client:
        assert (await client.invoke(QUESTION, deadline_s=DEADLINE_S)).code == 0
        assert (await client.invoke(request(9_999), deadline_s=DEADLINE_S)).code == 3


async def test_answers_out_of_order_reach_those_who_asked() -> None:
    async with facing() as (client, peer):
        answers = ask(client, 11, 12, 13)
        whole = sum(len(encode(request(code, opaque=1))) for code in (11, 12, 13))
        await await_until(lambda: len(peer.received) == whole, description="three requests")
        frames = [response_to(request(0, opaque=n), 100 + n) for n in (3, 1, 2)]
        peer.answer(*map(encode, frames))
        assert [(await answer).code for answer in answers] == [101, 102, 103]


async def test_an_answer_leaves_those_who_asked_later_waiting_for_theirs() -> None:
    async with facing() as (client, peer):
        first, later = ask(client, 11, 12)
        whole = sum(len(encode(request(code, opaque=1))) for code in (11, 12))
        await await_until(lambda: len(peer.received) == whole, description="two requests")
        peer.answer(encode(response_to(request(0, opaque=1), 101)))
        assert (await first).code == 101
        peer.answer(encode(response_to(request(0, opaque=2), 102)))
        assert (await later).code == 102


async def test_what_nobody_asked_for_is_ignored() -> None:
    async with facing() as (client, peer):
        peer.answer(encode(response_to(request(0, opaque=77), 5)), encode(request(40, opaque=1)))
        (answer,) = ask(client, 11)
        await await_until(lambda: peer.received, description="the request")
        peer.answer(encode(response_to(request(0, opaque=1), 6)))
        assert (await answer).code == 6


async def test_an_answer_that_does_not_come_is_waited_for_until_the_deadline() -> None:
    broker = SpeakingBroker()
    broker.hang()
    async with connected(broker) as client:
        with pytest.raises(
            BrokerTimeout, match=rf"^{broker.address}: no answer to HEART_BEAT within 0.05 s$"
        ):
            await client.invoke(QUESTION, deadline_s=SOON_S)


async def test_a_late_answer_is_given_to_nobody() -> None:
    async with facing() as (client, peer):
        with pytest.raises(BrokerTimeout):
            await client.invoke(QUESTION, deadline_s=SOON_S)
        (second,) = ask(client, 11)
        peer.answer(*(encode(response_to(request(0, opaque=n), 100 + n)) for n in (1, 2)))
        assert (await second).code == 102


async def test_the_end_of_the_connection_wakes_everybody() -> None:
    broker = SpeakingBroker()
    broker.hang()
    async with connected(broker) as client:
        waiting = [*ask(client, 21, 26, 9_999), asyncio.create_task(client.closed())]
        await await_until(lambda: broker.asked.total() == 3, description="all were asked")
        broker.hang_up()
        *answers, end = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [BrokerUnreachable] * 3
        names = ("GET_ALL_TOPIC_CONFIG", "GET_BROKER_CONFIG", "request 9999")
        for answer, name in zip(answers, names, strict=True):
            assert str(answer).startswith(f"{broker.address}: {name}: no answer before the connection ended")
        assert end


async def test_a_request_on_a_connection_that_has_ended_is_refused() -> None:
    async with connected(broker := SpeakingBroker()) as client:
        await await_until(lambda: broker.accepted, description="connected")
        broker.hang_up()
        await client.closed()
        with pytest.raises(BrokerUnreachable, match="HEART_BEAT: the connection has ended"):
            await client.invoke(QUESTION, deadline_s=DEADLINE_S)


async def test_who_waits_gets_an_error_when_the_connection_is_ended_here() -> None:
    async with facing() as (client, _):
        (answer,) = ask(client, 11)
        await asyncio.sleep(0)
        client.abort()
        with pytest.raises(BrokerUnreachable, match="closed here"):
            await answer
        assert await client.closed() == "closed here"


async def test_bytes_that_are_no_frame_end_the_connection_and_are_named() -> None:
    async with facing() as (client, peer):
        first, second = ask(client, 11, 12)
        await await_until(lambda: peer.received, description="the requests")
        peer.answer(encode(response_to(request(0, opaque=1), 5)) + b"HTTP/1.1 400 Bad Request\r\n")
        assert (await first).code == 5
        with pytest.raises(BrokerUnreachable, match=r"frame: length \d+ \(b'HTTP'\)"):
            await second
        assert "(b'HTTP')" in await client.closed()


async def test_a_request_that_no_frame_can_carry_is_sent_nowhere() -> None:
    async with connected(SpeakingBroker()) as client:
        with pytest.raises(FrameError):
            await client.invoke(request(2**31), deadline_s=DEADLINE_S)
        assert (await client.invoke(QUESTION, deadline_s=DEADLINE_S)).code == 0


async def test_a_cancelled_request_leaves_the_connection_as_it_was() -> None:
    broker = SpeakingBroker()
    broker.hang()
    async with connected(broker) as client:
        (answer,) = ask(client, 21)
        await await_until(lambda: broker.asked, description="asked")
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        broker.wake()
        assert (await client.invoke(QUESTION, deadline_s=DEADLINE_S)).code == 0


async def test_a_port_where_nobody_listens_refuses() -> None:
    port = free_port()
    with pytest.raises(BrokerUnreachable, match=rf"^127.0.0.1:{port}: Connection refused$") as caught:
        await connect(port)
    assert caught.value.refused


async def test_a_host_with_several_addresses_refuses_when_all_of_them_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def two(_: object, port: int, **__: object) -> list[tuple[object, ...]]:
        addresses = ("127.0.0.1", "127.0.0.2")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
    with pytest.raises(BrokerUnreachable) as caught:
        await BrokerClient.connect("broker.example", free_port(), deadline_s=DEADLINE_S)
    assert caught.value.refused


@pytest.mark.parametrize("host", ["-nobody-", "no..host", "x" * 64])
async def test_a_host_that_cannot_exist_is_named(host: str) -> None:
    with pytest.raises(BrokerUnreachable, match=rf"^{re.escape(host)}:10911: \w") as caught:
        await BrokerClient.connect(host, 10911, deadline_s=DEADLINE_S)
    assert not caught.value.refused


async def test_a_host_that_does_not_answer_is_waited_for_until_the_deadline() -> None:
    async with deaf_port() as port:
        with pytest.raises(BrokerTimeout, match=r"no connection within 0\.05 s"):
            await BrokerClient.connect("127.0.0.1", port, deadline_s=SOON_S)


async def test_the_system_looks_whether_the_other_host_is_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    create_connection, transports = loop.create_connection, []

    async def created(*args: Any, **kwargs: Any) -> Any:
        transport, protocol = await create_connection(*args, **kwargs)
        transports.append(transport)
        return transport, protocol

    monkeypatch.setattr(loop, "create_connection", created)
    async with facing():
        connection = transports[0].get_extra_info("socket")
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_an_answer_longer_than_rocketmq_s_own_limit_is_read() -> None:
    broker = SpeakingBroker()
    broker.pages = False
    broker.create("T", attributes={"x": "y" * 17_000_000})
    async with connected(broker) as client:
        answer = await client.call(TOPICS, deadline_s=DEADLINE_S)
    assert len(loads(answer.body)["topicConfigTable"]["T"]["attributes"]["x"]) == 17_000_000


async def test_a_refusal_says_what_the_broker_says() -> None:
    broker = SpeakingBroker()
    broker.refusals[21] = (16, " no signature\n")
    expected = f"^{broker.address}: GET_ALL_TOPIC_CONFIG was answered with code 16: no signature$"
    async with connected(broker) as client:
        with pytest.raises(BrokerRefused, match=expected):
            await client.call(TOPICS, deadline_s=DEADLINE_S)


async def test_the_settings_of_a_running_broker_are_the_text_that_it_sends() -> None:
    broker = SpeakingBroker()
    broker.settings = {"brokerName": "broker-a", "brokerId": "0"}
    async with connected(broker) as client:
        assert await configuration(client, DEADLINE_S) == b"brokerId=0\nbrokerName=broker-a\n"


async def test_a_broker_in_a_process_of_its_own_answers_too() -> None:
    with SpeakingProcess(topics={"T1": topic("T1")}) as broker:
        async with await connect(broker.port) as client:
            answer = await client.call(TOPICS, deadline_s=DEADLINE_S)
            assert list(loads(answer.body)["topicConfigTable"]) == ["T1"]
            broker.serve(settings={"brokerId": "1"})

            async def tells() -> bool:
                return await configuration(client, DEADLINE_S) == b"brokerId=1\n"

            await await_until(tells, description="it serves the new settings")


async def test_an_answer_that_was_there_counts_though_this_process_stood_still() -> None:
    with SpeakingProcess() as broker:
        async with await connect(broker.port) as client:
            asking = asyncio.create_task(client.invoke(QUESTION, deadline_s=SOON_S))
            await asyncio.sleep(0)  # it has been sent, and nothing was received yet
            time.sleep(1.0)  # noqa: ASYNC251 - the deadline passes while the answer arrives
            assert (await asking).code == 0
