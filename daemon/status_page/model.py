"""What stands on the page, as values: what a process says of itself, and the parts that HTML is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Level: TypeAlias = Literal["", "good", "warn", "bad"]


FACTS: Final = ("Fact", "Value")


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
