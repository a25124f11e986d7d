"""The header by which a proxy names its client: PROXY protocol, versions 1 and 2 (haproxy.org)."""

from __future__ import annotations

import ipaddress
import struct
from typing import Final

FIRST_BYTES: Final = (b"P", b"\r")
"""How a header begins; no frame does, as it would be longer than any may be."""

_V1_PREFIX: Final = b"PROXY "
_V1_MOST_BYTES: Final = 107
_V1_PARTS: Final = 6

_V2_SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V2_FIXED: Final = struct.Struct(">12sBBH")  # signature, version and command, family, length of the rest
_V2_MOST_BYTES: Final = 4_096
"""Real ones have a few hundred; what follows the addresses is not used here."""

_V2_LOCAL: Final = 0x20
_V2_PROXY: Final = 0x21
_V2_ADDRESSES: Final = {
    0x11: struct.Struct(">4s4sHH"),  # TCP over IPv4: source, destination, and their ports
    0x21: struct.Struct(">16s16sHH"),  # TCP over IPv6
}


class ProxyHeaderError(ValueError):
    """What began like a PROXY header is none; says what is wrong."""


class ProxyHeader:
    """Takes a header's bytes, however they are cut, and no byte of what follows."""

    def __init__(self) -> None:
        self._data = b""
        self.is_complete = False
        self.source: tuple[str, int] | None = None
        """Host and port of the client; None where the header does not say: LOCAL, UNKNOWN, other families."""

    def take(self, data: bytes) -> int:
        """Return how many of these bytes belong to the header; raises ProxyHeaderError."""
        begun = len(self._data)
        self._data += data
        is_text = self._data[:1] == _V1_PREFIX[:1]
        size = self._text_bytes() if is_text else self._binary_bytes()
        if size is None:
            return len(data)
        self._data = self._data[:size]
        self.source = _text_source(self._data) if is_text else _binary_source(self._data)
        self.is_complete = True
        return size - begun

    def _text_bytes(self) -> int | None:
        """Return how long a header of version 1 is, if its end is there."""
        prefix = self._data[: len(_V1_PREFIX)]
        end = self._data.find(b"\n", 0, _V1_MOST_BYTES)
        if not _V1_PREFIX.startswith(prefix) or (end < 0 and len(self._data) >= _V1_MOST_BYTES):
            raise ProxyHeaderError(f"PROXY protocol: {self._data[:_V1_MOST_BYTES]!r} is no header")
        return end + 1 or None

    def _binary_bytes(self) -> int | None:
        """Return how long a header of version 2 is, if all of it is there."""
        if not _V2_SIGNATURE.startswith(self._data[: len(_V2_SIGNATURE)]):
            raise ProxyHeaderError(f"PROXY protocol: {self._data[: len(_V2_SIGNATURE)]!r} is no signature")
        if len(self._data) < _V2_FIXED.size:
            return None
        size = _V2_FIXED.size + int(_V2_FIXED.unpack_from(self._data)[3])
        if size > _V2_MOST_BYTES:
            raise ProxyHeaderError(f"PROXY protocol: {size} bytes, and {_V2_MOST_BYTES} is the most")
        return size if len(self._data) >= size else None


def _text_source(header: bytes) -> tuple[str, int] | None:
    parts = header.removesuffix(b"\n").removesuffix(b"\r").decode("latin-1").split(" ")
    if parts[1] == "UNKNOWN":
        return None
    try:
        if len(parts) != _V1_PARTS or parts[1] not in {"TCP4", "TCP6"} or not header.endswith(b"\r\n"):
            raise ValueError(header)  # noqa: TRY301 - one message for all that may be wrong
        source, _ = ipaddress.ip_address(parts[2]), ipaddress.ip_address(parts[3])
        port, _ = _port(parts[4]), _port(parts[5])
    except ValueError:
        raise ProxyHeaderError(f"PROXY protocol: {header!r} is no header") from None
    return str(source), port


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= port <= 0xFFFF:  # noqa: PLR2004 - what two bytes hold
        raise ValueError(text)
    return port


def _binary_source(header: bytes) -> tuple[str, int] | None:
    _, command, family, size = _V2_FIXED.unpack_from(header)
    if command not in {_V2_LOCAL, _V2_PROXY}:
        raise ProxyHeaderError(f"PROXY protocol: version and command {command:#04x} are unknown")
    addresses = _V2_ADDRESSES.get(family)
    if command == _V2_LOCAL or addresses is None:
        return None
    if size < addresses.size:
        raise ProxyHeaderError(f"PROXY protocol: {size} bytes of addresses, and {addresses.size} are needed")
    source, _, port, _ = addresses.unpack_from(header, _V2_FIXED.size)
    return str(ipaddress.ip_address(source)), int(port)
