"""A network that fails: a TCP proxy in front of a server, whose faults a test begins and ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, get_args

T = TypeVar("T")

_LOOPBACK: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 65_536
_LOOK_S: Final = 0.01
_RESETS_WHEN_CLOSED: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, for 0 seconds

Direction: TypeAlias = Literal["requests", "replies"]

Connection: TypeAlias = tuple[int, int]
"""The port from which a client connected, and the proxy's."""

Whose: TypeAlias = Callable[[Collection[Connection]], Collection[Connection]]
"""Which of these connections a fault concerns."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """What happens for now on the connections that it concerns."""

    delay_s: float = 0.0
    swallows: Direction | None = None
    cut_after_bytes: int | None = None
    abandons: bool = False
    hangs: bool = False
    refuses: bool = False
    pause_a_byte_s: float | None = None


_NO_FAULT: Final = _Fault()


@dataclass(eq=False, slots=True)
class _Link:
    """A connection of a client, and the one to the server that belongs to it."""

    client: socket.socket
    ports: Connection
    server: socket.socket
    fault: _Fault
    abandoned: bool
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    requests: bytearray = field(default_factory=bytearray)
    replied_bytes: int = 0

    def suffer(self, fault: _Fault) -> None:
        """Let a fault begin here, in the place of the one before."""
        self.fault, self.replied_bytes = fault, 0
        self.abandoned = self.abandoned or fault.abandons
        (self.flowing.clear if fault.hangs else self.flowing.set)()


class FaultyProxy:
    """Carries bytes between clients and the server at a loopback port, in a thread of its own.

    Faults last as long as their block; `reset`, `abandon` and `lead_to` do something once. They concern all
    connections, and in a block of `concerning` only some, old and new ones.
    """

    def __init__(self, server_port: int, *, mirrors: bool = False) -> None:
        """`mirrors`: whether connections are refused while nobody listens at the server's port."""
        self._server_port = server_port
        self._mirrors = mirrors
        self._absence: asyncio.Task[None] | None = None
        self._reserved = _bound(0)  # holds the port while nobody listens, lest it be given to somebody else
        self._port: int = self._reserved.getsockname()[1]
        self._fault = _NO_FAULT
        self._whose: Whose = _everybody
        self._links: dict[_Link, asyncio.Task[None]] = {}
        self._listener: socket.socket | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty-proxy", daemon=True)

    @property
    def address(self) -> str:
        """Where clients find it: host and port."""
        return f"{_LOOPBACK}:{self._port}"

    @property
    def url(self) -> str:
        """The same as the URL of a store."""
        return f"redis://{self.address}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._await_server() if self._mirrors else self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._refuse())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._reserved.close()

    # --- faults -------------------------------------------------------------------------------------------

    def slow(self, delay_s: float) -> AbstractContextManager[None]:
        """Let every piece of a reply come so many seconds later."""
        return self._faulty(_Fault(delay_s=delay_s))

    def swallowing(self, direction: Direction) -> AbstractContextManager[None]:
        """Lose what is sent in one direction, without a word."""
        return self._faulty(_Fault(swallows=direction))

    def cutting(self, after_bytes: int) -> AbstractContextManager[None]:
        """Close every connection that has carried so many more bytes of replies."""
        return self._faulty(_Fault(cut_after_bytes=after_bytes))

    def abandoning(self) -> AbstractContextManager[None]:
        """Keep all connections, old and new, open without serving them, not even when the fault is over."""
        return self._faulty(_Fault(abandons=True))

    def hanging(self) -> AbstractContextManager[None]:
        """Carry nothing; what piled up is carried when the fault is over."""
        return self._faulty(_Fault(hangs=True))

    def dripping(self, pause_s: float) -> AbstractContextManager[None]:
        """Let every byte come alone, and so many seconds after the one before it."""
        return self._faulty(_Fault(pause_a_byte_s=pause_s))

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Close all connections and refuse new ones; those that a fault concerns are closed as they come."""
        if self._whose is not _everybody:
            with self._faulty(_Fault(refuses=True)):
                yield
            return
        self._run(self._refuse())
        try:
            yield
        finally:
            self._run(self._listen())

    @contextlib.contextmanager
    def concerning(self, whose: Whose) -> Iterator[None]:
        """Let the faults of this block concern some connections only."""
        before, self._whose = self._whose, whose
        try:
            yield
        finally:
            self._whose = before

    def count(self, whose: Whose) -> int:
        """Return how many connections of somebody are open."""
        return self._run(self._count(whose))

    def lead_to(self, server_port: int) -> None:
        """Carry every new connection to another server."""
        self._server_port = server_port

    def reset(self) -> None:
        """Reset all connections."""
        self._run(self._end_links(reset=True))

    def abandon(self, saying: bytes) -> int:
        """Keep connections whose requests have these bytes open without serving them; say how many."""
        return self._run(self._abandon(saying))

    # --- in the thread ------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @contextlib.contextmanager
    def _faulty(self, fault: _Fault) -> Iterator[None]:
        self._run(self._begin(fault))
        try:
            yield
        finally:
            self._run(self._begin(_NO_FAULT))

    async def _begin(self, fault: _Fault) -> None:
        self._fault = fault
        concerned = self._whose([link.ports for link in self._links])
        for link in self._links:
            link.suffer(fault if link.ports in concerned else _NO_FAULT)
        if fault.refuses:
            await self._end_links(reset=True)

    async def _abandon(self, saying: bytes) -> int:
        concerned = self._whose([link.ports for link in self._links])
        found = [link for link in self._links if link.ports in concerned and saying in link.requests]
        for link in found:
            link.abandoned = True
        return len(found)

    async def _listen(self) -> None:
        listener = _bound(self._port)
        listener.settimeout(0)
        listener.listen()
        self._listener = listener
        # Not sock_accept: a task that is cancelled when it has just accepted somebody would lose the socket.
        self._loop.add_reader(listener, self._accept, listener)

    async def _refuse(self) -> None:
        if self._absence is not None:
            self._absence.cancel()
            await asyncio.wait([self._absence])
        self._stop_listening()
        await self._end_links()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _await_server(self) -> None:
        """Listen no more, and begin to wait until the server does."""
        self._stop_listening()
        if self._absence is None:
            self._absence = self._loop.create_task(self._listen_with_server())

    async def _listen_with_server(self) -> None:
        while True:
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.settimeout(0)
                await self._loop.sock_connect(probe, (_LOOPBACK, self._server_port))
                break
            await asyncio.sleep(_LOOK_S)
        self._absence = None
        await self._listen()

    async def _count(self, whose: Whose) -> int:
        return len(whose([link.ports for link in self._links]))

    async def _end_links(self, *, reset: bool = False) -> None:
        concerned = self._whose([link.ports for link in self._links])
        ending = {link: task for link, task in self._links.items() if link.ports in concerned}
        for link, task in ending.items():
            if reset and link.client.fileno() >= 0:
                link.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS_WHEN_CLOSED)
            task.cancel()
        if ending:
            await asyncio.wait(ending.values())
        for link in ending:  # a task that was cancelled before its first step has closed nothing
            link.client.close()
            link.server.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):  # who came has gone again
            client, (_, port) = listener.accept()
            ports = port, self._port
            fault = self._fault if self._fault is not _NO_FAULT and self._whose([ports]) else _NO_FAULT
            if fault.refuses:
                client.close()
                return
            link = _Link(client, ports, socket.socket(), fault, fault.abandons)
            link.suffer(fault)
            self._links[link] = self._loop.create_task(self._serve(link))
            self._links[link].add_done_callback(partial(self._forget, link))

    def _forget(self, link: _Link, _: object) -> None:
        del self._links[link]

    async def _serve(self, link: _Link) -> None:
        with link.client, link.server, contextlib.suppress(OSError):
            link.client.settimeout(0)
            link.server.settimeout(0)
            try:
                await self._loop.sock_connect(link.server, (_LOOPBACK, self._server_port))
            except ConnectionRefusedError:
                if self._mirrors:
                    await self._await_server()
                raise
            pumps = [asyncio.create_task(self._pump(link, way)) for way in get_args(Direction)]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)  # a connection may end in a reset

    async def _pump(self, link: _Link, way: Direction) -> None:
        """Carry the bytes of one direction until the connection ends."""
        source, target = (link.client, link.server) if way == "requests" else (link.server, link.client)
        over = False
        while not over:
            await self._until_served(link)
            data = await self._loop.sock_recv(source, _CHUNK_BYTES)
            await self._until_served(link)
            fault, over = link.fault, not data
            if way == "requests":
                link.requests += data
            else:
                await asyncio.sleep(fault.delay_s)
                if fault.cut_after_bytes is not None:
                    data = data[: fault.cut_after_bytes - link.replied_bytes]
                    link.replied_bytes += len(data)
                    over = over or link.replied_bytes == fault.cut_after_bytes
            if fault.pause_a_byte_s is not None:
                await self._drip(target, data, fault.pause_a_byte_s)
            elif fault.swallows != way:
                await self._loop.sock_sendall(target, data)

    async def _drip(self, target: socket.socket, data: bytes, pause_s: float) -> None:
        for byte in data:
            await self._loop.sock_sendall(target, bytes((byte,)))
            await asyncio.sleep(pause_s)

    async def _until_served(self, link: _Link) -> None:
        await link.flowing.wait()
        if link.abandoned:
            await asyncio.Event().wait()


def _everybody(connections: Collection[Connection]) -> Collection[Connection]:
    return connections


def _bound(port: int) -> socket.socket:
    """Return a socket at a loopback port; several may be bound to one as long as a single one listens."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((_LOOPBACK, port))
    return made


Outage: TypeAlias = Callable[[FaultyProxy], AbstractContextManager[None]]

OUTAGES: Final[Mapping[str, Outage]] = {
    "refused": FaultyProxy.refusing,
    "hanging": FaultyProxy.hanging,
    "half-open": FaultyProxy.abandoning,
    "requests lost": lambda proxy: proxy.swallowing("requests"),
    "replies lost": lambda proxy: proxy.swallowing("replies"),
    "cut at once": lambda proxy: proxy.cutting(0),
    "cut in a reply": lambda proxy: proxy.cutting(20),
    "slower than the deadline": lambda proxy: proxy.slow(5.0),
}
"""Faults that no call gets through, by name; so slow that no pause of the machine lets IMPATIENT hear."""
