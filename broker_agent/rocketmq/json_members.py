"""Reads a large JSON text member by member, so that it never stands in memory as a whole.

A table of 10,000 topics is 2.5 MB of text, and 10 MB when it is parsed at once: memory that a process
does not give back. Member by member it takes no more than what is kept of it, and no more time.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_PLAIN_KEY: Final = re.compile(r'"([^"\\\x00-\x1f]*+)"[ \t\n\r]*+:[ \t\n\r]*+')
_NEXT_MEMBER: Final = re.compile(r',[ \t\n\r]*+(?=")')
_CHUNK_BYTES: Final = 65_536
"""Less than what the allocator takes from the system for itself, and keeps."""

_LONGEST_CUT: Final = len("e+5")


class _NoJson(ValueError):
    """A constant that Python's own reading takes: NaN, Infinity."""


def _no_constant(name: str) -> NoReturn:
    raise _NoJson(f"{name} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


class JsonText:
    """A JSON text and a place in it; every method raises ValueError, with the place, for what is no JSON."""

    def __init__(self, content: bytes | memoryview, *, chunk_bytes: int = _CHUNK_BYTES) -> None:
        self._content = memoryview(content)
        self._chunk_bytes = chunk_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._taken = 0  # bytes of the content
        self._text = ""  # what of it is looked at
        self._at = 0
        self._lines = self._columns = 0  # before that text
        self._skip()

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return not self._next()

    def at_object(self) -> bool:
        """Whether the next value is an object."""
        return self._next() == "{"

    def members(self) -> Iterator[str]:
        """Yield the key of each member of the object that is next; take its value before the next key."""
        self._past("{")
        if self._next() == "}":
            self._past("}")
            return
        while True:
            yield self._key()
            if next_one := _NEXT_MEMBER.match(self._text, self._at):
                self._at = next_one.end()
            elif self._next() == "}":
                self._past("}")
                return
            else:
                self._past(",")

    def value(self) -> Any:
        """Return the next value, whatever it is."""
        while True:
            try:
                found, at = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._more():  # it may only have been cut off
                    continue
                raise self._wrong(error.msg, error.pos) from None  # not from it: it keeps the text
            except ValueError as error:
                raise self._wrong(str(error) if isinstance(error, _NoJson) else "a number too long") from None
            except RecursionError:
                raise self._wrong("nested too deeply") from None
            # Near the end of what is looked at, it may be the beginning of a number: 1 of 1e+5.
            if len(self._text) - at >= _LONGEST_CUT or not self._more():
                self._at = at
                self._skip()
                return found

    def end(self) -> None:
        """Raise ValueError unless the text ends here."""
        if self._next():
            raise self._wrong("extra data")

    def _key(self) -> str:
        """Return the key that is next, and go on to its value."""
        plain = _PLAIN_KEY.match(self._text, self._at)
        if plain and plain.end() < len(self._text):  # the usual case at once
            self._at = plain.end()
            return plain[1]
        if self._next() != '"':
            raise self._wrong("expecting a property name in double quotes")
        key: str = self.value()
        self._past(":")
        return key

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _past(self, sign: str) -> None:
        if self._next() != sign:
            raise self._wrong(f"expecting {sign!r}")
        self._at += 1
        self._skip()

    def _skip(self) -> None:
        """Go on to what is no white space."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text) or not self._more():
                return

    def _more(self) -> bool:
        """Look at more of the content, from here on; return whether there was more."""
        left = len(self._content) - self._taken
        if not left:
            return False
        size = min(left, max(self._chunk_bytes, len(self._text) - self._at))  # twice as much each time
        piece = self._content[self._taken : self._taken + size]
        self._taken += size
        self._lines, self._columns = self._place(self._at)
        self._text = self._text[self._at :] + self._decoder.decode(piece, final=size == left)
        self._at = 0
        return True

    def _place(self, at: int) -> tuple[int, int]:
        """Return the line and the column, from 0, of a place in the text that is looked at."""
        lines = self._text.count("\n", 0, at)
        column = at - self._text.rfind("\n", 0, at) - 1
        return self._lines + lines, column if lines else self._columns + at

    def _wrong(self, what: str, at: int | None = None) -> ValueError:
        line, column = self._place(self._at if at is None else at)
        return ValueError(f"{what}: line {line + 1} column {column + 1}")
