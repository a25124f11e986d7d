"""What all commands of the pipeline share: where Spark runs, and what its errors become."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Concatenate, Final, ParamSpec

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...pipeline import PipelineError, SessionConfig, session
from ...pipeline.errors import BadOption
from ...pipeline.ingest.failing import failure
from ...registry import RegistryError

__all__ = ["say", "stopping", "with_spark"]

P = ParamSpec("P")

_OPTIONS: Final = (
    click.option(
        "--master",
        default="",
        metavar="URL",
        help="Spark's master, such as spark://host:7077, yarn or k8s://...  [default: what spark-submit "
        "says, or local[*,4]: in this process]",
    ),
    click.option(
        "--driver-memory",
        default="2g",
        show_default=True,
        metavar="SIZE",
        help="Of the Java process, where Spark is local.",
    ),
    click.option(
        "--conf",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of Spark; can be given several times.",
    ),
)


def with_spark(command: Callable[Concatenate[SparkSession, P], None]) -> Callable[..., None]:
    """Give a command a Spark session, and the options that say where Spark runs."""

    @functools.wraps(command)
    def run(
        master: str, driver_memory: str, settings: tuple[str, ...], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        config = SessionConfig(master=master, driver_memory=driver_memory, settings=_parsed(settings))
        with _spark(config) as spark:
            command(spark, *args, **kwargs)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


@contextmanager
def _spark(config: SessionConfig) -> Iterator[SparkSession]:
    """Give a session; an error of the pipeline becomes one line and exit status 1, a wrong option 2."""
    try:
        spark = session(config)
        try:
            yield spark
        finally:
            spark.stop()
    except BadOption as error:
        raise click.UsageError(str(error)) from error
    except PipelineError as error:
        raise click.ClickException(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(str(failure(error, "Spark"))) from error
    except (RegistryError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _parsed(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--conf")
        found[name] = value
    return found


def say(text: str) -> None:
    """Print a line for people who watch: on standard error, so that results can be piped."""
    click.echo(text, err=True)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Give an event that SIGTERM and SIGINT set, once; a second signal ends the process as usual."""
    stop = threading.Event()

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        say("stopping: a batch that is being written is finished first")
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stderr.flush()
