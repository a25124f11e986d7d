"""The root of all commands; `-h`, hints and the end by a signal are the same in every group of commands."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any, Final

import click

from .main import ABOUT, COMMANDS, missing_extras, no_such_command, place

_FOR_EVER: Final = ("agent", "nameserver")
"""Commands that run until a signal ends them."""

_BY_SIGNAL: Final = 128
"""Plus the number of the signal: the exit status of a process that a signal ended, in every shell."""


class Group(click.Group):
    """A group of commands: `-h` is help, a typo gets a hint, a signal ends it without a traceback."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{"context_settings": {"help_option_names": ["-h", "--help"]}, **attributes})

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; raises UsageError with the nearest name for an unknown one."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        raise click.UsageError(no_such_command(name, self.list_commands(ctx)), ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an interrupt, or a closed pipe on standard output, ends it without a message."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if sys.stderr.isatty():
                click.echo(err=True)  # ends the line on which the terminal has shown ^C
            ctx.exit(_BY_SIGNAL + signal.SIGINT)
        except BrokenPipeError:
            # As Python's documentation of SIGPIPE has it: what is left in the buffer must not be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(_BY_SIGNAL + signal.SIGPIPE)


class _Root(Group):
    """Knows the names of its commands without importing them, so that no command pays for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [*COMMANDS]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found, problem = place(args[0]), missing_extras(args)
        if found is not None and problem is not None:
            click.ClickException(problem).show()
            ctx.exit(found.cannot_run)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        found = place(cmd_name)
        if found is None:
            return None
        with _exit_on_sigterm() if cmd_name in _FOR_EVER else nullcontext():
            command: click.Command = found.load()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, found.short_help) for name, found in COMMANDS.items()])


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process with status 0 while a daemon is imported: there is nothing to stop yet."""
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command by an exception, so that `with` and `finally` clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(_BY_SIGNAL + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:  # noqa: FBT001 - click's
    if asked:
        from .. import __version__  # noqa: PLC0415 - looked up when it is asked for, and it takes 10 ms

        click.echo(f"sharedroutes, version {__version__}")
        context.exit()


@click.group(cls=_Root, help=ABOUT)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def sharedroutes() -> None:
    """Hold the commands."""
