"""What stands in for the front and its sockets until they are there."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from itertools import count

from ..registry.concurrency_async import end
from ..remoting import FrameError, FrameReader, encode
from .server.connection import Service


class _Peer:
    def __init__(self, number: int, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.peer = "{}:{}".format(*writer.get_extra_info("peername")[:2])
        self._writer = writer

    def send(self, frame: bytes) -> None:
        self._writer.write(frame)

    def close(self, why: str) -> None:  # noqa: ARG002
        self._writer.close()


class Listener:
    """Serves connections without limits."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        self._service = service
        self._socket = listening
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self.requests: dict[int, int] = {}

    async def start(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._serve, sock=self._socket)

    async def stop(self, within_s: float) -> None:  # noqa: ARG002
        """End."""
        if self._server is not None:
            self._server.close()
        await end(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        self._tasks.add(task)
        peer, frames = _Peer(next(self._numbers), writer), FrameReader()
        with suppress(OSError, FrameError, asyncio.CancelledError):
            while data := await reader.read(65_536):
                for request in frames.feed(data):
                    self.requests[request.code] = self.requests.get(request.code, 0) + 1
                    answer = self._service.answer(request, peer)
                    if isinstance(answer, bytes):
                        writer.write(answer)
                    elif answer is not None:
                        found = await answer
                        if found is not None:
                            writer.write(encode(found))
        writer.close()
        self._service.closed(peer)
        self._tasks.discard(task)
