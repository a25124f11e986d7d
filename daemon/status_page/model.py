"""What stands on the page: what a process says of itself, parts that HTML is made of, and values in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from ...registry.wording import some

Level: TypeAlias = Literal["", "good", "warn", "bad"]

FACTS: Final = ("Fact", "Value")
_LONGEST: Final = 300
_LISTED: Final = 4
_UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_EXACT_S: Final = 10
_SINCE_1970: Final = (0, 253_402_300_799_999)
"""What a date can be made of, in ms."""


class Cell(NamedTuple):
    """A value as people read it; `more` is what they read when they point at it."""

    text: str
    level: Level = ""
    is_number: bool = False
    more: str = ""


class Tile(NamedTuple):
    """One thing to know at a glance; `anchor` names the section that has more of it."""

    name: str
    value: str
    note: str
    level: Level = ""
    anchor: str = ""


class Fault(NamedTuple):
    """Something that is not as it should be, what it is about, and what is known of it."""

    level: Level
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, the first of which names the row; `none` is said where there is no row."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    none: str
    total: int | None = None
    """How many rows there would be without a bound; None = no more than these."""

    def is_number(self, column: int) -> bool:
        """Whether numbers stand in a column."""
        return any(row[column].is_number for row in self.rows)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; links to it end in its anchor."""

    anchor: str
    title: str
    table: Table
    note: str = ""

    @property
    def is_facts(self) -> bool:
        """Whether each row is a fact and its value."""
        return self.table.heads == FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What a process says of itself, for the page."""

    title: str
    place: str
    """Which one it is: where it listens, or whom it serves."""

    version: str
    uptime_s: float
    store: str
    """The URL, without passwords."""

    namespace: str
    unready: Sequence[str] = ()
    """Why it cannot do its work; empty = it can."""

    faults: Sequence[Fault] = ()
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
    """What comes before the registry."""

    details: Sequence[Section] = ()
    """What comes after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """All of it."""

    title: str
    lines: Sequence[str]
    part: str
    """What the names that are shown contain; empty = anything."""

    tiles: Sequence[Tile]
    sections: Sequence[Section]


# --- values as people read them ---


def cut(text: str) -> str:
    """Return a text, without its end if it is long."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def length(seconds: float) -> str:
    """Return a length of time, such as `2 h 5 min`."""
    for size, unit, part, part_unit in _UNITS:
        if seconds >= size:
            parts = int(seconds % size // part)
            return f"{int(seconds // size)} {unit}" + (f" {parts} {part_unit}" if parts else "")
    return f"{seconds:.1f} s" if seconds < _EXACT_S and seconds % 1 else f"{seconds:.0f} s"


def ago(at_ms: int, now_ms: int) -> Cell:
    """Return how long ago something was, and when exactly."""
    first_ms, last_ms = _SINCE_1970
    if not first_ms <= at_ms <= last_ms:
        return Cell("at no time", more=str(at_ms))
    exact = datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Cell(f"{length(max(0, now_ms - at_ms) // 1_000)} ago", more=exact)


def names(found: Sequence[str]) -> Cell:
    """Return the first names, and how many more there are."""
    every = cut(", ".join(found)) if len(found) > _LISTED else ""
    return Cell(some(found, _LISTED, cut=cut), more=every)


def number(value: float) -> Cell:
    """Return a number."""
    return Cell(f"{value:,.0f}", is_number=True)
