"""Requests as bytes, also such as no sender would write, and answers exactly as they came."""

from __future__ import annotations

import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from sharedroutes.remoting import RemotingCommand, SerializeType, encode

SILENT: Final = "no answer"
CLOSED: Final = "connection closed"

_ANSWER_S: Final = 10.0
_TYPE_SHIFT: Final = 24
_HEADER_MASK: Final = 0xFFFFFF
_CRC_MASK: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent in one frame; names in it are those of `Names`."""

    code: int
    fields: Mapping[str, str] | None = None
    body: bytes = b""
    version: int = 513
    oneway: bool = False
    binary: bool = False
    header: Mapping[str, Any] = field(default_factory=dict)
    """Members of the JSON header beside, or in the place of, the usual ones."""

    @property
    def said(self) -> Mapping[str, str]:
        """The fields that the frame has."""
        told = self.header.get("extFields", self.fields) if not self.binary else self.fields
        return told or {}

    def frame(self, opaque: int) -> bytes:
        """Return the bytes of the frame."""
        flag = 2 if self.oneway else 0
        if self.binary:
            command = RemotingCommand(
                code=self.code,
                version=self.version,
                opaque=opaque,
                flag=flag,
                ext_fields=self.fields,
                body=self.body,
                serialize_type=SerializeType.ROCKETMQ,
            )
            return encode(command)
        header: dict[str, Any] = {"code": self.code, "flag": flag, "language": "JAVA", "opaque": opaque}
        header["version"] = self.version
        if self.fields is not None:
            header["extFields"] = dict(self.fields)
        text = orjson.dumps({**header, **self.header})
        return b"".join((_int(4 + len(text) + len(self.body)), _int(len(text)), text, self.body))


def crc32(body: bytes) -> int:
    """Return the checksum of a body as RocketMQ writes it."""
    return zlib.crc32(body) & _CRC_MASK


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The header and the body of an answer, as they came."""

    header: bytes
    body: bytes


class Link:
    """A connection to a name server."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self._opaque = 0

    def ask(self, request: Request) -> RawAnswer | str:
        """Return the answer to a request, or SILENT or CLOSED; a one-way request has none."""
        self._opaque += 1
        answer = self.send(request.frame(self._opaque), expect=not request.oneway)
        if isinstance(answer, RawAnswer):
            assert orjson.loads(answer.header)["opaque"] == self._opaque, "the answer to another request"
        return answer

    def send(self, data: bytes, *, expect: bool = True) -> RawAnswer | str:
        """Send any bytes; return what comes back as `ask` does."""
        try:
            self._socket.sendall(data)
            return self._read() if expect else SILENT
        except TimeoutError:
            return SILENT
        except (ConnectionError, EOFError):
            return CLOSED

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _read(self) -> RawAnswer:
        length = int.from_bytes(self._take(4), "big")
        frame = self._take(length)
        word = int.from_bytes(frame[:4], "big")
        assert word >> _TYPE_SHIFT == SerializeType.JSON, "a header that is not JSON"
        end = 4 + (word & _HEADER_MASK)
        return RawAnswer(frame[4:end], frame[end:])

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._received += data
        taken, self._received = self._received[:count], self._received[count:]
        return taken


def _int(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)
