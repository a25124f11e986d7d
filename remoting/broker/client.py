"""Asks a running broker over RocketMQ's protocol: one connection, many requests, now or again and again."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self, TypeVar, cast

from ...registry.concurrency_async import end
from .. import (
    Credentials,
    FrameError,
    FrameReader,
    RemotingCommand,
    RequestCode,
    ResponseCode,
    encode,
    request,
    signed,
)

if TYPE_CHECKING:
    import ssl

_MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
"""Brokers before 5.3 answer with all their topics in one frame, which nothing limits when it is written."""

_MAX_OPAQUE: Final = 0x7FFFFFFF

_KEEPALIVE: Final = (
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)
"""s, s, probes, ms: ends a connection whose other host is gone, which no one else would notice."""

_RECONNECT_S: Final = 1.0
"""After the broker has closed a connection."""

_CLOSED: Final = "closed by the broker"
_TLS_ADVICE: Final = "look at broker_tls and its certificates, here and at the broker"

T = TypeVar("T")


class Access:
    """How the broker lets us in; this one has neither a user nor TLS."""

    def __init__(self) -> None:
        self.credentials: Credentials | None = None
        self.tls: ssl.SSLContext | None = None
        self.server_name = ""
        """The name that the broker's certificate must have; empty = the host's."""

    @property
    def trouble(self) -> str:
        """Why we are not let in, and what to do; empty = we are."""
        return ""

    @property
    def is_closed(self) -> bool:
        """Whether no request can be sent."""
        return False

    def answered(self, address: str, name: str, code: int, remark: str | None) -> None:
        """Note how the broker has answered a request."""

    def distrusted(self, why: str) -> None:
        """Note why no TLS connection could be made; empty = one was made."""


class BrokerCallError(OSError):
    """A broker did not do what it was asked; the text names the broker and the request."""


class BrokerUnreachable(BrokerCallError):
    """There is no connection, or it has ended before the answer."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused
        """Whether nobody listens there at all."""


class BrokerUntrusted(BrokerCallError):
    """A process listens there, but no TLS connection to it can be made."""

    def __init__(self, text: str, *, closed: bool) -> None:
        super().__init__(text)
        self.closed = closed
        """Whether the connection was only closed, perhaps by something in between."""


class BrokerTimeout(BrokerCallError):
    """No connection or no answer in time."""


class BrokerRefused(BrokerCallError):
    """The broker has answered with another code than SUCCESS."""


class BrokerAnswerUnusable(BrokerCallError):
    """The broker has answered with SUCCESS, and what it says cannot be understood."""


class BrokerClient:
    """One connection to a broker; it ends with the `async with` block, or by `abort`."""

    def __init__(self, address: str, link: _Link, access: Access) -> None:
        self.address = address
        self._link = link
        self._access = access
        self._opaque = 0

    @classmethod
    async def connect(cls, host: str, port: int, *, deadline_s: float, access: Access | None = None) -> Self:
        """Connect within `deadline_s` seconds.

        Raises BrokerUnreachable, BrokerTimeout, and BrokerUntrusted where `access` has TLS.
        """
        address, access = f"{host}:{port}", access or Access()
        if access.is_closed:
            raise BrokerUntrusted(f"{address}: {access.trouble}", closed=True)
        name = (access.server_name or host) if access.tls else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(deadline_s):
                _, link = await loop.create_connection(
                    lambda: _Link(address), host, port, ssl=access.tls, server_hostname=name
                )
        except TimeoutError:
            # Also the one of the system, which says nothing more.
            raise BrokerTimeout(f"{address}: no connection within {deadline_s} s") from None
        except OSError as error:
            if access.tls is not None and (untrusted := _untrusted(address, error)) is not None:
                access.distrusted(str(untrusted))
                raise untrusted from error
            raise BrokerUnreachable(f"{address}: {_reason(error)}", refused=_is_refusal(error)) from error
        except UnicodeError as error:  # a name that cannot be one of a host
            raise BrokerUnreachable(f"{address}: {error}") from error
        if link.leads_to_itself:
            link.end("nobody listens")
            raise BrokerUnreachable(f"{address}: nobody listens", refused=True)
        return cls(address, link, access)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.abort()

    async def invoke(self, command: RemotingCommand, *, deadline_s: float) -> RemotingCommand:
        """Return the answer to a request, whatever its code; the request gets an `opaque` of its own.

        Raises BrokerTimeout without an answer within `deadline_s` seconds, BrokerUnreachable when the
        connection has ended, and FrameError for a request that no frame can carry.
        """
        self._opaque = opaque = self._opaque + 1 & _MAX_OPAQUE
        name = _name(command.code)
        if self._access.credentials is not None:
            command = signed(command, self._access.credentials)
        answer = self._link.ask(replace(command, opaque=opaque), name)
        try:
            async with asyncio.timeout(deadline_s):
                return self._answered(name, await answer)
        except BrokerUntrusted as error:
            self._access.distrusted(str(error))
            raise
        except TimeoutError:
            if answer.done() and not answer.cancelled():
                return self._answered(name, answer.result())  # it came in time: this process stood still
            raise BrokerTimeout(f"{self.address}: no answer to {name} within {deadline_s} s") from None
        finally:
            self._link.forget(opaque, answer)

    def _answered(self, name: str, answer: RemotingCommand) -> RemotingCommand:
        self._access.distrusted("")
        self._access.answered(self.address, name, answer.code, answer.remark)
        return answer

    async def call(self, command: RemotingCommand, *, deadline_s: float) -> RemotingCommand:
        """Return the answer as `invoke` does; raises BrokerRefused too, for another code than SUCCESS."""
        answer = await self.invoke(command, deadline_s=deadline_s)
        if answer.code != ResponseCode.SUCCESS:
            said = f": {answer.remark.strip()}" if answer.remark else ""
            text = f"{self.address}: {_name(command.code)} was answered with code {answer.code}{said}"
            raise BrokerRefused(text)
        return answer

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._link.ended.is_set()

    async def send_last(self, command: RemotingCommand) -> None:
        """Send a request that is not answered, and end the connection; raises BrokerUnreachable."""
        self._link.send_last(command)
        await self.closed()

    async def closed(self) -> str:
        """Wait until the connection has ended; return why."""
        await self._link.ended.wait()
        return self._link.why

    def abort(self) -> None:
        """End the connection at once; requests that wait for their answers raise BrokerUnreachable."""
        self._link.end("closed here")


class _Link(asyncio.Protocol):
    """Our end of the connection, and the requests that wait for their answers."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.ended = asyncio.Event()
        self.why = ""
        self._has_tls = False
        self._is_silent = True
        """Whether nothing has come yet: TLS 1.3 refuses a certificate only after it has let us in."""

        self.leads_to_itself = False
        self._reader = FrameReader(_MAX_FRAME_BYTES)
        self._waiting: dict[int, tuple[asyncio.Future[RemotingCommand], str]] = {}
        self._transport: asyncio.Transport | None = None

    def ask(self, command: RemotingCommand, name: str) -> asyncio.Future[RemotingCommand]:
        """Send a request; return the future of its answer."""
        if self._transport is None:
            raise BrokerUnreachable(f"{self.address}: {name}: the connection has ended: {self.why}")
        frame = encode(command)
        answer: asyncio.Future[RemotingCommand] = asyncio.get_running_loop().create_future()
        self._waiting[command.opaque] = (answer, name)
        self._transport.write(frame)
        return answer

    def send_last(self, command: RemotingCommand) -> None:
        """Send a request that is not answered, and close the connection when it is sent."""
        if self._transport is None:
            raise BrokerUnreachable(f"{self.address}: the connection has ended: {self.why}")
        self._transport.write(encode(command))
        self._transport.close()

    def forget(self, opaque: int, answer: asyncio.Future[RemotingCommand]) -> None:
        """Drop the answer to a request if it ever comes."""
        self._waiting.pop(opaque, None)
        answer.cancel()

    def end(self, why: str) -> None:
        """End the connection at once, for this reason if it had none yet."""
        self.why = self.why or why
        if self._transport is not None:
            self._transport.abort()
            self._finish()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._has_tls = transport.get_extra_info("ssl_object") is not None
        # A TCP socket whose own port was chosen to be the one it calls is connected to itself.
        self.leads_to_itself = transport.get_extra_info("sockname") == transport.get_extra_info("peername")
        _keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        try:
            commands = self._reader.feed(data)
        except FrameError as error:
            self._deliver(self._reader.before)
            self.end(str(error))
        else:
            self._deliver(commands)

    def connection_lost(self, exc: Exception | None) -> None:
        self.why = self.why or (str(exc) if exc else _CLOSED)
        self._finish()

    def _deliver(self, commands: list[RemotingCommand]) -> None:
        for command in commands:
            self._is_silent = False
            # What a broker asks its clients (consumers, transactions) does not concern an agent.
            if command.is_response and command.opaque in self._waiting:
                answer, _ = self._waiting.pop(command.opaque)
                if not answer.done():
                    answer.set_result(command)

    def _finish(self) -> None:
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for answer, name in waiting.values():
            if not answer.done():
                answer.set_exception(self._failure(name))
        self.ended.set()

    def _failure(self, name: str) -> BrokerCallError:
        if self._has_tls and self._is_silent:
            return BrokerUntrusted(f"{self.address}: TLS: {self.why}: {_TLS_ADVICE}", closed=False)
        hint = "; does it demand TLS (broker_tls)?" if self._is_silent and self.why == _CLOSED else ""
        text = f"{self.address}: {name}: no answer before the connection ended: {self.why}{hint}"
        return BrokerUnreachable(text)


async def poll(
    address: tuple[str, int],
    ask: Callable[[BrokerClient], Awaitable[T]],
    *,
    rest_s: Callable[[], float],
    retry_s: Callable[[BrokerCallError], float],
    deadline_s: float,
    access: Access | None = None,
    woken: asyncio.Event | None = None,
) -> AsyncGenerator[T | BrokerCallError, None]:
    """Ask a broker again and again over one connection; yield each answer, or the error in its place.

    It waits `rest_s` seconds after an answer, `retry_s` after an error; `woken` ends either wait. That the
    broker closes the connection in between is no error: another one is opened after a second.
    """
    host, port = address
    woken = woken or asyncio.Event()
    while True:
        woken.clear()  # also while nobody listens: else it would be tried without a pause
        failure: BrokerCallError | None = None
        try:
            async with await BrokerClient.connect(host, port, deadline_s=deadline_s, access=access) as client:
                while True:
                    woken.clear()
                    yield await ask(client)
                    if await _closes(client, rest_s(), woken):
                        break
        except BrokerCallError as error:
            failure = error
        if failure is not None:
            yield failure
        with suppress(TimeoutError):
            async with asyncio.timeout(_RECONNECT_S if failure is None else retry_s(failure)):
                await woken.wait()


async def _closes(client: BrokerClient, rest_s: float, woken: asyncio.Event) -> bool:
    """Wait for the time, or until woken; return whether the connection has been closed meanwhile."""
    waits = [asyncio.create_task(client.closed()), asyncio.create_task(woken.wait())]
    try:
        await asyncio.wait(waits, timeout=rest_s, return_when=asyncio.FIRST_COMPLETED)
        return waits[0].done()
    finally:
        await end(*waits)


async def configuration(client: BrokerClient, deadline_s: float) -> bytes:
    """Return the settings that the broker runs with, as the text of properties; raises BrokerCallError."""
    answer = await client.call(request(RequestCode.GET_BROKER_CONFIG), deadline_s=deadline_s)
    return answer.body


def _reason(error: OSError) -> str:
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)  # of a name that leads nowhere, or of several addresses


def _untrusted(address: str, error: OSError) -> BrokerUntrusted | None:
    """Return what an error of a connection with TLS means; None = there was no connection at all."""
    import ssl  # noqa: PLC0415 - most connections have no TLS

    if isinstance(error, ConnectionResetError | ConnectionAbortedError | ssl.SSLEOFError):
        hint = "has the broker TLS on (tls.server.mode)?"
        return BrokerUntrusted(f"{address}: TLS: closed by the broker: {hint}", closed=True)
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
        return BrokerUntrusted(f"{address}: TLS: {why}: {_TLS_ADVICE}", closed=False)
    return None


def _is_refusal(error: OSError) -> bool:
    """Whether nobody listens, at any of the addresses that the host's name has."""
    if isinstance(error, ConnectionRefusedError):
        return True
    # asyncio makes one error of those of several addresses, and keeps nothing but their texts.
    each = re.findall(r"\[Errno (\d+)\]", str(error)) if error.errno is None else []
    return bool(each) and set(each) == {str(errno.ECONNREFUSED)}


def _name(code: int) -> str:
    return RequestCode(code).name if code in RequestCode.__members__.values() else f"request {code}"


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)  # not every system has them
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
