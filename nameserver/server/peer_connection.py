"""One connection of a front: frames in, answers out, within its limits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, cast

from ...remoting import FrameError, FrameReader, RemotingCommand, RequestCode
from .connection import QuickAnswers, Service
from .dispatcher import Dispatcher
from .limits import Counters, Ending, FrameRoom, Limits, Place, Places

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

READ_BYTES: Final = 65_536
"""The most that one read takes: what cannot be used yet stays with the kernel, and so with the peer."""

# Why a connection is not read from. Numbers, as an enum's flags take longer than all else of a request.
_FULL: Final = 1  # it has as many requests in flight as it may
_UNREAD: Final = 2  # the peer does not take its answers
_ROOM: Final = 4  # its large frame waits for room
_DRAIN: Final = 8
_CLOSING: Final = 16
_SERVES_NOTHING: Final = _FULL | _UNREAD | _CLOSING

_QUICK_BYTES: Final = 1_024
"""A request that is longer is not looked up by its bytes."""

_SUDDEN: Final = frozenset((Ending.SLOW_FRAME, Ending.NO_ROOM, Ending.UNREAD))
"""Endings that do not wait until the peer has taken what was written."""

_LEVELS: Final = {Ending.IDLE: logging.DEBUG, Ending.ASKED: logging.INFO}


@dataclass(slots=True)
class ConnectionContext:
    """What all connections of a server share."""

    service: Service
    limits: Limits
    now_s: Callable[[], float]
    counters: Counters = field(default_factory=Counters)
    is_draining: bool = False
    connections: set[PeerConnection] = field(default_factory=set)
    numbers: count[int] = field(default_factory=lambda: count(1))
    read_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(READ_BYTES)))
    """Where all connections read into: it is emptied before the next one does."""

    quick: QuickAnswers | None = None
    dispatcher: Dispatcher = field(init=False)
    places: Places = field(init=False)
    room: FrameRoom = field(init=False)
    emptied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last connection has ended."""

    def __post_init__(self) -> None:
        """Make what is made of these."""
        self.dispatcher = Dispatcher(self.service, self.limits, self.counters)
        self.places = Places(self.limits, self.counters)
        self.room = FrameRoom(self.limits)


class PeerConnection(asyncio.BufferedProtocol):
    """The front's end of a connection, from when its kind is known (plain or TLS)."""

    def __init__(self, context: ConnectionContext, peer: str, place: Place) -> None:
        self.number = next(context.numbers)
        self.peer = peer
        self._place = place
        self._context = context
        self._counters = context.counters
        limits = self._limits = context.limits
        self._reader = FrameReader(limits.frame_bytes, max_header_bytes=limits.header_bytes)
        self._transport: asyncio.Transport | None = None
        self._held = 0
        self._backlog: list[RemotingCommand] = []
        """Requests that arrived together with the one after which no more could be served."""

        self.in_flight = 0
        """How many of its requests wait for the store."""

        self.has_failed = False
        """Whether a request has ended in an unexpected error."""

        self._room_bytes = 0
        """The room that its large frames have, until all its requests are answered."""

        self._frame_room_bytes = 0
        """The part of it that belongs to the frame that is arriving."""

        self._unread_bytes = 0
        self._active_s = context.now_s()
        self._frame_since_s: float | None = None
        self._room_since_s: float | None = None
        self._unread_since_s: float | None = None
        self._closing_since_s: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether the connection has not ended; its service is told later."""
        return self._transport is not None

    def send(self, frame: bytes) -> None:
        """Send a frame that answers nothing; nothing happens when the connection has ended."""
        self._write(frame)

    def close(self, why: str) -> None:
        """End the connection after what was written before; the reason is logged."""
        self._end(Ending.ASKED, why)

    def drain(self, *, at_once: bool = False) -> None:
        """End the connection once the requests that have arrived are answered, or before that."""
        if at_once and self._transport is not None:
            self._transport.abort()
        self._hold(_DRAIN)
        self._settle()

    def check(self, now_s: float) -> None:
        """End the connection if one of its times is over."""
        limits = self._limits
        if self._closing_since_s is not None:
            if self._transport is not None and now_s - self._closing_since_s > limits.unread_s:
                self._transport.abort()
        elif self._unread_since_s is not None:
            self._check_unread(now_s, self._unread_since_s)
        elif self._room_since_s is not None:
            if now_s - self._room_since_s > limits.large_frame_wait_s:
                self._end(Ending.NO_ROOM, f"no room for a large frame within {limits.large_frame_wait_s:g} s")
        elif self._frame_since_s is not None and not self._held:
            is_contended = self._frame_room_bytes and self._context.room.is_contended
            limit_s = limits.contended_frame_s if is_contended else limits.frame_s
            if now_s - self._frame_since_s > limit_s:
                self._end(Ending.SLOW_FRAME, f"a frame was not complete within {limit_s:g} s")
        elif now_s - self._active_s > limits.idle_s:
            self._end(Ending.IDLE, f"idle for {limits.idle_s:g} s")

    def begin_request(self) -> None:
        """Count a request that waits for the store."""
        self.in_flight += 1
        if self.in_flight >= self._limits.in_flight_per_connection:
            self._hold(_FULL)

    def end_request(self, frame: bytes | None) -> None:
        """Send the answer of such a request."""
        self.in_flight -= 1
        if frame is not None:
            self._write(frame)
        if self.in_flight <= self._limits.in_flight_per_connection // 2:
            self._release(_FULL)
        self._settle()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=self._limits.unread_bytes)
        self._context.connections.add(self)
        self._context.emptied.clear()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's
        """Return where the next bytes go."""
        return self._context.read_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the requests that are complete now."""
        context = self._context
        self._active_s = context.now_s()
        self._counters.bytes_in += nbytes
        data = bytes(context.read_buffer[:nbytes])
        is_whole = nbytes <= _QUICK_BYTES and not self._reader.pending_bytes and not self._held
        if is_whole and context.quick is not None:
            answer = context.quick.quick_answer(data, self)
            if answer is not None:
                self._counters.requests[RequestCode.GET_ROUTEINFO_BY_TOPIC] += 1
                self._write(answer)
                return
        try:
            requests = self._reader.feed(data)
        except FrameError as error:
            self._serve(self._reader.before)
            self._counters.decode_errors += 1
            self._end(Ending.BAD_FRAME, str(error))
            return
        if requests:
            self._serve(requests)
            if is_whole and context.quick is not None and len(requests) == 1:
                context.quick.learn(data, requests[0])
        if self._reader.pending_bytes or self._frame_since_s is not None:
            self._await_rest(is_new=bool(requests))

    def pause_writing(self) -> None:
        """Serve no more requests of a peer that does not take the answers."""
        self._unread_since_s = self._context.now_s()
        self._hold(_UNREAD)
        if self._transport is not None:
            self._note_unread(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Go on."""
        self._unread_since_s = None
        self._active_s = self._context.now_s()
        self._note_unread(-self._unread_bytes)
        self._release(_UNREAD)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it makes no difference
        """Free what the connection held."""
        self._transport = None
        self._place.free()
        self._context.connections.discard(self)
        if not self._context.connections:
            self._context.emptied.set()
        self._backlog = []
        self._note_unread(-self._unread_bytes)
        self._context.room.forget(self._have_room)
        self._frame_room_bytes = 0
        self._settle()

    def _serve(self, requests: Sequence[RemotingCommand]) -> None:
        """Answer requests with as few writes as possible; what cannot be served now waits."""
        dispatcher = self._context.dispatcher
        answers: list[bytes] = []
        size = 0
        for place, request in enumerate(requests):
            if self._held & _SERVES_NOTHING:
                self._backlog += requests[place:]
                break
            answer = dispatcher.answer(request, self)
            if answer is not None:
                answers.append(answer)
                size += len(answer)
                if size > self._limits.unread_bytes:
                    self._write(b"".join(answers))
                    answers, size = [], 0
        if answers:
            self._write(answers[0] if len(answers) == 1 else b"".join(answers))

    def _write(self, frames: bytes) -> None:
        transport = self._transport
        if transport is None or self._held & _CLOSING:
            return
        self._active_s = self._context.now_s()
        is_unread = self._unread_since_s is not None
        self._counters.bytes_out += len(frames)
        transport.write(frames)
        if is_unread:
            self._note_unread(len(frames))

    def _await_rest(self, *, is_new: bool) -> None:
        """Begin or end the time of an incomplete frame; take room for a large one."""
        if is_new or self._frame_since_s is None:
            self._frame_since_s = self._context.now_s()
            self._frame_room_bytes = 0
        if not self._reader.pending_bytes:
            self._frame_since_s = None
        size = self._reader.frame_bytes
        if (
            size > self._limits.large_frame_bytes
            and not self._frame_room_bytes
            and self._room_since_s is None
        ):
            has_room = self._context.room.take(size, self._have_room)
            if has_room:
                self._frame_room_bytes = size
                self._room_bytes += size
            elif has_room is None:
                self._end(Ending.NO_ROOM, "too many large frames wait for room")
            else:
                self._room_since_s = self._context.now_s()
                self._hold(_ROOM)
        self._settle()

    def _have_room(self) -> None:
        """Read the rest of the large frame."""
        self._room_since_s = None
        self._frame_room_bytes = self._reader.frame_bytes
        self._room_bytes += self._frame_room_bytes
        self._release(_ROOM)

    def _hold(self, why: int) -> None:
        """Stop reading."""
        if not self._held and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._held |= why

    def _release(self, why: int) -> None:
        """Serve what waits, and read again, unless there is another reason not to."""
        if not self._held & why:
            return
        self._held &= ~why
        if self._backlog and not self._held & _SERVES_NOTHING:
            requests, self._backlog = self._backlog, []
            self._serve(requests)
            self._settle()
        if not self._held and self._transport is not None and not self._transport.is_closing():
            if self._frame_since_s is not None:  # that it was not read was our doing
                self._frame_since_s = self._context.now_s()
            self._transport.resume_reading()

    def _settle(self) -> None:
        """Do what has to wait for the last request: free its room, tell of the end, close the connection."""
        if self.in_flight or self._backlog:
            return
        spare = self._room_bytes - self._frame_room_bytes
        if spare:
            self._room_bytes -= spare
            self._context.room.give_back(spare)
        if self._transport is None:
            self._tell_end()
        elif self._held & _DRAIN and not self._held & _CLOSING:
            self._begin_end()
            self._transport.close()

    def _tell_end(self) -> None:
        if self._context.is_draining:
            return
        try:
            self._context.service.closed(self)
        except Exception:  # noqa: BLE001 - the end of one connection must not end the server
            _LOG.exception("failed to note the end of the connection of %s", self.peer)

    def _check_unread(self, now_s: float, since_s: float) -> None:
        assert self._transport is not None  # noqa: S101 - the server only asks connections that it has
        left = self._transport.get_write_buffer_size()
        if left < self._unread_bytes:  # it takes some, if slowly
            self._note_unread(left - self._unread_bytes)
            self._unread_since_s = self._active_s = now_s
        elif now_s - since_s > self._limits.unread_s:
            self._end(Ending.UNREAD, f"the peer took none of its answers for {self._limits.unread_s:g} s")

    def _note_unread(self, more: int) -> None:
        counters = self._counters
        self._unread_bytes += more
        counters.unread_bytes += more
        if more > 0 and counters.unread_bytes > self._limits.unread_bytes_in_all:
            self._end(Ending.UNREAD, f"{counters.unread_bytes} bytes of answers are not taken by their peers")

    def _end(self, ending: Ending, why: str) -> None:
        transport = self._transport
        if transport is None or self._held & _CLOSING:
            return
        self._begin_end()
        self._counters.endings[ending] += 1
        level = _LEVELS.get(ending, logging.WARNING)
        _LOG.log(level, "closed the connection of %s: %s", self.peer, why)
        if ending in _SUDDEN:
            transport.abort()
        else:
            transport.close()

    def _begin_end(self) -> None:
        self._held |= _CLOSING
        self._closing_since_s = self._context.now_s()
