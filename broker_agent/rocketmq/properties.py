"""The settings of a broker, from a properties file or from the running broker."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...registry import InvalidInput
from ...registry.checks import check_int
from ...remoting.properties import MalformedEscape, parse

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")  # as Java reads it; int() would take 1_000 too

OVERRIDE: Final = "override"
"""The place of a setting that was given in place of the file's."""


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
