"""`nameserver`: runs a name server front until a signal ends the process."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import click

from ..daemon.ending import Ending, Work
from ..daemon.flags import given, with_settings
from ..daemon.http_server import AddressTaken
from ..daemon.logs import LogOutput
from ..daemon.option import Option
from ..registry import InvalidInput
from ..registry.concurrency_async import end
from ..registry.errors import EmbeddedServerError
from .process import CLOSING_S, FrontProcess
from .process_config import OPTIONS
from .settings import CONFIG_FLAG, CONFIG_VARIABLE, Settings, as_file, load, property_of
from .workers import CHANNEL_VARIABLE, Workers, obey_parent

_LOG: Final = logging.getLogger("sharedroutes.nameserver")
_EXPECTED: Final = (InvalidInput, AddressTaken, EmbeddedServerError)
"""Errors that end the process with their message alone."""

_COLLECTED_AFTER: Final = (20_000, 50, 50)
"""Of Python's garbage collector, which nobody is answered beside; few of a front's objects form cycles."""

EXIT_CODES: Final = {
    0: "ended by SIGTERM or SIGINT",
    1: "a fault: a part of the process ended unexpectedly; restart it",
    2: "the settings are wrong: a restart does not help",
    3: "the address of --listen or --http is taken",
}

_HELP: Final = f"""Answer RocketMQ's brokers, clients and mqadmin from the shared registry, as a name server.

A flag takes precedence over its variable, and a variable over the file that --config names: a namesrv.conf
as mqnamesrv takes it.

SIGTERM and SIGINT drain: /readyz says no, no more connections are accepted, what was asked is answered. A
second one ends the process at once. SIGHUP reads certificates and the file anew, and applies what can be
changed while it runs.

Exit codes: {", ".join(f"{code} = {meaning}" for code, meaning in EXIT_CODES.items())}.
"""


def _help(option: Option) -> str:
    default = _text(option.default)
    shown = f"; default: {default}" if default else ""
    return f"{option.help}  [env var: {option.variable}; in the file: {property_of(option)}{shown}]"


def _text(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


@click.command("nameserver", help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-c", CONFIG_FLAG, metavar="FILE", help=f"The namesrv.conf to read.  [env var: {CONFIG_VARIABLE}]"
)
@with_settings(OPTIONS, _help)
@click.option(
    "-p", "--print-config", is_flag=True, help="Print the settings and where each comes from, and exit."
)
@click.pass_context
def nameserver_command(context: click.Context, /, *, print_config: bool, **_: str | None) -> None:
    """Run the front; the settings come from the context, as their options are made from a table."""
    flags = given(context, OPTIONS, CONFIG_FLAG)
    try:
        with Ending(_LOG) as ending:
            settings = load(flags, os.environ)
            if print_config:
                click.echo(as_file(settings), nl=False)
            else:
                context.exit(_run(settings, flags, ending))
    except _EXPECTED as error:
        click.echo(f"Error: {error}", err=True)
        context.exit(_exit_code(error))


def _run(settings: Settings, flags: Mapping[str, str], ending: Ending) -> int:
    """Run the front, or its workers; return the exit code."""
    process = settings.process
    with LogOutput(process.log_format, process.log_level) as log, _with_store(settings) as complete:
        if process.workers > 1:
            return asyncio.run(_serve_workers(complete, flags, ending, log))
        gc.set_threshold(*_COLLECTED_AFTER)
        return _runner()(_serve(complete, flags, ending, log))


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    """Return what runs the event loop: uvloop's, where that is installed."""
    try:
        import uvloop  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        return asyncio.run
    run: Callable[[Coroutine[Any, Any, int]], int] = uvloop.run
    return run


async def _serve(settings: Settings, flags: Mapping[str, str], ending: Ending, log: LogOutput) -> int:
    channel = os.environ.get(CHANNEL_VARIABLE)
    process = FrontProcess(
        settings,
        reread=lambda: load(flags, os.environ),
        use_log=log.use,
        is_worker=channel is not None,
    )
    parent = None if channel is None else asyncio.create_task(obey_parent(int(channel), process))
    with _signals_to(process, ending, settings, log.finish):
        try:
            return await process.run()
        finally:
            if parent is not None:
                await end(parent)


async def _serve_workers(settings: Settings, flags: Mapping[str, str], ending: Ending, log: LogOutput) -> int:
    workers = Workers(settings, flags=flags, reread=lambda: load(flags, os.environ), use_log=log.use)

    def last() -> None:
        workers.kill()
        log.finish()

    with _signals_to(workers, ending, settings, last):
        return await workers.run()


@contextmanager
def _signals_to(
    process: FrontProcess | Workers, ending: Ending, settings: Settings, last: Callable[[], object]
) -> Iterator[None]:
    """Let one signal drain a process that runs in this event loop, and another one end it at once."""
    loop, waits = asyncio.get_running_loop(), settings.process
    drain_s = waits.drain_wait_s + waits.drain_s + 3 * CLOSING_S

    def allowed_s(signals: int) -> float:
        return drain_s if signals == 1 else 0.0

    ending.work = work = Work(lambda: loop.call_soon_threadsafe(process.stop), allowed_s, last)
    loop.add_signal_handler(signal.SIGHUP, process.reload)
    try:
        yield
    finally:
        ending.work = work._replace(stop=lambda: None)


@contextmanager
def _with_store(settings: Settings) -> Iterator[Settings]:
    """Give the settings a store if none is named: a server that ends with this process."""
    if settings.process.redis_url:
        yield settings
        return
    from ..registry.embedded import embedded_redis  # noqa: PLC0415 - most name a store

    with embedded_redis() as url:
        _LOG.warning(
            "no store is named (--redis, SHAREDROUTES_REDIS_URL): a server of this process at %s has the "
            "registry, and ALL ITS DATA END WITH THIS PROCESS",
            url,
        )
        yield replace(settings, process=replace(settings.process, redis_url=url))


def _exit_code(error: Exception) -> int:
    if isinstance(error, InvalidInput | EmbeddedServerError):
        return 2
    return 3 if isinstance(error, AddressTaken) else 1
