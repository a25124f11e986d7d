"""`python -m demo.nameserver`: two name server fronts under real brokers, a producer and a consumer."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO

import click

from ..command import JSON_OPTION, console_beside, errors_in_one_line, publish
from ..processes import Patience
from . import rocketmq
from .results import summary, to_json
from .show import Show
from .stage import Stage

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - brokers refuse messages on a disk that is 90 % full


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@JSON_OPTION
def demo(json_file: TextIO | None) -> None:
    """Kill a front, empty Redis, stop and kill brokers under a real producer, and lose no message.

    Runs Redis, two fronts, two brokers of RocketMQ, a Java producer and a Java consumer on this machine, for
    about a minute. Needs Java 17 and, for the jars at the first time, Maven.

    Exit status 0 when every event was seen, no send failed and no message was lost, otherwise 1.
    """
    console, patience = console_beside(json_file), Patience()
    show = Show(console)
    with errors_in_one_line():
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
    publish(console, summary(report), json_file, to_json(report), ok=report.ok, logs=logs)


if __name__ == "__main__":
    demo(prog_name="python -m demo.nameserver")
