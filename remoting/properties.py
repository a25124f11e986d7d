"""Reads Java's .properties (java.util.Properties.load).

It is our own since the library for it takes 1.3 MB of every agent's memory, for XML and HTTP that nobody
uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*([ \t\f]*[=:]|[ \t\f])[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)")
_CODE_UNIT: Final = re.compile("u[0-9A-Fa-f]{4}")  # int() would take 1_00 and blanks too
_CONTROLS: Final = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class Property(NamedTuple):
    """A key and its value, without their escapes."""

    line: int
    """The number of its first line, from 1."""

    key: str
    value: str


class MalformedEscape(ValueError):
    r"""A `\u` without four hexadecimal digits; `line` is the first one of its property, from 1."""

    def __init__(self, escape: str) -> None:
        super().__init__(f"Invalid \\u escape sequence: {escape}")
        self.line = 0


def parse(content: bytes) -> Iterator[Property]:
    """Yield each property, in ISO 8859-1 as Java reads it; raises MalformedEscape in its turn."""
    lines = iter(enumerate(_LINE_END.split(content.decode("iso-8859-1")), 1))
    for number, line in lines:
        text = line.lstrip(_BLANKS)
        if text.startswith(("#", "!")):
            continue
        while _continues(text):
            _, more = next(lines, (0, ""))
            text = text[:-1] + more.lstrip(_BLANKS)
        if text:
            yield _property(number, text)


def _continues(text: str) -> bool:
    r"""Whether the next line belongs to this one: `\\` at its end is a backslash, and not half of two."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _property(line: int, text: str) -> Property:
    separator = _SEPARATOR.search(text)
    key, value = (text[: separator.start(1)], text[separator.end() :]) if separator else (text, "")
    try:
        return Property(line, _unescape(key), _unescape(value))
    except MalformedEscape as error:
        error.line = line
        raise


def _unescape(text: str) -> str:
    """Return the text without its escapes; Java writes two, a surrogate pair, for some letters."""
    if "\\" not in text:
        return text
    units = _ESCAPE.sub(_unescaped, text).encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "surrogatepass")


def _unescaped(escape: re.Match[str]) -> str:
    sign = escape[1]
    if not sign.startswith("u"):
        return _CONTROLS.get(sign, sign)
    if not _CODE_UNIT.fullmatch(sign):
        raise MalformedEscape(escape[0])
    return chr(int(sign[1:], 16))
