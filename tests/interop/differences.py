"""The differences from RocketMQ's name server, as the tests read them in docs/nameserver/differences.md.

A row of the table stands for a difference when its code is that of the request (or `any`), and what is
written in backticks fits: in `situation` the request or one before it, in `original` and `front` the answers.
There `*` stands for any text, `U+2028` for that character, and what is written is looked for anywhere. Where
`original` and `front` are parts of an answer, which do not name a code, all the rest has to be equal; there
`*` stands for one value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "nameserver" / "differences.md"
COLUMNS: Final = ("code", "situation", "original", "front", "why")

_BACKTICKS: Final = re.compile(r"`([^`]+)`")
_BAR: Final = re.compile(r"(?<!\\)\|")
_CHARACTER: Final = re.compile(r"U\+([0-9A-F]{4})")
_VALUE: Final = r'[^",\]}]*'
_WHOLE: Final = '"code":'
"""Stands in a pattern that is about a whole answer."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One row of the table."""

    code: str
    situation: str
    original: str
    front: str
    why: str

    def explains(self, code: int, requests: str, original: str, front: str) -> bool:
        """Whether it is about these answers to the last of the requests."""
        if self.code not in ("any", str(code)) or not _fits(self.situation, requests):
            return False
        parts = _BACKTICKS.findall(self.original) + _BACKTICKS.findall(self.front)
        if not any(_WHOLE in part for part in parts) and _BACKTICKS.search(self.original):
            return _without(parts, original) == _without(parts, front)
        return _fits(self.original, original) and _fits(self.front, front)


def differences(page: str) -> list[Difference]:
    """Return the rows of the page's table of differences."""
    found: list[Difference] = []
    inside = False
    for line in page.splitlines():
        cells = tuple(cell.strip().replace(r"\|", "|") for cell in _BAR.split(line)[1:-1])
        if cells == COLUMNS:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set("".join(cells)) <= set("-: "):
            assert len(cells) == len(COLUMNS), line
            found.append(Difference(*cells))
    return found


def _fits(cell: str, text: str) -> bool:
    return all(_pattern(one, ".*").search(text) for one in _BACKTICKS.findall(cell))


def _without(parts: list[str], text: str) -> str:
    for part in parts:
        text = _pattern(part, _VALUE).sub("", text)
    return text


def _pattern(written: str, any_text: str) -> re.Pattern[str]:
    text = _CHARACTER.sub(lambda found: chr(int(found[1], 16)), written)
    return re.compile(any_text.join(map(re.escape, text.split("*"))), re.DOTALL)
