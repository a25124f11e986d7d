"""Tables for people; nothing that they may want to copy is cut or broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import click
from rich.cells import cell_len

from ..daemon.printing import Record, print_records, shown, terminal_columns

_GAP: Final = "  "


def show(
    output: str, records: Iterable[Record], columns: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Print records for programs, or the rows of a table for people."""
    if output == "table":
        print_table(columns, rows)
    else:
        print_records(output, records)


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
