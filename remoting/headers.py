"""The two ways to write the header of a frame: JSON, and RocketMQ's binary one."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import orjson

from . import fastjson
from .codes import LanguageCode, SerializeType
from .command import RemotingCommand
from .errors import FrameError

Fields: TypeAlias = dict[str, Any]

_FIXED: Final = struct.Struct(">hbhii")  # code, language, version, opaque, flag
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_INT_BITS: Final = 31
_SHORT_BITS: Final = 15


def json_header(command: RemotingCommand) -> bytes:
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


def from_json(header: bytes) -> Fields:
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


def binary_header(command: RemotingCommand) -> bytes:
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


def from_binary(header: bytes) -> Fields:
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
