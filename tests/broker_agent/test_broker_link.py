"""What a TCP connection to the broker tells about its life."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from sharedroutes.remoting import RequestCode
from sharedroutes.remoting.broker.liveness import verdicts
from sharedroutes.remoting.broker.probing import BrokerGone, BrokerUp, Probing, Rules, Verdict
from tests.broker_agent.follower import Told, followed_by
from tests.broker_agent.speaking_broker import SpeakingBroker, SpeakingProcess
from tests.broker_agent.stand_ins import ListeningBroker, deaf_port
from tests.proxy import FaultyProxy
from tests.support import await_until

EAGER: Final[dict[str, Any]] = {"check_s": 0.02, "deadline_s": 0.3}
"""Asks often, and soon thinks that the broker hangs."""

PATIENT: Final[dict[str, Any]] = {"check_s": 0.02, "deadline_s": 30.0}
"""Asks often, and takes a slow machine for none that hangs."""


class Verdicts(Told[Verdict]):
    """The verdicts so far."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.probing = Probing(rules)

    async def answer(self) -> None:
        """Wait until the broker has answered for the first time."""
        await await_until(lambda: self.probing.speaks, timeout_s=20, description="an answer")

    def kinds(self) -> list[type]:
        """Return up or gone, in order."""
        return [type(verdict) for verdict in self.all]


class OtherProtocol(asyncio.Protocol):
    """A server that answers in lines, whatever it is told."""

    def __init__(self, connections: set[OtherProtocol]) -> None:
        self._connections = connections
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connections.add(self)

    def data_received(self, _: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(b"no such command\n")

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.discard(self)


@asynccontextmanager
async def linked(port: int, host: str = "127.0.0.1", **settings: Any) -> AsyncIterator[Verdicts]:
    deadline_s = settings.pop("connect_s", 10.0)
    found = Verdicts(Rules(**({"attempts": 2} | settings)))
    link = verdicts(host, port, found.probing, deadline_s=deadline_s, rng=random.Random(1))
    async with followed_by(link, found):
        yield found


async def test_a_broker_that_listens_is_up() -> None:
    async with ListeningBroker() as broker, linked(broker.port) as found:
        await found.count(1)
    assert found.all == [BrokerUp()]


async def test_a_broker_that_does_not_listen_is_gone_and_then_up() -> None:
    broker = ListeningBroker()
    async with linked(broker.port, attempts=1_000_000) as found:
        await found.count(1)
        await broker.start()
        await found.count(2)
    assert found.kinds() == [BrokerGone, BrokerUp]
    assert isinstance(found.all[0], BrokerGone)
    assert f"127.0.0.1:{broker.port}" in found.all[0].why
    await broker.die()


async def test_a_broker_that_closes_the_connection_is_not_gone() -> None:
    async with ListeningBroker() as broker, linked(broker.port) as found:
        for connections in range(1, 4):
            await await_until(lambda: broker.accepted == connections, description="connected again")  # noqa: B023 - awaited here
            broker.hang_up()
        await await_until(lambda: broker.accepted == 4, description="connected again")
    assert found.all == [BrokerUp()]


async def test_a_broker_that_dies_is_gone_at_once_and_up_when_it_is_back() -> None:
    async with ListeningBroker() as broker, linked(broker.port) as found:
        await await_until(lambda: broker.accepted, description="connected")
        await broker.die()
        await found.count(2)
        await broker.start()
        await found.count(3)
    assert found.kinds() == [BrokerUp, BrokerGone, BrokerUp]


async def test_a_broker_that_does_not_answer_is_gone_after_some_attempts() -> None:
    clock = asyncio.get_running_loop().time
    async with deaf_port() as port:
        began_s = clock()
        async with linked(port, connect_s=0.05) as found:
            await found.count(1)
        assert clock() - began_s >= 2 * 0.05
    assert found.kinds() == [BrokerGone]


async def test_a_connection_to_itself_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(("127.0.0.1", 0))
        port = own.getsockname()[1]
        own.connect(("127.0.0.1", port))
        own.settimeout(0)
        loop = asyncio.get_running_loop()
        create_connection = loop.create_connection

        async def connected_to_itself(protocol: Any, *_: object, **__: object) -> Any:
            return await create_connection(protocol, sock=own.dup())

        monkeypatch.setattr(loop, "create_connection", connected_to_itself)
        async with linked(port) as found:
            await found.count(1)
    assert found.all == [BrokerGone(f"127.0.0.1:{port}: nobody listens")]


async def test_a_broker_that_answers_is_up_and_asked_again_and_again() -> None:
    async with SpeakingBroker() as broker, linked(broker.port, **PATIENT) as found:
        await await_until(lambda: broker.asked[RequestCode.HEART_BEAT] >= 5, description="asked")
        assert broker.accepted == 1
    assert found.all == [BrokerUp()]


async def test_any_answer_is_a_sign_of_life() -> None:
    async with SpeakingBroker() as broker:
        broker.refusals[RequestCode.HEART_BEAT] = (1, "an error")
        async with linked(broker.port, **PATIENT) as found:
            await await_until(lambda: broker.asked[RequestCode.HEART_BEAT] >= 5, description="asked")
        assert found.all == [BrokerUp()]


async def test_nothing_is_asked_unless_it_is_wanted() -> None:
    async with SpeakingBroker() as broker, linked(broker.port) as found:
        await found.count(1)
        broker.hang_up()
        await await_until(lambda: broker.accepted == 2, description="connected again")
        assert not broker.asked
        assert found.all == [BrokerUp()]


async def test_a_broker_that_hangs_with_its_port_open_is_gone_and_back_when_it_answers() -> None:
    async with SpeakingBroker() as broker, linked(broker.port, **EAGER) as found:
        await found.answer()
        broker.hang()
        await found.count(2)
        broker.wake()
        await found.count(3)
    assert found.kinds()[:3] == [BrokerUp, BrokerGone, BrokerUp]
    gone = found.all[1]
    assert isinstance(gone, BrokerGone)
    assert gone.why.startswith(f"{broker.address}: no answer to HEART_BEAT within 0.3 s, 3 times in a row")


async def test_what_never_answers_is_up_while_it_listens_and_that_it_is_not_asked_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    quick = EAGER | {"deadline_s": 0.02}
    async with ListeningBroker() as listening, linked(listening.port, **quick) as found:
        await await_until(lambda: found.probing.is_mute, description="taken for mute")
        await await_until(lambda: caplog.messages, description="said")
        assert found.kinds() == [BrokerUp]
        await listening.die()
        await found.count(2)
    assert found.kinds() == [BrokerUp, BrokerGone]
    (said,) = caplog.messages
    assert "only its connection is watched; not asked: it does not speak the protocol" in said


async def test_what_answers_in_another_protocol_is_up_while_it_listens() -> None:
    connections: set[OtherProtocol] = set()
    loop = asyncio.get_running_loop()
    async with await loop.create_server(lambda: OtherProtocol(connections), "127.0.0.1", 0) as server:
        async with linked(server.sockets[0].getsockname()[1], **(EAGER | {"deadline_s": 0.05})) as found:
            await await_until(lambda: found.probing.is_mute, description="taken for mute")
            assert found.kinds() == [BrokerUp]
        await await_until(lambda: not connections, description="closed")


async def test_few_connections_are_given_up_while_a_broker_hangs() -> None:
    async with SpeakingBroker() as broker, linked(broker.port, **(EAGER | {"deadline_s": 0.05})) as found:
        await found.answer()
        broker.hang()
        before = broker.asked[RequestCode.HEART_BEAT]
        await await_until(lambda: broker.asked[RequestCode.HEART_BEAT] >= before + 6, description="asked")
        # Three on the first connection, and one on each that has followed.
        assert broker.accepted <= broker.asked[RequestCode.HEART_BEAT] - before - 1
    assert found.kinds() == [BrokerUp, BrokerGone]


async def test_idle_connections_that_are_closed_mean_nothing_between_two_requests() -> None:
    async with SpeakingBroker() as broker:
        broker.idle_s = 0.02
        async with linked(broker.port, **(PATIENT | {"check_s": 0.1})) as found:
            await await_until(lambda: broker.asked[RequestCode.HEART_BEAT] >= 3, description="asked")
            assert broker.accepted >= 3
        assert found.all == [BrokerUp()]


async def test_a_broker_that_dies_is_gone_without_waiting_for_an_answer() -> None:
    async with SpeakingBroker() as broker:
        async with linked(broker.port, **(PATIENT | {"check_s": 3600.0})) as found:
            await found.count(1)
            await broker.die()
            await found.count(2)
            await broker.start()
            await found.count(3)
        assert found.kinds() == [BrokerUp, BrokerGone, BrokerUp]


async def test_a_connection_that_is_lost_without_a_word_is_replaced() -> None:
    async with SpeakingBroker() as broker:
        with FaultyProxy(broker.port) as proxy:
            async with linked(urlsplit(proxy.url).port or 0, **EAGER) as found:
                await found.answer()
                assert proxy.abandon(b"sharedroutes") == 1
                await found.count(3)
    assert found.kinds()[:3] == [BrokerUp, BrokerGone, BrokerUp]


def test_a_process_that_is_stopped_is_gone_and_back_when_it_goes_on() -> None:
    async def hear(broker: SpeakingProcess) -> list[type]:
        async with linked(broker.port, **EAGER) as found:
            await found.answer()
            broker.send(signal.SIGSTOP)
            await found.count(2)
            broker.send(signal.SIGCONT)
            await found.count(3)
            broker.kill()
            await await_until(lambda: found.kinds()[-1] is BrokerGone, description="gone again")
            return found.kinds()

    with SpeakingProcess() as broker:
        kinds = asyncio.run(hear(broker))
    assert kinds[:3] == [BrokerUp, BrokerGone, BrokerUp]


def test_a_process_that_is_killed_while_it_is_stopped_is_back_with_its_next_start() -> None:
    async def hear(broker: SpeakingProcess) -> None:
        async with linked(broker.port, **EAGER) as found:
            await found.answer()
            broker.send(signal.SIGSTOP)
            await found.count(2)
            broker.kill()
            await asyncio.to_thread(broker.start)
            await found.count(3)
            assert found.kinds()[:3] == [BrokerUp, BrokerGone, BrokerUp]

    with SpeakingProcess() as broker:
        asyncio.run(hear(broker))
