"""Frames: length, kind and length of the header, header, body; all numbers are big-endian.

The header is written as JSON, or in RocketMQ's binary form, which is shorter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import orjson

from . import fastjson
from .codes import LanguageCode, SerializeType
from .command import FrameError, RemotingCommand

Fields: TypeAlias = dict[str, Any]

MAX_FRAME_BYTES: Final = 16_777_216
"""The longest frame that RocketMQ takes, with the 4 bytes of its length (RocketMQ: frameMaxLength)."""

_MAX_HEADER_BYTES: Final = 0xFFFFFF
_WORD: Final = struct.Struct(">I")
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
_LEAST_INT: Final = -(1 << _INT_BITS)
_MOST_INT: Final = (1 << _INT_BITS) - 1

_LANGUAGES: Final = dict(LanguageCode.__members__)


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


class FrameTemplate:
    """Encodes commands with a JSON header that differ in opaque and body alone: all else is made once."""

    def __init__(self, command: RemotingCommand) -> None:
        # A field of that name has a text as its value.
        before, _, self._after = _json_header(replace(command, opaque=0)).partition(b'"opaque":0')
        self._before = before + b'"opaque":'

    def encode(self, opaque: int, body: bytes) -> bytes:
        """Return the frame, as the function `encode` does; raises FrameError for a body that is too long."""
        number = b"%d" % opaque
        header_size = len(self._before) + len(number) + len(self._after)
        length = _WORD_BYTES + header_size + len(body)
        if length + _WORD_BYTES > MAX_FRAME_BYTES:
            raise FrameError(f"frame: {length + _WORD_BYTES} bytes, and {MAX_FRAME_BYTES} is the most")
        words = _WORDS.pack(length, header_size)
        return b"".join((words, self._before, number, self._after, body))


def decode(frame: bytes) -> RemotingCommand:
    """Return the command of what follows the length in a frame; raises FrameError."""
    if len(frame) < _WORD_BYTES:
        raise FrameError(f"frame: length {len(frame)}, and {_WORD_BYTES} is the least")
    return _decoded_frame(frame, 0, len(frame), _MAX_HEADER_BYTES)


class FrameReader:
    """Turns the bytes that arrive on one connection, however they are cut, into commands."""

    def __init__(
        self, max_frame_bytes: int = MAX_FRAME_BYTES, *, max_header_bytes: int = _MAX_HEADER_BYTES
    ) -> None:
        self._max_length = max_frame_bytes - _WORD_BYTES
        self._max_header_bytes = max_header_bytes
        self._buffer = bytearray()
        self._error: FrameError | None = None
        self.before: list[RemotingCommand] = []
        """After a FrameError: the commands that were complete before it and were not returned."""

        self.pending_bytes = 0
        """How many bytes wait for the rest of their frame."""

        self.frame_bytes = 0
        """How long the frame is that these bytes begin; 0 = none is begun, or its length is not there yet."""

    def feed(self, data: bytes) -> list[RemotingCommand]:
        """Return the commands that are complete with `data`; raises FrameError, and the same from then on."""
        if self._error is not None:
            raise self._error
        source: bytes | bytearray = data
        if self._buffer:  # most reads bring whole frames: then nothing is copied
            self._buffer += data
            source = self._buffer
        commands: list[RemotingCommand] = []
        place = 0
        try:
            while (end := self._end(source, place)) and end <= len(source):
                commands.append(_decoded_frame(source, place + _WORD_BYTES, end, self._max_header_bytes))
                place = end
        except FrameError as error:
            self._error, self.before = error, commands
            self._buffer = bytearray()
            self.pending_bytes = self.frame_bytes = 0
            raise
        self.frame_bytes = end - place if end else 0
        self.pending_bytes = len(source) - place
        if source is data:
            self._buffer += data[place:]
        else:
            del self._buffer[:place]
        return commands

    def _end(self, source: bytes | bytearray, place: int) -> int:
        """Return where the frame at `place` ends, or 0 while its length is not there."""
        if len(source) - place < _WORD_BYTES:
            return 0
        (length,) = _INT.unpack_from(source, place)
        if not _WORD_BYTES <= length <= self._max_length:
            # Raised as early as possible, so that a peer cannot make us buffer what can never be used.
            first = bytes(source[place : place + _WORD_BYTES])
            hint = "; this is how TLS begins" if first.startswith(_TLS) else ""
            possible = f"{_WORD_BYTES} to {self._max_length}"
            raise FrameError(f"frame: length {length} ({first!r}), and {possible} is possible{hint}")
        return place + _WORD_BYTES + int(length)


def _decoded_frame(source: bytes | bytearray, place: int, end: int, max_header_bytes: int) -> RemotingCommand:
    """Return the command of a frame whose header word is at `place`; raises FrameError."""
    (word,) = _WORD.unpack_from(source, place)
    kind, begin = word >> _TYPE_SHIFT, place + _WORD_BYTES
    body = begin + (word & _MAX_HEADER_BYTES)
    if body > end:
        raise FrameError(f"header: {body - begin} bytes in a frame of length {end - place}")
    if body - begin > max_header_bytes:
        raise FrameError(f"header: {body - begin} bytes, and {max_header_bytes} is the most")
    if kind >= len(_READERS):
        raise FrameError(f"header: unknown serialize type {kind}")
    if isinstance(source, bytes):
        return _READERS[kind](source[begin:body], source[body:end])
    with memoryview(source) as view:  # copies each once
        return _READERS[kind](bytes(view[begin:body]), bytes(view[body:end]))


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


def _from_json(header: bytes, body: bytes) -> RemotingCommand:
    """Return the command of a JSON header; raises FrameError."""
    try:
        given = fastjson.loads(header)
    except ValueError as error:
        raise FrameError(f"header: is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise FrameError(f"header: expected an object, got {given!r:.80}")
    remark, ext_fields = given.get("remark"), given.get("extFields")
    if ext_fields is not None and not isinstance(ext_fields, dict):
        raise FrameError(f"extFields: expected an object, got {ext_fields!r:.80}")
    return RemotingCommand(
        code=_number(given, "code"),
        language=_language(given.get("language")),
        version=_number(given, "version"),
        opaque=_number(given, "opaque"),
        flag=_number(given, "flag"),
        remark=None if remark is None else _text(remark),
        ext_fields=None if ext_fields is None else _texts(ext_fields),
        body=body,
        serialize_type=SerializeType.JSON,
    )


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


def _from_binary(header: bytes, body: bytes) -> RemotingCommand:
    """Return the command of a binary header; raises FrameError."""
    if len(header) < _FIXED.size:
        raise FrameError(f"header: {len(header)} bytes, and the fixed part alone has {_FIXED.size}")
    code, language, version, opaque, flag = _FIXED.unpack_from(header)
    remark, place = _part(header, _FIXED.size, _INT, "remark")
    entries, _ = _part(header, place, _INT, "extFields")
    return RemotingCommand(
        code=code,
        language=_language(language),
        version=version,
        opaque=opaque,
        flag=flag,
        remark=_decoded(remark) or None,
        ext_fields=_from_entries(entries) or None,
        body=body,
        serialize_type=SerializeType.ROCKETMQ,
    )


_READERS: Final = (_from_json, _from_binary)
"""What reads a header, by the number of its serialize type."""


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
    if type(value) is int and _LEAST_INT <= value <= _MOST_INT:
        return value
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
    if isinstance(given, str):
        return _LANGUAGES.get(given, LanguageCode.OTHER)
    if given is None:
        return LanguageCode.JAVA
    try:
        return LanguageCode(given)  # type: ignore[arg-type]  # anything else is no language, and says so
    except ValueError:
        return LanguageCode.OTHER


def _texts(given: dict[str, object]) -> dict[str, str]:
    return {
        name: value if type(value) is str else _text(value)
        for name, value in given.items()
        if value is not None
    }


def _text(value: object) -> str:
    """Return text as it is, and the JSON of anything else, as fastjson does for a map of strings."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:  # it reads deeper values than it writes
        raise FrameError(f"header: {error}") from None


def _bytes(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise FrameError(f"{name}: {error}") from None


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")  # as Java does
