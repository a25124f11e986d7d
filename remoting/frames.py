"""Frames: length, kind and length of the header, header, body; all numbers are big-endian."""

from __future__ import annotations

import struct
from typing import Final

from .codes import SerializeType
from .command import RemotingCommand
from .errors import FrameError
from .headers import binary_header, from_binary, from_json, json_header

MAX_FRAME_BYTES: Final = 16_777_216
"""The longest frame that RocketMQ takes, with the 4 bytes of its length (RocketMQ: frameMaxLength)."""

_MAX_HEADER_BYTES: Final = 0xFFFFFF
_LENGTH: Final = struct.Struct(">i")
_WORDS: Final = struct.Struct(">II")
_WORD_BYTES: Final = 4
_TYPE_SHIFT: Final = 24
_TLS: Final = b"\x16\x03"
"""How a TLS handshake begins."""


def encode(command: RemotingCommand, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Return the frame of a command; raises FrameError for what does not fit into one."""
    writes_json = command.serialize_type is SerializeType.JSON
    header = json_header(command) if writes_json else binary_header(command)
    if len(header) > _MAX_HEADER_BYTES:
        raise FrameError(f"header: {len(header)} bytes, and {_MAX_HEADER_BYTES} is the most")
    length = _WORD_BYTES + len(header) + len(command.body)
    if length + _WORD_BYTES > max_frame_bytes:
        raise FrameError(f"frame: {length + _WORD_BYTES} bytes, and {max_frame_bytes} is the most")
    words = _WORDS.pack(length, command.serialize_type << _TYPE_SHIFT | len(header))
    return b"".join((words, header, command.body))


def decode(frame: bytes) -> RemotingCommand:
    """Return the command of what follows the length in a frame; raises FrameError."""
    if len(frame) < _WORD_BYTES:
        raise FrameError(f"frame: length {len(frame)}, and {_WORD_BYTES} is the least")
    word = int.from_bytes(frame[:_WORD_BYTES], "big")
    kind, end = word >> _TYPE_SHIFT, _WORD_BYTES + (word & _MAX_HEADER_BYTES)
    if end > len(frame):
        raise FrameError(f"header: {end - _WORD_BYTES} bytes in a frame of length {len(frame)}")
    try:
        serialize_type = SerializeType(kind)
    except ValueError:
        raise FrameError(f"header: unknown serialize type {kind}") from None
    header = frame[_WORD_BYTES:end]
    fields = from_json(header) if serialize_type is SerializeType.JSON else from_binary(header)
    return RemotingCommand(**fields, body=frame[end:], serialize_type=serialize_type)


class FrameReader:
    """Makes commands of the bytes that arrive on one connection, however they are cut."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_length = max_frame_bytes - _WORD_BYTES
        self._buffer = bytearray()
        self._error: FrameError | None = None
        self.before: list[RemotingCommand] = []
        """After a FrameError: the commands that arrived whole before it, and were not returned."""

    @property
    def pending_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[RemotingCommand]:
        """Return the commands that are complete with `data`; raises FrameError, and the same from then on."""
        if self._error is not None:
            raise self._error
        self._buffer += data
        commands: list[RemotingCommand] = []
        place = 0
        try:
            while (end := self._end(place)) is not None:
                commands.append(decode(bytes(self._buffer[place + _WORD_BYTES : end])))
                place = end
        except FrameError as error:
            self._error, self.before = error, commands
            self._buffer.clear()
            raise
        del self._buffer[:place]
        return commands

    def _end(self, place: int) -> int | None:
        """Return where the frame at `place` ends, or None while it is not complete."""
        if len(self._buffer) - place < _WORD_BYTES:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, place)
        if not _WORD_BYTES <= length <= self._max_length:
            # Said as soon as it is known, so that nobody makes us keep what can never be used.
            first = bytes(self._buffer[place : place + _WORD_BYTES])
            hint = "; this is how TLS begins" if first.startswith(_TLS) else ""
            possible = f"{_WORD_BYTES} to {self._max_length}"
            raise FrameError(f"frame: length {length} ({first!r}), and {possible} is possible{hint}")
        end = place + _WORD_BYTES + length
        return end if end <= len(self._buffer) else None
