"""The socket of a front: takes connections in, finds out what they speak, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from ...registry.concurrency_async import end
from .connection import QuickAnswers, Service
from .limits import Counters, Ending, Limits, Place, Refused
from .peer_connection import ConnectionContext, PeerConnection
from .proxy_protocol import FIRST_BYTES, ProxyHeader, ProxyHeaderError
from .tls import HANDSHAKE, Tls

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_BACKLOG: Final = 1_024
"""As RocketMQ's name server has it."""

_PEEK_BYTES: Final = 256
_CHECK_S: Final = 1.0
"""How often the times of all connections are looked at."""

_TLS_CHECK_S: Final = 10.0
_ACCEPT_PAUSE_S: Final = 0.5
"""After an error: the descriptors or the memory that are lacking must become free first."""

_QUIET_S: Final = 10.0
"""A complaint that peers can cause as often as they like is logged so seldom."""


class RemotingServer:
    """Serves RocketMQ's protocol on a socket that is bound already, from `start` to `stop`.

    A PROXY header is believed from `trusted_proxies`; whoever else sends one is refused.
    """

    def __init__(
        self,
        service: Service,
        listening: socket.socket,
        *,
        limits: Limits | None = None,
        tls: Tls | None = None,
        trusted_proxies: Sequence[Network] = (),
        quick: QuickAnswers | None = None,
    ) -> None:
        self._socket = listening
        self._limits = limits or Limits()
        self._tls = tls or Tls()
        self._trusted = trusted_proxies
        self._context = ConnectionContext(
            service,
            self._limits,
            asyncio.get_running_loop().time,
            quick=quick,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._complaints = _Complaints()

    @property
    def counters(self) -> Counters:
        """What has happened since it was made, and what is under way."""
        return self._context.counters

    async def start(self) -> None:
        """Take connections in."""
        self._socket.setblocking(False)  # noqa: FBT003 - the name says it
        self._socket.listen(_BACKLOG)
        self._tasks = [asyncio.create_task(work()) for work in (self._accept, self._check, self._renew)]

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, answer what has arrived, and close; at once when the time is over.

        The service is not told that these connections have ended.
        """
        context = self._context
        context.is_draining = True
        await end(*self._tasks)
        self._socket.close()
        await end(*self._opening)
        for connection in tuple(context.connections):
            connection.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while context.dispatcher.tasks:
                    await asyncio.wait(context.dispatcher.tasks)
                while context.connections:
                    await context.emptied.wait()
        await end(*context.dispatcher.tasks)
        for connection in tuple(context.connections):
            connection.drain(at_once=True)
        while context.connections:
            await context.emptied.wait()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                taken, address = await loop.sock_accept(self._socket)
            except OSError as error:
                if error.errno != errno.ECONNABORTED:
                    self._complaints.log("accept", f"no connection can be taken: {error.strerror}")
                    await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            self.counters.accepted += 1
            task = loop.create_task(self._open(taken, _plain(address[0]), address[1]))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
            await asyncio.sleep(0)  # a flood of connections must not keep the others from being served

    async def _open(self, taken: socket.socket, host: str, port: int) -> None:
        """Find out what a peer speaks, and make a connection of it."""
        place: Place | None = None
        is_open = False
        try:
            is_trusted = _is_within(host, self._trusted)
            place = self._context.places.take(host, is_proxy=is_trusted)
            first = await self._first_byte(taken)
            if first in FIRST_BYTES:
                host, port = await self._behind_proxy(taken, is_believed=is_trusted) or (host, port)
                place.free()
                place = self._context.places.take(host)
                first = await self._first_byte(taken)
            is_open = bool(first) and await self._connect(taken, place, _joined(host, port), first)
        except Refused as refused:
            self.counters.endings[refused.ending] += 1
            if refused.ending is not Ending.SILENT:
                self._complaints.log(refused.ending, f"refused {_joined(host, port)}: {refused}")
        except OSError:  # the peer has left
            pass
        finally:
            if not is_open:
                taken.close()
                if place is not None:
                    place.free()

    async def _first_byte(self, taken: socket.socket) -> bytes:
        """Return the first byte without taking it, or none when the peer has left."""
        try:
            async with asyncio.timeout(self._limits.first_byte_s):
                return (await _peek(taken))[:1]
        except TimeoutError:
            raise Refused(Ending.SILENT, "it sends nothing") from None

    async def _behind_proxy(self, taken: socket.socket, *, is_believed: bool) -> tuple[str, int] | None:
        """Take a PROXY header; return the address of the client if it is named."""
        if not is_believed:
            raise Refused(
                Ending.PROXY, "begins with a PROXY header, and is none of the proxies in `proxy_from`"
            )
        header = ProxyHeader()
        try:
            async with asyncio.timeout(self._limits.opening_s):
                while not header.is_complete:
                    data = await _peek(taken)
                    if not data:
                        raise Refused(Ending.PROXY, "the connection ended within the PROXY header")
                    taken.recv(header.take(data))
        except TimeoutError:
            raise Refused(Ending.PROXY, "the PROXY header did not arrive in time") from None
        except ProxyHeaderError as error:
            self.counters.decode_errors += 1
            raise Refused(Ending.PROXY, str(error)) from None
        return header.source

    async def _connect(self, taken: socket.socket, place: Place, peer: str, first: bytes) -> bool:
        """Make a connection of a socket; return whether that has been done."""
        is_tls = first == HANDSHAKE
        refusal = self._tls.refusal(is_tls=is_tls)
        if refusal is not None:
            raise Refused(Ending.TLS, refusal)
        connection = PeerConnection(self._context, peer, place)
        loop = asyncio.get_running_loop()
        if not is_tls:
            await loop.connect_accepted_socket(lambda: connection, taken)
            return True
        opening_s = self._limits.opening_s
        try:
            await loop.connect_accepted_socket(
                lambda: connection,
                taken,
                ssl=self._tls.context,
                ssl_handshake_timeout=opening_s,
                ssl_shutdown_timeout=opening_s,
            )
        except OSError as error:
            why = getattr(error, "reason", None) or str(error) or "the peer closed the connection"
            raise Refused(Ending.TLS, f"TLS: {why}") from None
        return True

    async def _check(self) -> None:
        """Look at the times of all connections."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_CHECK_S)
            now_s = loop.time()
            for connection in tuple(self._context.connections):
                connection.check(now_s)

    async def _renew(self) -> None:
        """Read certificates again when they change."""
        while True:
            await asyncio.sleep(_TLS_CHECK_S)
            await asyncio.to_thread(self._tls.refresh)


class _Complaints:
    """Logs what peers can cause as often as they like: seldom, and how often it happened."""

    def __init__(self) -> None:
        self._quiet_until_s: dict[str, float] = {}
        self._unsaid: Counter[str] = Counter()

    def log(self, kind: str, text: str) -> None:
        """Log a complaint, unless one of its kind was logged a moment ago."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._quiet_until_s.get(kind, now_s):
            self._unsaid[kind] += 1
            return
        self._quiet_until_s[kind] = now_s + _QUIET_S
        more = self._unsaid.pop(kind, 0)
        _LOG.warning("%s%s", text, f" (and {more} more like this since the last one)" if more else "")


async def _peek(taken: socket.socket) -> bytes:
    """Return the next bytes without taking them, when there are any, or none at the end of the stream."""
    while True:
        try:
            return taken.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            await _readable(taken)


async def _readable(taken: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(taken, _wake, readable)
    try:
        await readable
    finally:
        loop.remove_reader(taken)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _is_within(host: str, networks: Sequence[Network]) -> bool:
    address = ipaddress.ip_address(host)
    return any(address in network for network in networks)


def _plain(host: str) -> str:
    """Return an address without its interface, and as the IPv4 address that it stands for."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
