"""Tables for people; nothing that they may want to copy is cut or broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import click
from rich.cells import cell_len

from ..daemon.printing import Record, print_records, shown, terminal_columns

_GAP: Final = "  "

Cell: TypeAlias = str | Callable[[Any], object]
"""What a column shows of a record: one of its fields, or what a function makes of it."""


def show(output: str, records: Iterable[Record], columns: Mapping[str, Cell]) -> None:
    """Print records for programs, or a table of them for people."""
    if output == "table":
        print_table([*columns], [[_cell(record, of) for of in columns.values()] for record in records])
    else:
        print_records(output, records)


def _cell(record: Record, of: Cell) -> str:
    return text(record[of] if isinstance(of, str) else of(record))


def text(value: object) -> str:
    """Return a value as a cell shows it: of several one after the other, and a dash where there is none."""
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a line a row, or a line a value where a terminal is too narrow for that."""
    cells = [tuple(map(shown, row)) for row in rows]
    # Trailing blanks are stripped: filling up the last column would only make lines longer.
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    room = terminal_columns()
    if room is None or len(columns) == 1 or sum(widths) + len(_GAP) * (len(widths) - 1) <= room:
        lines = [click.style(_aligned(columns, widths), bold=True), *(_aligned(row, widths) for row in cells)]
    else:
        lines = list(_records(columns, cells))
    if lines:
        click.echo("\n".join(lines))


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    filled = (text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True))
    return _GAP.join(filled).rstrip()


def _records(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each value, with an empty line between two rows."""
    width = max(map(cell_len, columns))
    for number, row in enumerate(rows):
        if number:
            yield ""
        for column, text in zip(columns, row, strict=True):
            yield f"{click.style(column.ljust(width), bold=True)}{_GAP}{text}".rstrip()
