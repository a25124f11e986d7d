"""Connections over a transport that only takes notes, and servers on both event loops."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from sharedroutes.nameserver.server.connection import Connection, Service
from sharedroutes.nameserver.server.limits import Counters, Limits
from sharedroutes.nameserver.server.listener import RemotingServer
from sharedroutes.nameserver.server.peer_connection import ConnectionContext, PeerConnection
from sharedroutes.remoting import (
    FrameReader,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    encode,
    request,
    response_to,
)

Answer: TypeAlias = bytes | Awaitable[RemotingCommand | None] | None

ROUTE: Final = RequestCode.GET_ROUTEINFO_BY_TOPIC


def answered(asked: RemotingCommand, body: bytes = b"") -> bytes:
    """Return the frame of a successful answer."""
    return encode(response_to(asked, ResponseCode.SUCCESS, body=body))


class Answers:
    """A service that says its name for every request, unless a test has something else to say."""

    def __init__(self, answer: Callable[[RemotingCommand], Answer] = answered) -> None:
        self.answer_to = answer
        self.asked: list[RemotingCommand] = []
        self.connections: list[Connection] = []
        self.ended: list[int] = []

    def answer(self, request: RemotingCommand, connection: Connection) -> Answer:
        self.asked.append(request)
        self.connections.append(connection)
        return self.answer_to(request)

    def closed(self, connection: Connection) -> None:
        self.ended.append(connection.number)


class Later:
    """Answers that a test gives when it likes, by the opaque of their request."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[RemotingCommand | None]] = {}

    def __call__(self, asked: RemotingCommand) -> Answer:
        answer: asyncio.Future[RemotingCommand | None] = asyncio.get_running_loop().create_future()
        self.waiting[asked.opaque] = answer
        return answer

    async def give(self, opaque: int, answer: RemotingCommand | Exception | None = None) -> None:
        """Give an answer, and let the connection write it."""
        waiting = self.waiting.pop(opaque)
        if isinstance(answer, Exception):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer or RemotingCommand(code=ResponseCode.SUCCESS))
        for _ in range(3):
            await asyncio.sleep(0)


class NotedTransport(asyncio.Transport):
    """Takes what is written at once, or leaves it unread when it is told to."""

    def __init__(self, protocol: PeerConnection) -> None:
        super().__init__()
        self._protocol = protocol
        self.written: list[bytes] = []
        self.takes = True
        self.unread_bytes = 0
        self.high = 0
        self.is_paused = False
        self.is_closed = False
        self.is_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002
        self.high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.written.append(bytes(data))
        if not self.takes:
            was_full = self.unread_bytes > self.high
            self.unread_bytes += len(data)
            if self.unread_bytes > self.high and not was_full:
                self._protocol.pause_writing()

    def take(self, count: int | None = None) -> None:
        """Let the peer read so many bytes, or all of them."""
        was_full = self.unread_bytes > self.high
        self.unread_bytes -= self.unread_bytes if count is None else count
        if was_full and self.unread_bytes <= self.high // 4:
            self._protocol.resume_writing()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class Peer:
    """One connection, and the peer that a test plays."""

    def __init__(self, context: ConnectionContext, host: str = "10.0.0.1") -> None:
        self.connection = PeerConnection(context, f"{host}:5000", context.places.take(host))
        self.transport = NotedTransport(self.connection)
        self.connection.connection_made(self.transport)
        self._reader = FrameReader()

    def sends(self, data: bytes) -> None:
        """Bring bytes, as the event loop would."""
        while data and not self.transport.is_closed:
            into = self.connection.get_buffer(-1)
            size = min(len(data), len(into))
            into[:size], data = data[:size], data[size:]
            self.connection.buffer_updated(size)

    def asks(self, *opaques: int, code: int = ROUTE, **given: Any) -> None:
        """Send requests in one read."""
        self.sends(b"".join(encode(request(code, opaque=opaque, **given)) for opaque in opaques))

    def leaves(self) -> None:
        """End the connection, or note that our end has done so."""
        self.transport.is_closed = True
        self.connection.connection_lost(None)

    def got(self) -> list[RemotingCommand]:
        """Return the answers since the last look."""
        data, self.transport.written = b"".join(self.transport.written), []
        return self._reader.feed(data)

    def opaques(self) -> list[int]:
        return [answer.opaque for answer in self.got()]


class Stage:
    """A context whose clock the test moves."""

    def __init__(self, service: Answers | None = None, **limits: Any) -> None:
        self.now_s = 1_000.0
        self.service = service or Answers()
        self.context = ConnectionContext(self.service, Limits(**limits), lambda: self.now_s)

    def peer(self, host: str = "10.0.0.1") -> Peer:
        return Peer(self.context, host)

    def passes(self, seconds: float) -> None:
        """Let time go by, and the server look at the times of its connections."""
        self.now_s += seconds
        for connection in tuple(self.context.connections):
            connection.check(self.now_s)

    def endings(self) -> dict[str, int]:
        """Return how many connections were ended for which reasons."""
        return {str(why): count for why, count in self.context.counters.endings.items() if count}


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"], name="runner")
def both_loops(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """Return the runner of this test's event loop: each test runs on both."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if request.param == "uvloop":
        if sys.platform == "win32" or sys.implementation.name != "cpython":
            pytest.skip("uvloop is for CPython on POSIX")
        import uvloop  # noqa: PLC0415

        factory = uvloop.new_event_loop
    runner = asyncio.Runner(loop_factory=factory)
    yield runner
    runner.close()


@dataclass(slots=True)
class Serving:
    """A server on loopback."""

    server: RemotingServer
    port: int
    service: Answers

    @property
    def counters(self) -> Counters:
        return self.server.counters

    def endings(self) -> dict[str, int]:
        """Return how many connections were refused or ended for which reasons."""
        return {str(why): count for why, count in self.counters.endings.items() if count}


@asynccontextmanager
async def listening_for(service: Service, **given: Any) -> AsyncIterator[tuple[RemotingServer, int]]:
    """Serve at a port of the loopback for a block; what is given is the server's, or of its limits."""
    limits = Limits(**{name: given.pop(name) for name in tuple(given) if name in Limits.__slots__})
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = RemotingServer(service, listening, limits=limits, **given)
    port = listening.getsockname()[1]
    await server.start()
    try:
        yield server, port
    finally:
        await server.stop(0.0)


@asynccontextmanager
async def serving(service: Answers | None = None, **given: Any) -> AsyncIterator[Serving]:
    """Serve so what answers by a list, unless it is given."""
    service = service or Answers()
    async with listening_for(service, **given) as (server, port):
        yield Serving(server, port, service)


class Caller:
    """A client of a server, on a socket of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader()
        self._arrived: list[RemotingCommand] = []

    @classmethod
    @asynccontextmanager
    async def of(cls, port: int, **given: Any) -> AsyncIterator[Caller]:
        """Connect for a block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, **given)
        caller = cls(reader, writer)
        try:
            yield caller
        finally:
            writer.transport.abort()

    @property
    def address(self) -> str:
        host, port = self._writer.get_extra_info("sockname")
        return f"{host}:{port}"

    @property
    def socket(self) -> socket.socket:
        found: socket.socket = self._writer.get_extra_info("socket")
        return found

    async def sends(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> RemotingCommand:
        """Return the next answer; raises EOFError when there will be none."""
        while not self._arrived:
            data = await self._reader.read(65_536)
            if not data:
                raise EOFError
            self._arrived += self._frames.feed(data)
        return self._arrived.pop(0)

    async def asks(self, opaque: int = 1, code: int = ROUTE, **given: Any) -> RemotingCommand:
        """Send a request, and return the next answer."""
        await self.sends(encode(request(code, opaque=opaque, **given)))
        return await self.answer()

    async def is_closed(self) -> bool:
        """Wait until the server ends the connection without another word."""
        try:
            return not await self._reader.read(1)
        except ConnectionError:
            return True
