"""`python -m demo.nameserver`: two name server fronts under real brokers, a producer and a consumer."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO

import click
from rich.console import Console

from sharedroutes.registry import RegistryError

from ..processes import DemoFailed, Interrupted, Patience
from . import rocketmq
from .results import summary, to_json
from .show import Show
from .stage import Stage

_PIPE_COLUMNS: Final = 80
_BY_SIGNAL: Final = 128
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - brokers refuse messages on a disk that is 90 % full


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
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
    """Kill a front, empty Redis, stop and kill brokers under a real producer, and lose no message.

    Runs Redis, two fronts, two brokers of RocketMQ, a Java producer and a Java consumer on this machine, for
    about a minute. Needs Java 17 and, for the jars at the first time, Maven.

    Exit status 0 when every event was seen, no send failed and no message was lost, otherwise 1.
    """
    to_stderr = json_file is not None and json_file.name == "<stdout>"
    stream = sys.stderr if to_stderr else sys.stdout
    console = Console(stderr=to_stderr, width=None if stream.isatty() else _PIPE_COLUMNS)
    patience, show = Patience(), Show(console)
    try:
        rocketmq.prepare()
        with (
            patience.signals(),
            tempfile.TemporaryDirectory(
                prefix="sharedroutes-", dir=_MEMORY if _MEMORY.is_dir() else None, ignore_cleanup_errors=True
            ) as folder,
            ExitStack() as stack,
        ):
            stage = Stage(stack, Path(folder), patience, show)
            with show.on():
                report = stage.run()
            logs = stage.logs()
    except Interrupted as error:
        click.echo(str(error), err=True)
        sys.exit(_BY_SIGNAL + error.number)
    except (DemoFailed, RegistryError) as error:
        raise click.ClickException(str(error)) from error
    console.print(summary(report))
    if json_file is not None:
        click.echo(to_json(report), file=json_file)
    if not report.ok:
        click.echo(f"The last lines of all processes:\n{logs}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    demo(prog_name="python -m demo.nameserver")
