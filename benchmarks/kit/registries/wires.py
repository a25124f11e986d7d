"""What a client that watches says and hears on its sockets, so that a thousand fit in one process.

Each asks again for what it was told of, as its library does, and does meanwhile what that does then.
"""

from __future__ import annotations

import json
import socket
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import hiredis
from aetcd import rpc
from kazoo.protocol.serialization import Connect, GetData, Ping, ReplyHeader

from sharedroutes.registry import RegistryConfig
from sharedroutes.registry.keys import Keys
from sharedroutes.remoting import FrameReader, encode

from ..name_servers import brokers_of, route_request
from . import by_hand, etcd, name_server, ours, zookeeper
from .registry import TOPIC

_ANSWER_S: Final = 60.0
_SESSION_MS: Final = 30_000
_PING_XID: Final = -2
_EVENT_XID: Final = -1
_FRAME_HEAD: Final = 9
_STREAM: Final = 1
_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_ACK: Final = 1
_END_HEADERS: Final = 4


class Wire(ABC):
    """The sockets of one client that watches TOPIC at one broker."""

    idle_s: ClassVar[float | None] = None
    """How often it asks while nothing happens; None = never."""

    def __init__(self, address: str, broker: str, sockets: int = 1) -> None:
        host, _, port = address.rpartition(":")
        self.broker = broker
        self.sockets = [socket.create_connection((host, int(port)), _ANSWER_S) for _ in range(sockets)]
        for one in self.sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @abstractmethod
    def begin(self) -> None:
        """Say what begins to watch; it watches once something was received."""

    @abstractmethod
    def received(self, number: int, data: bytes) -> bool:
        """Take in what came on a socket, and answer; return whether a change is known by that."""

    def ask(self) -> None:
        """Ask what it asks while nothing happens; raises RuntimeError where `idle_s` is None."""
        raise RuntimeError(f"{type(self).__name__} asks nothing while nothing happens")


class OurWire(Wire):
    """The doorbell, and a connection for what is asked: the stream's tail and the leases, each second."""

    idle_s = 1.0

    def __init__(self, url: str, broker: str) -> None:
        super().__init__(urlsplit(url).netloc, broker, sockets=2)
        self._keys = Keys(RegistryConfig().namespace)
        self._readers = [hiredis.Reader() for _ in self.sockets]
        self._asked: deque[str] = deque()

    def begin(self) -> None:
        """Begin to watch."""
        self.sockets[0].sendall(_redis("SUBSCRIBE", self._keys.changes))

    def ask(self) -> None:
        """Ask what it asks while nothing happens."""
        tail = _redis("XREVRANGE", self._keys.changes, "+", "-", "COUNT", "1")
        self._send("idle", tail, "idle", _redis("MGET", self._keys.lease(self.broker, 0)))

    def received(self, number: int, data: bytes) -> bool:
        """Return whether a change is known by what came."""
        known = False
        for reply in _replies(self._readers[number], data):
            if number:
                known |= self._asked.popleft() == "table"
            elif reply[0] == b"message":
                table = _redis("MGET", self._keys.topic(TOPIC), self._keys.lease(self.broker, 0))
                self._send("table", table)
        return known

    def _send(self, *asked: Any) -> None:
        self._asked.extend(asked[::2])
        self.sockets[1].sendall(b"".join(asked[1::2]))


class HandWrittenWire(Wire):
    """A subscription whose messages say all."""

    def __init__(self, url: str, broker: str) -> None:
        super().__init__(urlsplit(url).netloc, broker)
        self._reader = hiredis.Reader()

    def begin(self) -> None:
        """Begin to watch."""
        self.sockets[0].sendall(_redis("SUBSCRIBE", by_hand.CHANNEL))

    def received(self, _number: int, data: bytes) -> bool:
        """Return whether a change is known by what came."""
        return any(reply[0] == b"message" for reply in [*_replies(self._reader, data)])


class ZooKeeperWire(Wire):
    """A session with a watch of the row, which is read and watched again after each event."""

    idle_s = _SESSION_MS / 1_000 / 3

    def __init__(self, address: str, broker: str) -> None:
        super().__init__(address, broker)
        self._read = GetData(zookeeper.path_of(TOPIC, broker), watcher=True)
        self._xids = count(1)
        self._buffer = b""
        self._begun = False
        self._told = False

    def begin(self) -> None:
        """Begin to watch."""
        self._send(Connect(0, 0, _SESSION_MS, 0, bytes(16), read_only=False).serialize())

    def ask(self) -> None:
        """Ask what it asks while nothing happens."""
        self._send(struct.pack("!ii", _PING_XID, Ping.type))

    def received(self, _number: int, data: bytes) -> bool:
        """Return whether a change is known by what came."""
        self._buffer += data
        known = False
        for frame in self._frames():
            if not self._begun:
                self._begun = True
                self._watch()
                continue
            header, _ = ReplyHeader.deserialize(frame, 0)
            if header.err:
                raise RuntimeError(f"ZooKeeper answered {header.err}")
            if header.xid == _EVENT_XID:
                self._told = True
                self._watch()
            elif header.xid != _PING_XID:
                known |= self._told
                self._told = False
        return known

    def _frames(self) -> Iterator[bytes]:
        while len(self._buffer) >= 4 and len(self._buffer) >= (
            end := 4 + struct.unpack_from("!i", self._buffer)[0]
        ):
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            yield frame

    def _watch(self) -> None:
        self._send(struct.pack("!ii", next(self._xids), GetData.type) + self._read.serialize())

    def _send(self, frame: bytes | bytearray) -> None:
        self.sockets[0].sendall(struct.pack("!i", len(frame)) + frame)


class EtcdWire(Wire):
    """A stream of gRPC with one watch, whose events say all."""

    def __init__(self, address: str, broker: str) -> None:
        super().__init__(address, broker)
        self._buffer = b""

    def begin(self) -> None:
        """Begin to watch."""
        key = etcd.key_of(TOPIC, self.broker)
        create = rpc.WatchRequest(create_request=rpc.WatchCreateRequest(key=key)).SerializeToString()
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": "/etcdserverpb.Watch/Watch",
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        self.sockets[0].sendall(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _http2(_SETTINGS, 0, 0, b"")
            + _http2(_HEADERS, _END_HEADERS, _STREAM, b"".join(map(_literal, headers.items())))
            + _http2(_DATA, 0, _STREAM, struct.pack("!BI", 0, len(create)) + create)
        )

    def received(self, _number: int, data: bytes) -> bool:
        """Return whether a change is known by what came."""
        self._buffer += data
        known = False
        for kind, flags, payload in self._frames():
            if kind in (_SETTINGS, _PING) and not flags & _ACK:
                self.sockets[0].sendall(_http2(kind, _ACK, 0, payload if kind == _PING else b""))
            elif kind == _DATA and payload:
                known |= bool(rpc.WatchResponse.FromString(payload[5:]).events)
        return known

    def _frames(self) -> Iterator[tuple[int, int, bytes]]:
        while len(self._buffer) >= _FRAME_HEAD:
            end = _FRAME_HEAD + int.from_bytes(self._buffer[:3])
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[:end], self._buffer[end:]
            yield frame[3], frame[4], frame[_FRAME_HEAD:]


class NameServerWire(Wire):
    """A connection that asks for the route now and then: what it learns, it learns by that."""

    def __init__(self, address: str, broker: str) -> None:
        super().__init__(address, broker)
        self._frames = FrameReader()
        self._before: Sequence[Any] | None = None

    def begin(self) -> None:
        """Begin to watch."""
        self.ask()

    def ask(self) -> None:
        """Ask what it asks while nothing happens."""
        self.sockets[0].sendall(encode(route_request(TOPIC)))

    def received(self, _number: int, data: bytes) -> bool:
        """Return whether a change is known by what came."""
        before = self._before
        for answer in self._frames.feed(data):
            if not brokers_of(answer):
                raise RuntimeError(f"a name server answered {answer.code}: {answer.remark}")
            self._before = json.loads(answer.body)["queueDatas"]
        return before is not None and self._before != before


class FastNameServerWire(NameServerWire):
    """The same, asking each second."""

    idle_s = name_server.FAST_POLL_S


class UsualNameServerWire(NameServerWire):
    """The same, asking as often as RocketMQ's client."""

    idle_s = name_server.DEFAULT_POLL_S


WIRES: Final[dict[str, Callable[[str, str], Wire]]] = {
    ours.OURS.name: OurWire,
    by_hand.BY_HAND.name: HandWrittenWire,
    zookeeper.ZOOKEEPER.name: ZooKeeperWire,
    etcd.ETCD.name: EtcdWire,
    name_server.ROCKETMQ.name: UsualNameServerWire,
    name_server.ROCKETMQ_FAST.name: FastNameServerWire,
}


def _redis(*words: str) -> bytes:
    pack: Any = hiredis.pack_command  # its stub knows commands of one word only
    command: bytes = pack(words)
    return command


def _replies(reader: Any, data: bytes) -> Iterator[Any]:
    reader.feed(data)
    while (reply := reader.gets()) is not False:
        if isinstance(reply, Exception):
            raise reply
        yield reply


def _http2(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3) + struct.pack("!BBI", kind, flags, stream) + payload


def _literal(header: tuple[str, str]) -> bytes:
    """Return a header that is not indexed, in HPACK (RFC 7541, 6.2.2); each word has less than 127 bytes."""
    return b"\x00" + b"".join(bytes((len(word),)) + word.encode() for word in header)
