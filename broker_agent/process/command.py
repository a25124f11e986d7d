"""`agent`: runs the agents of one or several brokers until a signal ends the process."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, NamedTuple, Self, TypeVar

import click

from ...daemon.http_server import AddressTaken
from ...daemon.logs import LogOutput
from ...daemon.option import Kind, Option
from ...daemon.printing import output_option, print_records
from ...daemon.threads import in_thread
from ...registry import InvalidInput
from ..settings.loader import load
from ..settings.sidecar_config import CONFIG_FLAG, CONFIG_VARIABLE, OPTIONS, SidecarConfig
from ..settings.text import as_toml
from .sidecar import Fault, Sidecar

F = TypeVar("F", bound=Callable[..., Any])

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_INTERRUPTED: Final = 128
"""Plus the number of the signal: the exit code of what a signal has ended, in every shell."""

_EXPECTED: Final = (Fault, InvalidInput, AddressTaken)
"""Errors that end the process with their message alone."""

EXIT_CODES: Final = {
    0: "ended by SIGTERM or SIGINT",
    1: "a fault: a part of the process ended unexpectedly; restart it",
    2: "the configuration is wrong: a restart does not help",
    3: "the address of --http is taken",
}

_CHECKS: Final = "files,store,broker"
"""What --check looks at without a list."""

_NO_SETTINGS: Final = ("checks", "output")
_SECRETS: Final = ", ".join(option.variable for option in OPTIONS if option.kind is Kind.SECRET)

_HELP: Final = f"""Keep the topics and the heartbeats of brokers in the shared registry.

A flag takes precedence over its variable, and a variable over agent.toml, which --config names. Several
brokers need an agent.toml with a [[broker]] table for each.

Set by variables only: {_SECRETS}.

Trouble with the store, a broker or its files does not end the process. SIGTERM and SIGINT do: a broker that
ends within stop_watch_s as well, or is drained, is taken out of the registry, and one that goes on stays for
the next agent; a second signal ends the process at once. SIGHUP reads all files anew, SIGUSR1 drains the
brokers, SIGUSR2 lets them come back.

Exit codes: {", ".join(f"{code} = {meaning}" for code, meaning in EXIT_CODES.items())}.
"""


def _with_settings(command: F) -> F:
    """Add an option for every setting; all values are checked together, and not by click."""
    for option in reversed([option for option in OPTIONS if option.kind is not Kind.SECRET]):
        command = click.option(option.flag, metavar=option.metavar, help=_help(option))(command)
    described = f"The agent.toml to read.  [env var: {CONFIG_VARIABLE}]"
    return click.option(CONFIG_FLAG, metavar="FILE", help=described)(command)


def _help(option: Option) -> str:
    default = "" if option.default in (None, "", {}) else f"; default: {option.default}"
    return f"{option.help}  [env var: {option.variable}{default}]"


@click.command("agent", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@_with_settings
@click.option(
    "--check",
    "checks",
    is_flag=False,
    flag_value=_CHECKS,
    metavar="[CHECKS]",
    help="Check what the agent needs, print a line for each check, and exit with 0 if all is well, else "
    f"with 2. Without a list, check everything: {_CHECKS}.",
)
@output_option
@click.option("--print-config", is_flag=True, help="Print the settings and where each comes from, and exit.")
@click.pass_context
def agent_command(
    context: click.Context, /, *, checks: str | None, output: str, print_config: bool, **_: str | None
) -> None:
    """Run the agents; the settings come from the context, as their options are made from a table."""
    flags = _given(context)
    try:
        with _Ending(only_looks=bool(checks) or print_config) as ending:
            if checks and not print_config:
                context.exit(asyncio.run(_check(flags, checks, output)))
            config = asyncio.run(in_thread(load, flags, os.environ))  # the files may be on a disk that hangs
            if print_config:
                click.echo(as_toml(config), nl=False)
            else:
                _run(config, flags, ending)
    except _EXPECTED as error:
        said = f"{error} ended unexpectedly: see the log" if isinstance(error, Fault) else error
        click.echo(f"Error: {said}", err=True)
        context.exit(_exit_code(error))


def _given(context: click.Context) -> Mapping[str, str]:
    return {
        parameter.opts[0]: value
        for parameter in context.command.params
        if parameter.name not in _NO_SETTINGS
        and isinstance(value := context.params.get(parameter.name or ""), str)
    }


async def _check(flags: Mapping[str, str], checks: str, output: str) -> int:
    """Print what was found; return the exit code."""
    from .check import Outcome, check, wanted  # noqa: PLC0415 - an agent that runs never needs it

    looked_at = wanted(checks)
    config: SidecarConfig | InvalidInput
    try:
        config = await in_thread(load, flags, os.environ)  # the files may be on a disk that hangs
    except InvalidInput as error:
        config = error
    else:
        for warning in config.warnings:
            click.echo(warning, err=True)
    found = await check(config, looked_at)
    if output != "table":
        print_records(output, found)
    else:
        for one in found:
            click.echo(f"{one['check']:<6}  {one['outcome']:<8}  {one['text']}".rstrip())
    return 2 if any(one["outcome"] is Outcome.FAILED for one in found) else 0


def _run(config: SidecarConfig, flags: Mapping[str, str], ending: _Ending) -> None:
    log_format, log_level = config.value("log_format"), config.value("log_level")
    with LogOutput(log_format, log_level) as log:
        sidecar = Sidecar(config, reread=lambda: load(flags, os.environ), use_log=log.use)
        asyncio.run(_until_ended(sidecar, ending, log))


async def _until_ended(sidecar: Sidecar, ending: _Ending, log: LogOutput) -> None:
    loop = asyncio.get_running_loop()
    ending.work = _Work(lambda: loop.call_soon_threadsafe(sidecar.stop), sidecar, log)
    sidecar.obey_signals()
    try:
        await sidecar.run()
        ending.limit(0)
    except Exception as error:
        if not isinstance(error, _EXPECTED):
            # Python shows it too, unless asyncio hangs before that.
            _LOG.critical("an unexpected error ends the process", exc_info=True)
        ending.limit(_exit_code(error))
        raise
    finally:
        ending.work = ending.work._replace(stop=lambda: None)


def _exit_code(error: Exception) -> int:
    if isinstance(error, InvalidInput):
        return 2
    return 3 if isinstance(error, AddressTaken) else 1


class _Work(NamedTuple):
    """What has to be ended."""

    stop: Callable[[], object]
    sidecar: Sidecar
    log: LogOutput


class _Ending:
    """Obeys SIGTERM and SIGINT while it is entered, and ends the process in time whatever hangs in it.

    asyncio and the interpreter wait at their end for every thread, and one that reads from a lost disk, or
    looks up a name, may never return. Until there is `work` to end, a signal ends the process at once; one
    that `only_looks` has then not done what it was asked for, and exits as a shell expects.
    """

    def __init__(self, *, only_looks: bool) -> None:
        self._only_looks = only_looks
        self.work: _Work | None = None
        self._limits: SimpleQueue[tuple[int, bool] | None] = SimpleQueue()
        """Exit codes, and whether brokers are watched before; None = the process has ended by itself."""

        self._signals = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        # It is started here since a signal may come where threads cannot be started.
        threading.Thread(target=self._enforce, name="sharedroutes end", daemon=True).start()
        self._before = {number: signal.signal(number, self._obey) for number in _STOPS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._limits.put(None)

    def limit(self, code: int, *, watches: bool = False) -> None:
        """End the process with this exit code if it does not end by itself in time.

        The code of the first call counts, and the earliest time; one that `watches` has that much more.
        """
        self._limits.put((code, watches))

    def _obey(self, number: int, _: FrameType | None) -> None:
        if self.work is None:
            os._exit(_INTERRUPTED + number if self._only_looks else 0)
        self._signals += 1
        self.limit(0, watches=self._signals == 1)
        self.work.stop()

    def _enforce(self) -> None:
        limit = self._limits.get()
        if limit is None or self.work is None:
            return
        code, began_s, end_s = limit[0], time.monotonic(), math.inf
        while limit is not None:
            end_s = min(end_s, self._latest_s(self.work.sidecar, watches=limit[1]))
            try:
                limit = self._limits.get(timeout=max(0.0, end_s - time.monotonic()))
            except Empty:
                self._give_up(code, self.work.log, time.monotonic() - began_s)

    def _latest_s(self, sidecar: Sidecar, *, watches: bool) -> float:
        """Return when the process has to have ended, by the steady clock."""
        return time.monotonic() + (sidecar.watch_s if watches else 0.0) + sidecar.leaving_s

    def _give_up(self, code: int, log: LogOutput, passed_s: float) -> None:
        threads = ", ".join(one.name for one in threading.enumerate() if not one.daemon)
        _LOG.warning("not ended within %.1f s, exiting without waiting for %s", passed_s, threads)
        log.finish()
        os._exit(code)
