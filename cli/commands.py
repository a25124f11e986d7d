"""The group of all commands; each is imported when it is asked for, so that none pays for another."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import click

from .extras import lacking

__all__ = ["COMMANDS", "sharedroutes"]

_MODULES: Final = {
    "agent": ("h11", "watchdog"),
    "cli": ("rich",),
    "spark": ("jinja2", "matplotlib", "numpy", "pyarrow", "pyspark"),
}
"""What the commands need of each extra, besides click."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a command is, what the list of commands says of it, and which extras it needs."""

    module: str
    attribute: str
    short_help: str
    extras: tuple[str, ...] = ("cli",)


COMMANDS: Final = {
    "acl": _Place(".acl", "acl", "Print what a user of Redis may do in a role.", ()),
    "agent": _Place(
        "..broker_agent.command",
        "agent_command",
        "Keep the topics and the heartbeats of brokers in the registry.",
        ("agent",),
    ),
    "agent-ctl": _Place(
        ".agent_ctl", "agent_ctl", "Ask a running agent how it is; drain, pause, resume.", ()
    ),
    "brokers": _Place(".read", "brokers", "List the live brokers."),
    "changes": _Place(".operate", "changes", "List what happened to the registry, or follow it."),
    "delete-topic": _Place(".operate", "delete_topic", "Remove a topic from all brokers' tables."),
    "demo": _Place(
        ".demo.command", "demo", "Kill brokers, a host and Redis; lose no message.", ("cli", "agent")
    ),
    "export": _Place(".transfer", "export", "Write the whole registry to a file."),
    "forget": _Place(".repair", "forget", "Remove brokers that will not come back."),
    "health": _Place(".health", "health", "Report on the registry and its server, with advice."),
    "import": _Place(".transfer", "import_", "Read an exported registry."),
    "kv": _Place(".operate", "kv", "Read and write the key-value store."),
    "lift": _Place(".operate", "lift", "Let brokers be written to again."),
    "pipeline": _Place(
        ".pipeline.group", "pipeline", "Keep and answer the registry's history, on Spark.", ("spark",)
    ),
    "rebuild": _Place(".repair", "rebuild", "Mend what `verify` finds."),
    "routes": _Place(".read", "routes", "Show who holds topics, and where."),
    "topics": _Place(".read", "topics", "List the topics of the live brokers."),
    "verify": _Place(".repair", "verify", "Find what is not as it should be in the registry."),
    "wipe": _Place(".operate", "wipe", "Let nobody write to brokers."),
}


class _ExtraMissing(click.ClickException):
    """What has to be installed before a command can run."""

    exit_code = 2


class _LazyGroup(click.Group):
    """A group that knows the names of its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        for extra in place.extras:
            problem = lacking(extra, *_MODULES[extra])
            if problem is not None:
                raise _ExtraMissing(f"`{cmd_name}`: {problem}")
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


@click.group(cls=_LazyGroup)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_say_version,
    help="Show the version and exit.",
)
def sharedroutes() -> None:
    """Routes of message brokers, shared through Redis."""
