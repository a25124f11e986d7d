"""What one front bears: its limits, what it counts, and room for connections and large frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ...remoting import MAX_FRAME_BYTES, RequestCode

OTHER_CODES: Final = -1
"""Stands in `Counters.requests` for every code that no name server knows: peers could send billions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of everything there may be; the defaults are those of RocketMQ where it has such a limit."""

    connections: int = 20_000
    connections_per_host: int = 10_000
    """Behind a proxy each client counts for itself, and the proxy until it has named the client."""

    in_flight: int = 4_096
    """Requests that wait for the store, of all connections; one more is answered with SYSTEM_BUSY."""

    in_flight_per_connection: int = 64
    """With so many, the connection is not read from until one is answered."""

    first_byte_s: float = 120.0
    """As long as `idle_s`: Java clients connect to every name server, and speak to one."""

    opening_s: float = 10.0
    """For a PROXY header, from its first byte to its last, and for a TLS handshake."""

    idle_s: float = 120.0
    """Without a byte in either direction (RocketMQ: serverChannelMaxIdleTimeSeconds)."""

    frame_s: float = 30.0
    """From the first byte of a frame to its last."""

    contended_frame_s: float = 10.0
    """The same for a large frame while others wait for its room."""

    frame_bytes: int = MAX_FRAME_BYTES
    header_bytes: int = 262_144
    """Of a frame: it is decoded in one go, and nobody else is served meanwhile."""

    large_frame_bytes: int = 16_384
    """A frame that is longer, and does not arrive at once, needs room before its rest is read."""

    large_frames_bytes: int = 134_217_728
    """The room for all large frames, those included whose requests wait for the store."""

    large_frames_waiting: int = 1_024
    large_frame_wait_s: float = 30.0
    """For room."""

    unread_bytes: int = 65_536
    """With so many bytes that the peer has not taken, its connection is not read from."""

    unread_bytes_in_all: int = 268_435_456
    """Of all connections that are not read from for that reason; who goes beyond is closed."""

    unread_s: float = 30.0
    """How long a peer may take none of them."""

    def __post_init__(self) -> None:
        """Refuse what would let nothing through."""
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: expected more than 0, got {getattr(self, name)}")
        if self.large_frames_bytes < self.frame_bytes:
            raise ValueError(f"large_frames_bytes: expected room for one of {self.frame_bytes} bytes")


class Ending(StrEnum):
    """Why a front refused a connection or ended it."""

    TOO_MANY = "too_many"
    TOO_MANY_OF_HOST = "too_many_of_host"
    SILENT = "silent"
    """Not one byte came."""

    PROXY = "proxy"
    TLS = "tls"
    BAD_FRAME = "bad_frame"
    SLOW_FRAME = "slow_frame"
    NO_ROOM = "no_room"
    """For a large frame."""

    UNREAD = "unread"
    """The peer does not take its answers."""

    IDLE = "idle"
    ASKED = "asked"
    """Whoever answers its requests wanted it."""


@dataclass(slots=True)
class Counters:
    """What a front has seen since it started, and what it has now."""

    connections: int = 0
    """Now; those included that have not sent anything."""

    in_flight: int = 0
    """Requests that wait for the store, now."""

    accepted: int = 0
    endings: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Ending, 0))
    """Connections that this side refused or ended, by the reason."""

    requests: dict[int, int] = field(default_factory=lambda: dict.fromkeys((*RequestCode, OTHER_CODES), 0))
    """By their codes."""

    busy: int = 0
    """Requests that were refused because too many wait for the store."""

    failures: int = 0
    """Requests that an unexpected error ended."""

    decode_errors: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    unread_bytes: int = 0
    """Bytes that peers have not taken, now, of connections that are not read from for that reason."""


class FrameRoom:
    """The memory that large frames may take together; who finds none waits, the first one first."""

    def __init__(self, limits: Limits) -> None:
        self._free_bytes = limits.large_frames_bytes
        self._most_waiting = limits.large_frames_waiting
        self._waiting: dict[Callable[[], None], int] = {}

    @property
    def free_bytes(self) -> int:
        """How much is left."""
        return self._free_bytes

    @property
    def is_contended(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def take(self, size: int, granted: Callable[[], None]) -> bool | None:
        """Return whether there is room, which is taken then; else `granted` is called when there is.

        None = there is none, and too many wait already.
        """
        if not self._waiting and size <= self._free_bytes:
            self._free_bytes -= size
            return True
        if len(self._waiting) >= self._most_waiting:
            return None
        self._waiting[granted] = size
        return False

    def give_back(self, size: int) -> None:
        """Free what was taken, and let those in who wait for it."""
        self._free_bytes += size
        while self._waiting:
            granted, wanted = next(iter(self._waiting.items()))
            if wanted > self._free_bytes:
                break
            del self._waiting[granted]
            self._free_bytes -= wanted
            granted()

    def forget(self, granted: Callable[[], None]) -> None:
        """Wait no longer for what would be told by `granted`."""
        if self._waiting.pop(granted, None) is not None:
            self.give_back(0)  # the next may want less


class Refused(Exception):
    """A connection is not taken; says why."""

    def __init__(self, ending: Ending, why: str) -> None:
        super().__init__(why)
        self.ending = ending


class Places:
    """How many connections there are, in all and of each host."""

    def __init__(self, limits: Limits, counters: Counters) -> None:
        self._limits = limits
        self._counters = counters
        self._of_host: Counter[str] = Counter()

    def take(self, host: str, *, is_proxy: bool = False) -> Place:
        """Return a place for one more, of which a trusted proxy may have any number; raises Refused."""
        most, most_of_host = self._limits.connections, self._limits.connections_per_host
        if self._counters.connections >= most:
            raise Refused(Ending.TOO_MANY, f"there are {most} connections already")
        if self._of_host[host] >= most_of_host and not is_proxy:
            raise Refused(Ending.TOO_MANY_OF_HOST, f"there are {most_of_host} connections of it already")
        self._counters.connections += 1
        self._of_host[host] += 1
        return Place(self, host)

    def free(self, host: str) -> None:
        """Count one less."""
        self._counters.connections -= 1
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]


class Place:
    """One connection's, until it frees it."""

    def __init__(self, places: Places, host: str) -> None:
        self._places = places
        self._host: str | None = host

    def free(self) -> None:
        """Let another have it; nothing happens the second time."""
        host, self._host = self._host, None
        if host is not None:
            self._places.free(host)
