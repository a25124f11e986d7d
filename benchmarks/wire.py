"""Counts what goes over the wire: a TCP proxy in front of a server, which knows one request from another."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Self

import hiredis

_LOOPBACK: Final = "127.0.0.1"
_AT_ONCE: Final = 65_536
_START_S: Final = 10.0


class Counts:
    """Requests and bytes, of requests and replies, by the name that `name_of` gives a request."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()


class Tap:
    """Carries bytes between clients and the server at a loopback port, on a thread of its own; counts them.

    The bytes of a reply count for the last request of the connection: it is for those who wait for replies.
    """

    def __init__(self, server_port: int, name_of: Callable[[Sequence[bytes]], str]) -> None:
        self.counts = Counts()
        self._server_port = server_port
        self._name_of = name_of
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tap", daemon=True)
        self._links: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server((_LOOPBACK, 0))
        self.url = f"redis://{_LOOPBACK}:{self._listener.getsockname()[1]}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start_anew(self) -> None:
        """Count from now on."""
        self.counts = Counts()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    async def _close(self) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = self._loop.create_task(self._carry(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(_LOOPBACK, self._server_port)
        link = _Link(self)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, requests, link.request))
                group.create_task(_pump(answers, writer, link.reply))
        finally:
            writer.transport.abort()
            requests.transport.abort()

    def count(self, request: Sequence[bytes] | None, name: str, size: int) -> str:
        """Add bytes to a name, or to that of a request that begins; return the name."""
        if request is not None:
            name = self._name_of(request)
            self.counts.requests[name] += 1
        self.counts.bytes[name] += size
        return name


class _Link:
    """One connection of a client."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._parser = hiredis.Reader()
        self._name = ""

    def request(self, data: bytes) -> None:
        self._parser.feed(data)
        pack: Any = hiredis.pack_command  # its stub knows commands of one word only
        while (words := self._parser.gets()) is not False:
            self._name = self._tap.count(words, "", len(pack(tuple(words))))

    def reply(self, data: bytes) -> None:
        self._tap.count(None, self._name, len(data))


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, tell: Callable[[bytes], None]
) -> None:
    """Carry the bytes of one direction until the connection ends."""
    with suppress(OSError):
        while data := await source.read(_AT_ONCE):
            tell(data)
            target.write(data)
            await target.drain()
        target.close()
