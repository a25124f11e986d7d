"""The differences from RocketMQ's name server, as the tests read them in docs/nameserver/differences.md.

A row of the table is about an answer when its code is that of the request (or `any`), and its situation is
the one that the answer is given in: what is written there in backticks is found in the request or in one
before it, or `situations.py` says what its words mean. Then what is written in backticks in `original` and
`front` explains the answers. There `*` stands for any text, `U+2028` for that character, and what is written
is looked for anywhere. Where both are parts of an answer, which name no code, all the rest has to be equal,
but for parts of other rows that are about this answer too; there `*` stands for one value, and `NAME` for
each name that the situation is about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .situations import SITUATIONS, Past

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "nameserver" / "differences.md"
COLUMNS: Final = ("code", "situation", "original", "front", "why")

_BACKTICKS: Final = re.compile(r"`([^`]+)`")
_BAR: Final = re.compile(r"(?<!\\)\|")
_CHARACTER: Final = re.compile(r"U\+([0-9A-F]{4})")
_VALUE: Final = r'[^",\]}]*'
_WHOLE: Final = '"code":'
"""Stands in a pattern that is about a whole answer."""

_NAME: Final = "NAME"
_LOOSE_COMMAS: Final = re.compile(r",+(?=[\]},])|(?<=[\[{]),+")


@dataclass(frozen=True, slots=True)
class Difference:
    """One row of the table."""

    code: str
    situation: str
    original: str
    front: str
    why: str

    @property
    def is_of_parts(self) -> bool:
        """Whether it is about parts of an answer."""
        return bool(_BACKTICKS.search(self.original)) and _WHOLE not in self.original + self.front

    def about(self, past: Past, told: str) -> Collection[str] | None:
        """Return the names that it is about, perhaps none, in its situation; None in any other.

        `told`: the last of the requests and those before it, as text.
        """
        if self.code not in ("any", str(past.asked.code)):
            return None
        if _BACKTICKS.search(self.situation):
            return () if _fits(self.situation, told) else None
        found = SITUATIONS[self.situation](past)
        return (() if found is True else found) if found else None

    def parts(self, names: Collection[str]) -> Iterator[str]:
        """Yield the parts of answers that may differ."""
        for part in _BACKTICKS.findall(self.original) + _BACKTICKS.findall(self.front):
            yield from (part.replace(_NAME, name) for name in names) if _NAME in part else (part,)

    def fits(self, original: str, front: str) -> bool:
        """Whether it says of two whole answers what they are."""
        return _fits(self.original, original) and _fits(self.front, front)


def explanation(
    differences: Sequence[Difference], past: Past, told: str, original: str, front: str
) -> list[Difference]:
    """Return the rows by which two answers may differ; none = they may not."""
    found = [(row, names) for row in differences if (names := row.about(past, told)) is not None]
    for row, _ in found:
        if not row.is_of_parts and row.fits(original, front):
            return [row]
    of_parts = [(row, names) for row, names in found if row.is_of_parts]
    parts = [part for row, names in of_parts for part in row.parts(names)]
    return [row for row, _ in of_parts] if _without(parts, original) == _without(parts, front) else []


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


def _without(parts: Sequence[str], text: str) -> str:
    for part in parts:
        text = _pattern(part, _VALUE).sub("", text)
    return _LOOSE_COMMAS.sub("", text)


def _pattern(written: str, any_text: str) -> re.Pattern[str]:
    text = _CHARACTER.sub(lambda found: chr(int(found[1], 16)), written)
    return re.compile(any_text.join(map(re.escape, text.split("*"))), re.DOTALL)
