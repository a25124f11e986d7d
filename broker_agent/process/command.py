"""`agent`: runs the agents of one or several brokers until a signal ends the process."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from typing import Final

import click

from ...daemon.ending import Ending, Work
from ...daemon.flags import given, with_settings
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

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
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

_FLAGS: Final = [option for option in OPTIONS if option.kind is not Kind.SECRET]
_SECRETS: Final = ", ".join(option.variable for option in OPTIONS if option.kind is Kind.SECRET)

_HELP: Final = f"""Keep the topics and the heartbeats of brokers in the shared registry.

A flag takes precedence over its variable, and a variable over agent.toml, which --config names. Several
brokers need an agent.toml with a [[broker]] table for each.

Set by variables only: {_SECRETS}.

Trouble with the store, a broker or its files does not end the process. SIGTERM and SIGINT do: a broker that
ends within stop_watch_s as well, or is drained, is taken out of the registry, and one that goes on stays for
the next agent; a second signal ends the wait for that. SIGHUP reads all files anew, SIGUSR1 drains the
brokers, SIGUSR2 lets them come back.

Exit codes: {", ".join(f"{code} = {meaning}" for code, meaning in EXIT_CODES.items())}.
"""


def _help(option: Option) -> str:
    default = "" if option.default in (None, "", {}) else f"; default: {option.default}"
    return f"{option.help}  [env var: {option.variable}{default}]"


@click.command("agent", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(CONFIG_FLAG, metavar="FILE", help=f"The agent.toml to read.  [env var: {CONFIG_VARIABLE}]")
@with_settings(_FLAGS, _help)
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
    flags = given(context, _FLAGS, CONFIG_FLAG)
    ending = Ending(_LOG, _code_of_a_look) if checks or print_config else Ending(_LOG)
    try:
        with ending:
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


def _code_of_a_look(number: int) -> int:
    """Return the exit code of one that a signal interrupts: it has not done what it was asked for."""
    return _INTERRUPTED + number


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
    lines = (f"{one['check']:<6}  {one['outcome']:<8}  {one['text']}".rstrip() for one in found)
    print_records(output, found, lines)
    return 2 if any(one["outcome"] is Outcome.FAILED for one in found) else 0


def _run(config: SidecarConfig, flags: Mapping[str, str], ending: Ending) -> None:
    log_format, log_level = config.value("log_format"), config.value("log_level")
    with LogOutput(log_format, log_level) as log:
        sidecar = Sidecar(config, reread=lambda: load(flags, os.environ), use_log=log.use)
        asyncio.run(_until_ended(sidecar, ending, log))


async def _until_ended(sidecar: Sidecar, ending: Ending, log: LogOutput) -> None:
    loop = asyncio.get_running_loop()

    def allowed_s(signals: int) -> float:
        return sidecar.leaving_s + (sidecar.watch_s if signals == 1 else 0.0)

    ending.work = Work(lambda: loop.call_soon_threadsafe(sidecar.stop), allowed_s, log.finish)
    sidecar.obey_signals()
    try:
        await sidecar.run()
        ending.limit(0, sidecar.leaving_s)
    except Exception as error:
        if not isinstance(error, _EXPECTED):
            # Python shows it too, unless asyncio hangs before that.
            _LOG.critical("an unexpected error ends the process", exc_info=True)
        ending.limit(_exit_code(error), sidecar.leaving_s)
        raise
    finally:
        ending.work = ending.work._replace(stop=lambda: None)


def _exit_code(error: Exception) -> int:
    if isinstance(error, InvalidInput):
        return 2
    return 3 if isinstance(error, AddressTaken) else 1
