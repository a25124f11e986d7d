"""The group of all commands; each is imported when it is asked for, so that none pays for another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

import click

from .groups import Group
from .places import ABOUT, COMMANDS, problem_of


class _ExtraMissing(click.ClickException):
    """What has to be installed before a command can run."""

    exit_code = 2


class _LazyGroup(Group):
    """A group that knows the names of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        problem = problem_of(args)
        if problem is not None:
            raise _ExtraMissing(problem)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        with _ended_by_sigterm() if cmd_name == "agent" else nullcontext():
            command: click.Command = getattr(import_module(place.module, __package__), place.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].short_help) for name in self.list_commands(ctx)])


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process as one that has nothing to do any more: the agent has not begun yet."""
    before = signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_version(context: click.Context, _: click.Parameter, asked: bool) -> None:  # noqa: FBT001 - click's
    if asked:
        from .. import __version__  # noqa: PLC0415 - looked up when it is asked for, and it takes 10 ms

        click.echo(f"sharedroutes, version {__version__}")
        context.exit()


@click.group(cls=_LazyGroup, help=ABOUT)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
def sharedroutes() -> None:
    """Hold the commands."""
