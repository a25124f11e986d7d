"""`sharedroutes demo`: the main job, end to end."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, TextIO

import click
from rich.console import Console

from ...registry import RegistryError
from .patience import DemoFailed, Interrupted, Patience
from .report import summary, to_json
from .scenario import SETTINGS
from .show import Show
from .stage import Stage

_PIPE_COLUMNS: Final = 80
_BY_SIGNAL: Final = 128
"""What shells add to the number of the signal that ended a program."""


@click.command()
@click.option(
    "--json",
    "json_file",
    type=click.File("w", lazy=False),
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the figures as one JSON document to FILE, or to standard output; then the rest goes to "
    "standard error.",
)
def demo(json_file: TextIO | None) -> None:
    """Kill brokers, a host and Redis under a client that keeps sending, and lose no message.

    Runs a server, three stand-in brokers and three real agents on this machine, for about 20 seconds.

    Exit codes: 0 = every event was seen and no message was lost, 1 = not so.
    """
    console = _console(to_stderr=json_file is not None and json_file.name == "<stdout>")
    patience, show = Patience(), Show(console, SETTINGS)
    try:
        with (
            patience.signals(),
            tempfile.TemporaryDirectory(prefix="sharedroutes-") as folder,
            Stage(Path(folder), SETTINGS, patience, show) as stage,
        ):
            with show.on():
                report = stage.run()
            logs = stage.logs()
    except Interrupted as error:
        click.echo(str(error), err=True)
        sys.exit(_BY_SIGNAL + error.number)
    except (DemoFailed, RegistryError) as error:
        raise click.ClickException(str(error)) from error
    console.print(summary(report, SETTINGS))
    if json_file is not None:
        click.echo(to_json(report, SETTINGS), file=json_file)
    if not report.ok:
        click.echo(f"What the processes said last:\n{logs}", err=True)
        sys.exit(1)


def _console(*, to_stderr: bool) -> Console:
    stream = sys.stderr if to_stderr else sys.stdout
    return Console(stderr=to_stderr, width=None if stream.isatty() else _PIPE_COLUMNS)
