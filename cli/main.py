"""The entry of `sharedroutes` and the table of its commands; `--help` works without click."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ..extras import lacking

ABOUT: Final = "Routes of message brokers, shared through Redis."

PLUGIN_UNKNOWN: Final = 3
"""Of monitoring plugins, for which 2 is an error in what is looked at: nothing could be found out."""

_USAGE: Final = 2
_INTERRUPTED: Final = 130
"""128 plus the number of SIGINT, as shells count."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is defined, its line in the list of commands, and the extras that it needs."""

    module: str
    attribute: str
    short_help: str
    extras: tuple[str, ...] = ("cli",)
    cannot_run: int = _USAGE
    """Its exit status when its extras are missing."""

    def load(self) -> Any:
        """Import the command."""
        return getattr(import_module(self.module, __package__), self.attribute)


_ROOT: Final = Place(".root", "sharedroutes", ABOUT)

COMMANDS: Final = {
    "acl": Place(".acl", "acl", "Print the ACL line of a Redis user with a given role.", ()),
    "agent": Place(
        "..broker_agent.process.command",
        "agent_command",
        "Keep the topics and the leases of brokers in the registry.",
        ("agent",),
    ),
    "agent-ctl": Place(".agent_ctl", "agent_ctl", "Show a running agent's status; drain, pause, resume.", ()),
    "before": Place(".history", "before", "List what changed before a time, worst first."),
    "brokers": Place(".listings", "brokers", "List the live brokers, or all."),
    "changes": Place(".changes", "changes", "List the changes of the registry, or follow them."),
    "clusters": Place(".listings", "clusters", "List the clusters, and what is out of order in them."),
    "completion": Place(
        ".completion", "completion", "Print a script that completes words in your shell.", ()
    ),
    "delete-topic": Place(".operators", "delete_topic", "Remove a topic from all brokers' tables."),
    "diff": Place(".history", "diff", "Show what differs between two times."),
    "doctor": Place(
        ".doctor.command",
        "doctor",
        "Say what is wrong with a registry and all around it, and what to do.",
        cannot_run=PLUGIN_UNKNOWN,
    ),
    "export": Place(".maintenance", "export", "Write the whole registry to a file."),
    "forget": Place(".operators", "forget", "Remove brokers that will not come back."),
    "health": Place(".maintenance", "health", "Report on the registry and its server, with advice."),
    "history": Place(".history", "history", "List what happened to a topic or a broker."),
    "import": Place(".maintenance", "import_", "Read an exported registry."),
    "json-schema": Place(".json_schema", "json_schema", "Print the JSON Schema of what a command prints."),
    "kv": Place(".operators", "kv", "Read and write the key-value store."),
    "leases": Place(".listings", "leases", "List the leases, the next to end first."),
    "lift": Place(".operators", "lift", "Give brokers back their write permission."),
    "nameserver": Place(
        "..nameserver.command",
        "nameserver_command",
        "Answer RocketMQ's brokers and clients as a name server.",
        ("nameserver",),
    ),
    "pipeline": Place(
        ".pipeline.group", "pipeline", "Keep the registry's history and report on it, with Spark.", ("spark",)
    ),
    "profiles": Place(".profiles", "profiles", "List the named registries of your profiles."),
    "rebuild": Place(".maintenance", "rebuild", "Repair what `verify` finds."),
    "routes": Place(".listings", "routes", "Show which brokers hold a topic, and where."),
    "table": Place(".history", "table", "Show which brokers had which topics at a time."),
    "topics": Place(".listings", "topics", "List the topics of the live brokers."),
    "verify": Place(".maintenance", "verify", "Check the registry for inconsistencies."),
    "watch": Place(
        ".watch.app",
        "watch",
        "Show brokers, topics, changes and faults as they are now.",
        ("cli", "watch"),
    ),
    "wipe": Place(".operators", "wipe", "Take away the write permission of brokers."),
}

ALIASES: Final = {"route": "routes"}
"""Other names of commands: the singular."""


def main() -> None:
    """Run the command line and exit with its status; a command that lacks extras ends as by wrong usage."""
    if find_spec("click") is None:
        sys.exit(_without_click(sys.argv[1:]))
    try:
        _ROOT.load()(prog_name="sharedroutes")
    except KeyboardInterrupt:  # while it is imported
        sys.exit(_INTERRUPTED)


def no_such_command(name: str, names: Iterable[str]) -> str:
    """Return the message about an unknown command, with the most similar name if there is one."""
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

    nearest = get_close_matches(name, names, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"No such command {name!r}.{hint}"


def missing_extras(words: Sequence[str]) -> str | None:
    """Return in one line what has to be installed for a command line; None when nothing has to be."""
    found = place(words[0])
    return None if found is None else lacking(f"`{words[0]}`", *found.extras)


def place(name: str) -> Place | None:
    """Return where a command is defined, by one of its names; None = there is none."""
    return COMMANDS.get(ALIASES.get(name, name))


def _without_click(words: Sequence[str]) -> int:
    """Answer `--version` and `--help`; return the exit status."""
    match words:
        case ["--version", *_]:
            from .. import __version__  # noqa: PLC0415 - looked up when it is asked for

            sys.stdout.write(f"sharedroutes, version {__version__}\n")
            return 0
        case ["--help" | "-h", *_]:
            sys.stdout.write(_help())
            return 0
        case []:
            sys.stderr.write(_help())
        case [name, *_] if found := place(name):
            sys.stderr.write(f"Error: {missing_extras(words) or lacking(f'`{name}`', 'cli')}\n")
            return found.cannot_run
        case [name, *_] if name.startswith("-"):
            sys.stderr.write(f"Error: No such option {name!r}.\n")
        case [name, *_]:
            sys.stderr.write(f"Error: {no_such_command(name, COMMANDS)}\n")
    return _USAGE


def _help() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(
        (
            "Usage: sharedroutes [OPTIONS] COMMAND [ARGS]...",
            f"\n  {ABOUT}",
            "\nOptions:",
            "  --version   Show the version and exit.",
            "  -h, --help  Show this message and exit.",
            "\nCommands:",
            *(f"  {name.ljust(width)}  {found.short_help}" for name, found in COMMANDS.items()),
            f"\n{lacking('A command', 'cli')}\n",
        )
    )
