"""Output for programs, as JSON or lines of JSON, and what texts for people have in common."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeAlias

import click
import orjson

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

Record: TypeAlias = Mapping[str, Any]
"""What is printed of one thing, by the names that docs/cli.md promises."""

output_option: Final = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "ndjson"]),
    default="table",
    show_default=True,
    help="For people; or for programs, as one JSON document or as a line of JSON for each record.",
)


def terminal_columns() -> int | None:
    """Return the width of the terminal; None = standard output is no terminal, so lines have any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shown(name: str) -> str:
    """Return a name with its control characters escaped, as a terminal would obey them."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), name)


def print_record(output: str, record: Record) -> None:
    """Print a record for programs: as a document, or in a line."""
    click.echo(orjson.dumps(record, option=orjson.OPT_INDENT_2 if output == "json" else None))


def print_records(output: str, records: Iterable[Record], lines: Iterable[str] = ()) -> None:
    """Print records for programs, as a list or a line each; or `lines` for people."""
    if output == "table":
        for line in lines:
            click.echo(line)
        return
    with Records(output) as printed:
        for record in records:
            printed.add(record)


def say(output: str, record: Record, text: str) -> None:
    """Print a record for programs, or a line for people."""
    if output == "table":
        click.echo(text)
    else:
        print_record(output, record)


class Records:
    """Prints records as they come: as the items of one list (`json`), or a line each; for people, nothing.

    A list that is not ended was broken off by an error.
    """

    def __init__(self, output: str) -> None:
        self._is_list = output == "json"
        self._before = "[\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_list and kind is None:
            self._print("[]" if self._before == "[\n" else "\n]", end="\n")

    def add(self, record: Record) -> None:
        """Print one more."""
        if not self._is_list:
            self._print(orjson.dumps(record).decode(), end="\n")
            return
        text = orjson.dumps(record, option=orjson.OPT_INDENT_2).decode()
        self._print(self._before + "  " + text.replace("\n", "\n  "), end="")
        self._before = ",\n"

    def _print(self, text: str, end: str) -> None:
        # Left to itself, echo looks for the stream under the one that keeps lines and progress apart.
        click.echo(text + end, file=sys.stdout, nl=False)


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
