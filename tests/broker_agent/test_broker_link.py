"""What a TCP connection to the broker tells about its life."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from sharedroutes.broker_agent.broker_link import verdicts
from sharedroutes.broker_agent.events import BrokerGone, BrokerUp
from tests.broker_agent.stand_ins import ListeningBroker
from tests.support import await_until


class Heard:
    """The verdicts so far."""

    def __init__(self) -> None:
        self.all: list[BrokerUp | BrokerGone] = []

    async def count(self, count: int) -> None:
        """Wait for that many verdicts."""
        await await_until(lambda: len(self.all) >= count, description=f"{count} verdicts")

    def kinds(self) -> list[type]:
        """Return up or gone, in order."""
        return [type(verdict) for verdict in self.all]


@asynccontextmanager
async def linked(port: int, deadline_s: float = 10.0) -> AsyncIterator[Heard]:
    heard = Heard()

    async def listen() -> None:
        found = verdicts("127.0.0.1", port, deadline_s=deadline_s, attempts=2, rng=random.Random(1))
        async for verdict in found:
            heard.all.append(verdict)

    task = asyncio.create_task(listen())
    try:
        yield heard
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_broker_that_listens_is_up() -> None:
    broker = ListeningBroker()
    await broker.start()
    async with linked(broker.port) as heard:
        await heard.count(1)
    assert heard.all == [BrokerUp()]
    await broker.die()


async def test_a_broker_that_does_not_listen_is_gone_and_then_up() -> None:
    broker = ListeningBroker()
    async with linked(broker.port) as heard:
        await heard.count(1)
        await broker.start()
        await heard.count(2)
    assert heard.kinds() == [BrokerGone, BrokerUp]
    assert isinstance(heard.all[0], BrokerGone)
    assert f"127.0.0.1:{broker.port}" in heard.all[0].why
    await broker.die()


async def test_a_broker_that_closes_the_connection_is_not_gone() -> None:
    broker = ListeningBroker()
    await broker.start()
    async with linked(broker.port) as heard:
        for connections in range(1, 4):
            await await_until(lambda: broker.accepted == connections, description="connected again")  # noqa: B023 - awaited here
            broker.hang_up()
        await await_until(lambda: broker.accepted == 4, description="connected again")
    assert heard.all == [BrokerUp()]
    await broker.die()


async def test_a_broker_that_dies_is_gone_at_once_and_up_when_it_is_back() -> None:
    broker = ListeningBroker()
    await broker.start()
    async with linked(broker.port) as heard:
        await await_until(lambda: broker.accepted, description="connected")
        await broker.die()
        await heard.count(2)
        await broker.start()
        await heard.count(3)
    assert heard.kinds() == [BrokerUp, BrokerGone, BrokerUp]
    await broker.die()


async def test_a_broker_that_does_not_answer_is_gone_after_some_attempts() -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, socket.socket() as queued:
        port = deaf.getsockname()[1]
        queued.settimeout(0)
        await loop.sock_connect(queued, ("127.0.0.1", port))  # the queue is full now: no more handshakes
        began_s = loop.time()
        async with linked(port, deadline_s=0.05) as heard:
            await heard.count(1)
        assert loop.time() - began_s >= 2 * 0.05
    assert heard.kinds() == [BrokerGone]


async def test_a_connection_to_itself_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(("127.0.0.1", 0))
        port = own.getsockname()[1]
        own.connect(("127.0.0.1", port))
        own.settimeout(0)
        open_connection = asyncio.open_connection

        async def connected_to_itself(*_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await open_connection(sock=own.dup())

        monkeypatch.setattr(asyncio, "open_connection", connected_to_itself)
        async with linked(port) as heard:
            await heard.count(1)
    assert heard.all == [BrokerGone(f"127.0.0.1:{port}: nobody listens")]
