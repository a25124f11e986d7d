"""A small HTTP/1.1 server: one request a connection, everything bounded; the protocol itself is h11's."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import h11

from ..registry.concurrency_async import end

_LOG: Final = logging.getLogger("sharedroutes.daemon")

MAX_HEADER_BYTES: Final = 8_192
MAX_BODY_BYTES: Final = 8_192
MAX_CONNECTIONS: Final = 32
MAX_STREAMS: Final = 8
REQUEST_S: Final = 5.0
"""The longest time for one connection, from its start to the end of the answer, or a part of a stream."""

_READ_BYTES: Final = 4_096
_LINGER_S: Final = 1.0
TEXT: Final = "text/plain; charset=utf-8"


class AddressTaken(OSError):
    """The server cannot listen at this address; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By names in lower case."""

    local: bool = False
    """Whether both ends of the connection are on the loopback interface."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer to a request."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes] | None = None
    """What is sent instead of a body, piece by piece, until it ends by itself."""

    @classmethod
    def text(cls, status: HTTPStatus, *lines: str) -> Response:
        """Return lines of text."""
        return cls(status=status, body="".join(f"{line}\n" for line in lines).encode())


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class _Refused(Exception):
    """The request is malformed or too large."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class HttpServer:
    """Serves a handler from `start` to `aclose`; a fault of the handler is logged and answered with 500."""

    def __init__(
        self,
        handler: Handler,
        *,
        request_s: float = REQUEST_S,
        max_connections: int = MAX_CONNECTIONS,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        self._handler = handler
        self._request_s = request_s
        self._max_connections = max_connections
        self._max_streams = max_streams
        self.port = 0
        """Where it listens, from `start` on."""

        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """Those that are not being answered, the oldest first."""

        self._answering = 0
        self._streams = 0

    async def start(self, host: str, port: int) -> None:
        """Listen; raises AddressTaken when that is not possible there."""
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except (OSError, UnicodeError) as error:  # the latter: no name of a host can be written so
            why = getattr(error, "strerror", None) or error
            raise AddressTaken(f"HTTP cannot be served at {host}:{port}: {why}") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def serve_at(self, host: str, port: int, log: logging.Logger, *, is_chosen: bool) -> None:
        """Listen, and log where; raises AddressTaken only for an address that somebody has chosen."""
        try:
            await self.start(host, port)
        except AddressTaken as error:
            if is_chosen:
                raise
            log.warning("%s; continuing without HTTP: set --http to another address, or to off", error)
        else:
            log.info("HTTP at %s:%s", f"[{host}]" if ":" in host else host, self.port)

    async def aclose(self) -> None:
        """Stop listening, and end what is under way."""
        if self._server is not None:
            self._server.close()
        await end(*self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio calls this in a task of its own
        self._connections.add(task)
        self._make_room()
        self._silent[task] = None
        try:
            async with asyncio.timeout(self._request_s) as limit:
                await self._serve(reader, writer, limit)
        except (OSError, TimeoutError, h11.LocalProtocolError):  # they hung up, or are too slow
            pass
        except asyncio.CancelledError:  # by us: asyncio would report a cancelled callback as a fault
            pass
        finally:
            self._connections.discard(task)
            self._silent.pop(task, None)
            writer.transport.abort()

    def _make_room(self) -> None:
        """Close the oldest silent connection: it must not keep out clients that ask."""
        if len(self._connections) > self._max_connections and self._silent:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            oldest.cancel()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        try:
            request = await _read(connection, reader, writer)
            response = await self._answer(request)
        except _Refused as refused:
            request, response = None, Response.text(refused.status, refused.status.phrase)
        with_body = request is None or request.method != "HEAD"
        if response.stream is not None and with_body:
            await self._send_stream(connection, writer, response, limit)
        else:
            await _write(connection, writer, response, with_body=with_body)
        # Closed with something unread, the connection is reset, and the answer may be lost on its way.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while await reader.read(_READ_BYTES):
                    pass

    async def _answer(self, request: Request) -> Response:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - it is the one of _accept
        self._silent.pop(task, None)
        self._answering += 1
        try:
            if self._answering > self._max_connections:
                return Response.text(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once")
            return self._within_bound(await self._handler(request))
        except Exception:  # noqa: BLE001 - a page that fails must not take the process with it
            _LOG.exception("failed to answer %s %s", request.method, request.path)
            return Response.text(
                HTTPStatus.INTERNAL_SERVER_ERROR, "an internal error: see the log of the process"
            )
        finally:
            self._answering -= 1
            self._silent[task] = None

    def _within_bound(self, response: Response) -> Response:
        if response.stream is None or self._streams < self._max_streams:
            return response
        return Response.text(HTTPStatus.SERVICE_UNAVAILABLE, "too many streams at once")

    async def _send_stream(
        self,
        connection: h11.Connection,
        writer: asyncio.StreamWriter,
        response: Response,
        limit: asyncio.Timeout,
    ) -> None:
        """Send a stream to its end; who does not take a piece in time is cut off."""
        assert response.stream is not None  # noqa: S101 - the caller has looked
        clock = asyncio.get_running_loop().time
        self._streams += 1
        try:
            async with contextlib.aclosing(response.stream) as pieces:
                writer.write(connection.send(_head(response)) or b"")
                limit.reschedule(None)  # the next piece may take its time
                async for piece in pieces:
                    limit.reschedule(clock() + self._request_s)
                    writer.write(connection.send(h11.Data(data=piece)) or b"")
                    await writer.drain()
                    limit.reschedule(None)
            limit.reschedule(clock() + self._request_s)
            writer.write(connection.send(h11.EndOfMessage()) or b"")
            await writer.drain()
            writer.write_eof()
        finally:
            self._streams -= 1


async def _read(
    connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Request:
    """Return the request; its body is read and ignored. Raises _Refused."""
    head: h11.Request | None = None
    body_bytes = 0
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError as error:
            raise _Refused(HTTPStatus(error.error_status_hint)) from error
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                writer.write(connection.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body_bytes += len(event.data)
            if body_bytes > MAX_BODY_BYTES:
                raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return _request(head, local=_is_local(writer))
        else:
            raise ConnectionResetError


def _request(head: h11.Request, *, local: bool) -> Request:
    try:
        target = urlsplit(head.target.decode("ascii"))
    except ValueError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST) from error
    return Request(
        method=head.method.decode("ascii"),
        path=target.path,
        query=dict(parse_qsl(target.query, keep_blank_values=True)),
        headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
        local=local,
    )


def _is_local(writer: asyncio.StreamWriter) -> bool:
    """Whether both ends are on the loopback interface."""
    ends = (writer.get_extra_info(name) for name in ("peername", "sockname"))
    return all(end is not None and _is_loopback(end[0]) for end in ends)


def _is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _head(response: Response, *more: tuple[str, str]) -> h11.Response:
    headers = [
        ("Content-Type", response.content_type),
        *more,
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
        *response.headers,
    ]
    return h11.Response(status_code=response.status, headers=headers, reason=response.status.phrase.encode())


async def _write(
    connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, with_body: bool
) -> None:
    parts: list[h11.Event] = [_head(response, ("Content-Length", str(len(response.body))))]
    if with_body and response.body:
        parts.append(h11.Data(data=response.body))
    parts.append(h11.EndOfMessage())
    for part in parts:
        writer.write(connection.send(part) or b"")
    await writer.drain()
    writer.write_eof()
