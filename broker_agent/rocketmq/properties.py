"""Reads Java's .properties (java.util.Properties.load), and the settings of a broker from them.

It is our own since the library for it takes 1.3 MB of every agent's memory, for XML and HTTP that nobody
uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from ...registry import InvalidInput
from ...registry.checks import check_int

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*([ \t\f]*[=:]|[ \t\f])[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u.{0,4}|.)")
_CODE_UNIT: Final = re.compile("u[0-9A-Fa-f]{4}")  # int() would take 1_00 and blanks too
_CONTROLS: Final = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")  # as Java reads it; int() would take 1_000 too

OVERRIDE: Final = "override"
"""The place of a setting that was given in place of the file's."""


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


class _Value(NamedTuple):
    text: str
    place: str
    """Where it stands, for messages."""


class ConfValues:
    """The settings of one broker by RocketMQ's keys; an empty one counts as not set.

    Problems are collected instead of stopping at the first.
    """

    def __init__(
        self, source: str, found: dict[str, _Value], problems: list[str], overrides: Mapping[str, str]
    ) -> None:
        given = {key: _Value(text.strip(), OVERRIDE) for key, text in overrides.items() if text.strip()}
        self._source = source
        self._values = found | given
        self._problems = problems

    def get(self, key: str) -> str:
        """Return a setting, or ''."""
        return self._values[key].text if key in self._values else ""

    def place_of(self, key: str) -> str:
        """Return where a setting stands: source and line, or OVERRIDE; '' for one that is not set."""
        return self._values[key].place if self.get(key) else ""

    def text(self, key: str, default: str, check: Callable[[str], None] | None = None) -> str:
        """Return a setting, or the default; a wrong one becomes a problem."""
        value = self.get(key) or default
        if check is not None:
            self.check(key, lambda: check(value))
        return value

    def number(self, key: str, default: int, low: int, high: int) -> int:
        """Return a setting that is a whole number within low..high; anything else becomes a problem."""
        text = self.get(key)
        if not text:
            return default
        if not _WHOLE.fullmatch(text):
            self.problem(key, f"{text!r} is not a whole number")
            return default
        value = int(text)
        return value if self.check(key, lambda: check_int(key, value, low, high)) else default

    def word(self, key: str, *known: str, ignore_case: bool = False) -> str:
        """Return one of some words, the first by default; anything else becomes a problem."""
        text = self.get(key) or known[0]
        for word in known:
            if text == word or (ignore_case and text.lower() == word.lower()):
                return word
        self.problem(key, f"{text!r} is neither {' nor '.join(known)}")
        return known[0]

    def flag(self, key: str) -> bool:
        """Return a setting that is true or false, which is the default; anything else becomes a problem."""
        text = self.get(key).lower()
        if text not in ("true", "false", ""):
            self.problem(key, f"{self.get(key)!r} is neither true nor false")
        return text == "true"

    def check(self, key: str, check: Callable[[], None]) -> bool:
        """Return whether a check passes; the InvalidInput that it raises otherwise becomes a problem."""
        try:
            check()
        except InvalidInput as error:
            self._problems.append(f"{self._place(key)}: {error}")
            return False
        return True

    def problem(self, key: str, what: str, *, about: str = "") -> None:
        """Note a problem at the place of `key`, with the setting `about` if that is another one."""
        self._problems.append(f"{self._place(key)}: {about or key}: {what}")

    def raise_problems(self) -> None:
        """Raise InvalidInput when there are problems."""
        if self._problems:
            raise InvalidInput("\n".join(self._problems))

    def _place(self, key: str) -> str:
        return self._values[key].place if key in self._values else self._source


def of_file(content: bytes, source: str, overrides: Mapping[str, str]) -> ConfValues:
    """Return the settings of a properties file; `overrides` that are not empty go before them."""
    found: dict[str, _Value] = {}
    problems: list[str] = []
    if b"\0" in content:
        problems.append(f"{source}: is no text: a byte in it is 0")
    else:
        try:
            for one in parse(content):
                found[one.key] = _Value(one.value.strip(), f"{source}:{one.line}")
        except MalformedEscape as error:
            problems.append(f"{source}:{error.line}: {error}")
    return ConfValues(source, found, problems, overrides)


def of_running(content: bytes, source: str, overrides: Mapping[str, str]) -> ConfValues:
    """Return the settings that a broker answers: `key=value` lines in which nothing is escaped."""
    pairs = (line.partition("=") for line in content.decode(errors="replace").split("\n"))
    found = {key.strip(): _Value(text.strip(), source) for key, _, text in pairs}
    return ConfValues(source, found, [], overrides)
