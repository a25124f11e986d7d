"""What the commands of all demos share: `--json`, where they print, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from sharedroutes.registry import RegistryError

from .processes import DemoFailed, Interrupted

_PIPE_COLUMNS: Final = 80
_MOST_TEXTS: Final = 10
_BY_SIGNAL: Final = 128
"""What shells add to the number of the signal that ended a program."""

JSON_OPTION: Final = click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=False),
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the figures as one JSON document to FILE, or to standard output; then the rest goes to "
    "standard error.",
)


def console_beside(json_file: TextIO | None) -> Console:
    """Return the terminal or pipe for people: standard output, unless the document goes there."""
    to_stderr = json_file is not None and json_file.name == "<stdout>"
    stream = sys.stderr if to_stderr else sys.stdout
    return Console(stderr=to_stderr, width=None if stream.isatty() else _PIPE_COLUMNS)


def event_table(what: str, *figures: str) -> Table:
    """Return a table for a line for each event: what happened, and its figures."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(what, no_wrap=True)
    for header in figures:
        table.add_column(header, justify="right", no_wrap=True)
    return table


def first_of(texts: Sequence[str]) -> Iterator[Text]:
    """Yield a line for each of the first texts, and one with the number of the others."""
    yield from (Text(f"  {text}") for text in texts[:_MOST_TEXTS])
    if len(texts) > _MOST_TEXTS:
        yield Text(f"  and {len(texts) - _MOST_TEXTS} more")


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the command with one line about the error or signal that ended a `with` block."""
    try:
        yield
    except Interrupted as error:
        click.echo(str(error), err=True)
        sys.exit(_BY_SIGNAL + error.number)
    except (DemoFailed, RegistryError) as error:
        raise click.ClickException(str(error)) from error


def publish(
    console: Console, summary: RenderableType, json_file: TextIO | None, document: str, *, ok: bool, logs: str
) -> None:
    """Print what a demo found; end with exit status 1, and with the logs, if it is not as promised."""
    console.print(summary)
    if json_file is not None:
        click.echo(document, file=json_file)
    if not ok:
        click.echo(f"The last lines of all processes:\n{logs}", err=True)
        sys.exit(1)
