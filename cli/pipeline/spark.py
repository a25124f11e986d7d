"""What all commands of the pipeline share: where Spark runs, and what its errors become."""

from __future__ import annotations

import functools
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FrameType, MappingProxyType
from typing import Concatenate, Final, ParamSpec, TypeAlias

import click
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ...pipeline import PipelineError, SessionConfig
from ...pipeline.errors import BadOption, failure
from ...pipeline.ingest import check_kept
from ...pipeline.session import running
from ...registry import RegistryError

P = ParamSpec("P")

_LOG: Final = logging.getLogger("sharedroutes.pipeline")
_STDERR: Final = 2

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
        default="1536m",
        show_default=True,
        metavar="SIZE",
        help="Of the Java process, where Spark is local.",
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of Spark; can be given several times.",
    ),
    click.option(
        "--spark-log",
        "log",
        default=os.devnull,
        metavar="FILE",
        help="Where Java, Spark and its workers log; - is standard error.  [default: nowhere]",
    ),
)

changes_option: Final = click.option(
    "--changes", "history", required=True, metavar="FOLDER", help="What `pipeline ingest` keeps."
)
namespace_option: Final = click.option(
    "--namespace", default="sharedroutes", show_default=True, help="With a URL in --routes."
)

Start: TypeAlias = Callable[[], SparkSession]
"""Starts Spark, which takes seconds: what can be checked without it is checked before."""

_ELSEWHERE: Final = {"url": "redis_url", "from_ms": "begin", "until_ms": "end"}
"""Options of the pipeline whose parameter has another name."""


class WrongOption(click.ClickException):
    """An option, or what it names, is wrong: one line, and the exit status of a usage error."""

    exit_code = click.UsageError.exit_code


def with_spark(
    command: Callable[Concatenate[Start, P], None], *, defaults: Mapping[str, str] = MappingProxyType({})
) -> Callable[..., None]:
    """Give a command what starts Spark, and the options that say where it runs.

    What goes wrong becomes one line, with exit status 2 for a wrong option, and 1 for all else. --conf goes
    before `defaults`, which are settings of Spark.
    """

    @functools.wraps(command)
    def run(
        master: str, driver_memory: str, conf: tuple[str, ...], log: str, *args: P.args, **kwargs: P.kwargs
    ) -> None:
        config = SessionConfig(
            master=master, driver_memory=driver_memory, settings={**defaults, **_parsed(conf)}
        )
        with _told(click.get_current_context()), _warned(), ExitStack() as stack:
            command(lambda: _started(stack, config, log), *args, **kwargs)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def _started(stack: ExitStack, config: SessionConfig, log: str) -> SparkSession:
    """Start Spark so that a SIGTERM to the whole process group, as of `timeout`, is left to this process.

    Java ignores what was ignored when it began (JDK, Runtime.addShutdownHook); it ends with this process.
    """
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with _standard_error(log):
            return stack.enter_context(running(config))
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _standard_error(log: str) -> Iterator[None]:
    """Give processes that begin meanwhile a file as standard error: Java cannot be told to be silent."""
    try:
        given = os.dup(_STDERR) if log == "-" else os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise WrongOption(f"--spark-log: {log} cannot be written: {error.strerror}") from error
    ours = os.dup(_STDERR)
    os.dup2(given, _STDERR)
    try:
        yield
    finally:
        os.dup2(ours, _STDERR)
        os.close(ours)
        os.close(given)


@contextmanager
def _warned() -> Iterator[None]:
    """Print the pipeline's warnings, which a program of one's own gets through logging."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    _LOG.addHandler(handler)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)


@contextmanager
def _told(context: click.Context) -> Iterator[None]:
    """Tell errors in a line; those about an option by the name that it has here."""
    try:
        yield
    except BadOption as error:
        flag = _flag(context, error.option)
        raise WrongOption(f"{flag}: {error.what}" if flag else str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise click.ClickException(_in_a_line(failure(error, f"pipeline {context.info_name}"))) from error
    except (PipelineError, RegistryError, OSError) as error:
        raise click.ClickException(_in_a_line(error)) from error


def _flag(context: click.Context, option: str) -> str | None:
    """Return what an option of the pipeline is called in a command; None when the command has none such."""
    name = _ELSEWHERE.get(option, option)
    for found in context.command.params:
        if found.name == name:
            return found.human_readable_name if isinstance(found, click.Argument) else found.opts[0]
    return None


@contextmanager
def about(flag: str) -> Iterator[None]:
    """Tell errors as those of an option: what it names is wrong, or the registry there does not answer."""
    try:
        yield
    except RegistryError as error:
        raise click.ClickException(f"{flag}: {_in_a_line(error)}") from error
    except PipelineError as error:
        what = error.what if isinstance(error, BadOption) and error.what else str(error)
        raise WrongOption(f"{flag}: {what}") from error
    except (PySparkException, Py4JError) as error:
        raise WrongOption(str(failure(error, f"{flag}: reading it"))) from error


def check_changes(history: str) -> None:
    """See that there is a history, where Spark would look on this machine: it takes seconds to start."""
    if SessionConfig(master=click.get_current_context().params["master"]).is_here:
        with about("--changes"):
            check_kept(history)


def _in_a_line(error: Exception) -> str:
    """Return what an error says, with what was noted to it on its way."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _parsed(settings: tuple[str, ...]) -> dict[str, str]:
    for setting in settings:
        if "=" not in setting:
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--conf")
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


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
