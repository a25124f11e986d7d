"""What stands in for the front and its sockets until they are there."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from itertools import count

from ..registry import AsyncRouteStore
from ..registry.concurrency_async import end
from ..remoting import FrameError, FrameReader, RemotingCommand, ResponseCode, encode, response_to
from .config import FrontConfig
from .server.connection import Connection, Service
from .status import FrontStatus


class Front:
    """Knows no request code."""

    def __init__(self, store: AsyncRouteStore, config: FrontConfig) -> None:
        self._store = store
        self.config = config

    async def start(self) -> None:
        """Do nothing."""

    async def aclose(self, *, drain: bool) -> None:
        """Do nothing."""

    def status(self) -> FrontStatus:
        """Return that all is well."""
        return FrontStatus(feed_age_s=0.0)

    def answer(self, request: RemotingCommand, connection: Connection) -> bytes | None:  # noqa: ARG002
        """Refuse."""
        if request.is_response:
            return None
        remark = f" request type {request.code} not supported"
        return encode(response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))

    def closed(self, connection: Connection) -> None:
        """Do nothing."""


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
        writer.close()
        self._service.closed(peer)
        self._tasks.discard(task)
