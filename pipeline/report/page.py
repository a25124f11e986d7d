"""The page: facts, plots and tables as HTML that needs nothing besides itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..tables import Column, Table

__all__ = ["Cell", "Fact", "Grid", "Page", "Plot", "Section", "cell", "grid", "render", "time_text"]

_ROWS: Final = 20
_LISTED: Final = 5
_SMALL: Final = 0.1
_AT: Final = ("begin", "end", "from", "to", "until", "since", "created", "gone", "hour", "told")
_TIMES: Final = tuple(f"{name}_ms" for name in _AT)


class Fact(NamedTuple):
    """One thing to know at a glance."""

    name: str
    value: str


class Plot(NamedTuple):
    """A picture as a URL that holds all of it, and what it shows."""

    url: str
    caption: str


class Cell(NamedTuple):
    """A value as people read it."""

    text: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class Grid:
    """The first rows of a table; `total` is how many there are."""

    name: str
    meaning: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    total: int


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; its anchor is what links to it end in."""

    anchor: str
    title: str
    text: str
    plots: Sequence[Plot] = ()
    grids: Sequence[Grid] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """All of it."""

    title: str
    period: str
    facts: Sequence[Fact]
    sections: Sequence[Section]
    warnings: Sequence[str] = ()


def render(page: Page) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(page=page)


def grid(table: Table, rows: Sequence[Sequence[Any]], total: int | None = None) -> Grid:
    """Return the first rows of a table as people read them."""
    shown = [
        [cell(column, value) for column, value in zip(table.columns, row, strict=True)]
        for row in rows[:_ROWS]
    ]
    return Grid(table.name, table.meaning, table.columns, shown, len(rows) if total is None else total)


def cell(column: Column, value: Any) -> Cell:
    """Return a value as text: times in UTC, numbers with as many digits as matter."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and _is_time(column):
        return Cell(time_text(value), is_number=False)
    return Cell(_text(value), is_number)


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number(value)
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case list():
            more = f" and {len(value) - _LISTED} more" if len(value) > _LISTED else ""
            return ", ".join(map(str, value[:_LISTED])) + more
    return str(value)


def _number(value: float) -> str:
    """Return a number with few decimals, but for a share near 1, of which the last ones matter."""
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 1:
        return f"{value:,.2f}"
    return f"{value:.6g}" if abs(value) > _SMALL else f"{value:.3g}"


def time_text(at_ms: int) -> str:
    """Return a time in ms since 1970 as `2026-11-21 21:20:00.123` in UTC."""
    seconds, rest_ms = divmod(at_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest_ms:03d}"


def _is_time(column: Column) -> bool:
    """Whether a column in ms holds times: durations are called after what they last, or `..._after_ms`."""
    return column.type == "bigint" and column.name.endswith(_TIMES)
