"""Output for people and for programs: tables, JSON, wrapped text, times.

Nothing that a person may want to copy is cut or broken.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click
import orjson
from rich.cells import cell_len

_GAP: Final = "  "
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

output_option: Final = click.option(
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output for people, or for programs.",
)


def terminal_columns() -> int | None:
    """Return the width of the terminal; None = standard output is no terminal, so lines have any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shown(name: str) -> str:
    """Return a name with its control characters escaped, as a terminal would obey them."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def print_json(value: Any) -> None:
    """Print a value for programs."""
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def show(output: str, value: Any, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a value for programs (`json`), or the rows of a table for people."""
    if output == "json":
        print_json(value)
    else:
        print_table(columns, rows)


def say(output: str, value: Any, text: str) -> None:
    """Print a value for programs (`json`), or a line for people."""
    print_json(value) if output == "json" else click.echo(text)


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


def wrapped(text: str, *, indent: int = 0, hanging: int = 0) -> str:
    """Return a text in lines that fit a terminal, broken between words only; in one line for no terminal.

    `indent` and `hanging` are the spaces before the first line and before the others.
    """
    room = terminal_columns()
    if room is None:
        return " " * indent + text
    return textwrap.fill(
        text,
        max(room, indent + 1, hanging + 1),
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def iso(ms: int | None) -> str:
    """Return a time, in ms since 1970, as ISO 8601 in local time with its offset."""
    if ms is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).astimezone().isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # an id of a stream may be any number
        return "unknown"
