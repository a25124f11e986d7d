"""Frames: length, kind and length of the header, header, body; all numbers are big-endian.

The header is written as JSON, or in RocketMQ's binary form, which is shorter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import orjson

from . import fastjson
from .codes import LanguageCode, SerializeType
from .command import FrameError, RemotingCommand

Fields: TypeAlias = dict[str, Any]

MAX_FRAME_BYTES: Final = 16_777_216
"""The longest frame that RocketMQ takes, with the 4 bytes of its length (RocketMQ: frameMaxLength)."""

_MAX_HEADER_BYTES: Final = 0xFFFFFF
_LENGTH: Final = struct.Struct(">i")
_WORDS: Final = struct.Struct(">II")
_WORD_BYTES: Final = 4
_TYPE_SHIFT: Final = 24
_TLS: Final = b"\x16\x03"
"""How a TLS handshake begins."""

_FIXED: Final = struct.Struct(">hbhii")  # code, language, version, opaque, flag
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_INT_BITS: Final = 31
_SHORT_BITS: Final = 15


def encode(command: RemotingCommand, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Return the frame of a command; raises FrameError for what does not fit into one."""
    writes_json = command.serialize_type is SerializeType.JSON
    header = _json_header(command) if writes_json else _binary_header(command)
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
    fields = _from_json(header) if serialize_type is SerializeType.JSON else _from_binary(header)
    return RemotingCommand(**fields, body=frame[end:], serialize_type=serialize_type)


class FrameReader:
    """Turns the bytes that arrive on one connection, however they are cut, into commands."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_length = max_frame_bytes - _WORD_BYTES
        self._buffer = bytearray()
        self._error: FrameError | None = None
        self.before: list[RemotingCommand] = []
        """After a FrameError: the commands that were complete before it and were not returned."""

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
            # Raised as early as possible, so that a peer cannot make us buffer what can never be used.
            first = bytes(self._buffer[place : place + _WORD_BYTES])
            hint = "; this is how TLS begins" if first.startswith(_TLS) else ""
            possible = f"{_WORD_BYTES} to {self._max_length}"
            raise FrameError(f"frame: length {length} ({first!r}), and {possible} is possible{hint}")
        end = place + _WORD_BYTES + length
        return end if end <= len(self._buffer) else None


def _json_header(command: RemotingCommand) -> bytes:
    """Return the header with the fields in fastjson's order; raises FrameError for numbers out of range."""
    fields: Fields = {"code": _checked("code", command.code, _INT_BITS)}
    if command.ext_fields is not None:
        fields["extFields"] = dict(command.ext_fields)
    fields["flag"] = _checked("flag", command.flag, _INT_BITS)
    fields["language"] = command.language.name
    fields["opaque"] = _checked("opaque", command.opaque, _INT_BITS)
    if command.remark is not None:
        fields["remark"] = command.remark
    fields["serializeTypeCurrentRPC"] = SerializeType.JSON.name
    fields["version"] = _checked("version", command.version, _INT_BITS)
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError as error:
        raise FrameError(f"header: {error}") from None


def _from_json(header: bytes) -> Fields:
    """Return what a JSON header says, as the fields of a RemotingCommand; raises FrameError."""
    try:
        given = fastjson.loads(header)
    except ValueError as error:
        raise FrameError(f"header: is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise FrameError(f"header: expected an object, got {given!r:.80}")
    remark, ext_fields = given.get("remark"), given.get("extFields")
    if ext_fields is not None and not isinstance(ext_fields, dict):
        raise FrameError(f"extFields: expected an object, got {ext_fields!r:.80}")
    return {
        "code": _number(given, "code"),
        "language": _language(given.get("language")),
        "version": _number(given, "version"),
        "opaque": _number(given, "opaque"),
        "flag": _number(given, "flag"),
        "remark": None if remark is None else _text(remark),
        "ext_fields": None if ext_fields is None else _texts(ext_fields),
    }


def _binary_header(command: RemotingCommand) -> bytes:
    """Return the header; raises FrameError for what it cannot carry, for example a code above 32,767."""
    remark = _bytes("remark", command.remark or "")
    entries = _entries(command.ext_fields or {})
    return b"".join(
        (
            _FIXED.pack(
                _checked("code", command.code, _SHORT_BITS),
                command.language,
                _checked("version", command.version, _SHORT_BITS),
                _checked("opaque", command.opaque, _INT_BITS),
                _checked("flag", command.flag, _INT_BITS),
            ),
            _INT.pack(len(remark)),
            remark,
            _INT.pack(len(entries)),
            entries,
        )
    )


def _from_binary(header: bytes) -> Fields:
    """Return what a binary header says, as the fields of a RemotingCommand; raises FrameError."""
    if len(header) < _FIXED.size:
        raise FrameError(f"header: {len(header)} bytes, and the fixed part alone has {_FIXED.size}")
    code, language, version, opaque, flag = _FIXED.unpack_from(header)
    remark, place = _part(header, _FIXED.size, _INT, "remark")
    entries, _ = _part(header, place, _INT, "extFields")
    return {
        "code": code,
        "language": _language(language),
        "version": version,
        "opaque": opaque,
        "flag": flag,
        "remark": _decoded(remark) or None,
        "ext_fields": _from_entries(entries) or None,
    }


def _entries(ext_fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, value in ext_fields.items():
        key, content = _bytes("extFields", name), _bytes(f"extFields[{name!r}]", value)
        parts += (_SHORT.pack(_checked(f"extFields: length of {name!r:.40}", len(key), _SHORT_BITS)), key)
        parts += (_INT.pack(len(content)), content)
    return b"".join(parts)


def _from_entries(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    place = 0
    while place < len(data):
        key, place = _part(data, place, _SHORT, "extFields: key")
        name = _decoded(key)
        value, place = _part(data, place, _INT, f"extFields[{name!r:.40}]")
        if key and value:  # no length means null there
            found[name] = _decoded(value)
    return found


def _part(data: bytes, place: int, size: struct.Struct, name: str) -> tuple[bytes, int]:
    """Return the bytes behind a length, and where the next part begins."""
    begin = place + size.size
    if begin > len(data):
        raise FrameError(f"{name}: the header ends before its length")
    (length,) = size.unpack_from(data, place)
    if not 0 <= length <= len(data) - begin:
        raise FrameError(f"{name}: length {length}, and {len(data) - begin} bytes are left")
    return data[begin : begin + length], begin + length


def _number(given: Fields, name: str) -> int:
    """Return a number, which is 0 when it is not given, as in Java; fastjson takes a quoted one too."""
    value = given.get(name)
    if value is None:
        return 0
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            raise FrameError(f"{name}: expected a number, got {value!r:.80}") from None
    return _checked(name, value, _INT_BITS)


def _checked(name: str, value: object, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FrameError(f"{name}: expected a whole number, got {value!r:.80}")
    if not -(1 << bits) <= value < 1 << bits:
        raise FrameError(f"{name}: {value} does not fit into a signed number of {bits + 1} bits")
    return int(value)


def _language(given: object) -> LanguageCode:
    """Return the language, by its name or its number; what is unknown is OTHER, what is not given JAVA."""
    if given is None:
        return LanguageCode.JAVA
    if isinstance(given, str):
        return LanguageCode.__members__.get(given, LanguageCode.OTHER)
    try:
        return LanguageCode(given)  # type: ignore[arg-type]  # anything else is no language, and says so
    except ValueError:
        return LanguageCode.OTHER


def _texts(given: dict[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in given.items() if value is not None}


def _text(value: object) -> str:
    """Return text as it is, and the JSON of anything else, as fastjson does for a map of strings."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _bytes(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise FrameError(f"{name}: {error}") from None


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # as Java does
