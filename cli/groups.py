"""What all commands have in common: `-h`, a hint at the command that was meant, how a signal ends them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import click

from .places import no_such_command

CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
"""Settings of the outermost command, which those below inherit."""

_BY_SIGNAL: Final = 128
"""Plus the number of the signal: the exit status of what a signal has ended, in every shell."""


class Group(click.Group):
    """A group of commands, as all of them are here."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes["context_settings"] = {**CONTEXT, **(attributes.get("context_settings") or {})}
        super().__init__(*args, **attributes)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; one that there is not is a UsageError with the nearest one."""
        name = args[0]
        if ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        raise click.UsageError(no_such_command(name, self.list_commands(ctx)), ctx)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an interrupt and a reader that has gone end it without a word."""
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


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end a command as an exception does, so that it leaves nothing behind."""
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
