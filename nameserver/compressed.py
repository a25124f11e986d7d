"""The parts of a compressed body, inflated as they are read, so that a small one cannot take much memory."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import Any, Final

from ..registry import InvalidInput

MAX_INFLATED_BYTES: Final = 67_108_864
"""A body with more is refused; a plain one cannot have more than a quarter of it."""

MAX_TOPICS: Final = 200_000
"""Topics in one body, of any kind; brokers write them so that a plain one has room for half of them."""

MAX_TEXT_BYTES: Final = 1_048_576
"""One topic, or the mapping of one; the registry holds less of both."""

_SLICE_BYTES: Final = 65_536
_INT_BYTES: Final = 4


class BodyError(InvalidInput):
    """A body that cannot be understood; nothing of it was used."""


def check_number(what: str, number: int) -> None:
    """Raise BodyError for more topics, or mappings of topics, than a body may have."""
    if number > MAX_TOPICS:
        raise BodyError(f"number of {what}: {number}, the limit is {MAX_TOPICS}")


class _Inflated(io.RawIOBase):
    """The content of a zlib stream, of which no more is inflated at once than is read."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._body = io.BytesIO(body)
        self._zlib = zlib.decompressobj()
        self._left = MAX_INFLATED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data, given = b"", b"-"
        while given and not data:
            # In slices: what zlib does not take at once it copies.
            given = self._zlib.unconsumed_tail or self._body.read(_SLICE_BYTES)
            try:
                data = self._zlib.decompress(given, len(buffer))
            except zlib.error as error:
                raise BodyError(f"body: cannot be decompressed: {error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise BodyError(f"body: has more than {MAX_INFLATED_BYTES} bytes when it is decompressed")
        buffer[: len(data)] = data
        return len(data)


class CompressedParts:
    """Numbers, and texts behind their lengths; every method raises BodyError."""

    def __init__(self, body: bytes) -> None:
        self._content = io.BufferedReader(_Inflated(body), _SLICE_BYTES)

    def number(self, what: str) -> int:
        """Return the next number, which is not negative."""
        found = int.from_bytes(self._read(_INT_BYTES, what), "big", signed=True)
        if found < 0:
            raise BodyError(f"{what}: {found} is negative")
        return found

    def text(self, what: str) -> bytes:
        """Return the text behind the next number."""
        return self._read(self.number(f"length of {what}"), what)

    def texts(self, what: str) -> Iterator[bytes]:
        """Yield as many texts as the next number says."""
        number = self.number(f"number of {what}")
        check_number(what, number)
        return (self.text(what) for _ in range(number))

    def _read(self, size: int, what: str) -> bytes:
        if size > MAX_TEXT_BYTES:  # before memory for it is taken
            raise BodyError(f"{what}: has {size} bytes, the limit is {MAX_TEXT_BYTES}")
        found = self._content.read(size)
        if len(found) < size:
            raise BodyError(f"{what}: the body ends before it does")
        return found
