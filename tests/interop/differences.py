"""The differences from RocketMQ's name server that docs/nameserver.md states, as the tests read them.

A row of the table stands for a difference when its code is that of the request (or `any`), and what is
written in backticks fits: in `situation` the request, in `original` and `front` the answers. There `*` stands
for any text, and what is written is looked for anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "nameserver.md"
COLUMNS: Final = ("code", "situation", "original", "front", "why")

_BACKTICKS: Final = re.compile(r"`([^`]+)`")
_BAR: Final = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Difference:
    """One row of the table."""

    code: str
    situation: str
    original: str
    front: str
    why: str

    def explains(self, code: int, request: str, original: str, front: str) -> bool:
        """Whether it is about this request and these answers."""
        return (
            self.code in ("any", str(code))
            and _fits(self.situation, request)
            and _fits(self.original, original)
            and _fits(self.front, front)
        )


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
    return all(_pattern(pattern).search(text) for pattern in _BACKTICKS.findall(cell))


def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, written.split("*"))), re.DOTALL)
