"""The commands: where each is, and what it needs; works without click, as the list of them must."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..extras import lacking

ABOUT: Final = "Routes of message brokers, shared through Redis."


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is, what the list of commands says of it, and which extras it needs."""

    module: str
    attribute: str
    short_help: str
    extras: tuple[str, ...] = ("cli",)


COMMANDS: Final = {
    "acl": Place(".acl", "acl", "Print what a user of Redis may do in a role.", ()),
    "agent": Place(
        "..broker_agent.command",
        "agent_command",
        "Keep the topics and the heartbeats of brokers in the registry.",
        ("agent",),
    ),
    "agent-ctl": Place(".agent_ctl", "agent_ctl", "Ask a running agent how it is; drain, pause, resume.", ()),
    "brokers": Place(".brokers", "brokers", "List the brokers: the live ones, or all."),
    "changes": Place(".changes", "changes", "List what happened to the registry, or follow it."),
    "delete-topic": Place(".operate", "delete_topic", "Remove a topic from all brokers' tables."),
    "demo": Place(
        ".demo.command",
        "demo",
        "Kill brokers, a host and Redis; lose no message.",
        ("agent", "cli", "embedded"),
    ),
    "export": Place(".transfer", "export", "Write the whole registry to a file."),
    "forget": Place(".repair", "forget", "Remove brokers that will not come back."),
    "health": Place(".health", "health", "Report on the registry and its server, with advice."),
    "import": Place(".transfer", "import_", "Read an exported registry."),
    "kv": Place(".operate", "kv", "Read and write the key-value store."),
    "lift": Place(".operate", "lift", "Let brokers be written to again."),
    "pipeline": Place(
        ".pipeline.group", "pipeline", "Keep and answer the registry's history, on Spark.", ("spark",)
    ),
    "rebuild": Place(".repair", "rebuild", "Mend what `verify` finds."),
    "routes": Place(".read", "routes", "Show who holds topics, and where."),
    "topics": Place(".read", "topics", "List the topics of the live brokers."),
    "verify": Place(".repair", "verify", "Find what is not as it should be in the registry."),
    "wipe": Place(".operate", "wipe", "Let nobody write to brokers."),
}


def no_such_command(name: str, names: Iterable[str]) -> str:
    """Return what is said of a command that there is not: with the nearest one, if one is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

    nearest = get_close_matches(name, names, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"No such command {name!r}.{hint}"


def problem_of(words: Sequence[str]) -> str | None:
    """Return what is missing for a command line, in one line; None when all is there, or nobody knows it."""
    place = COMMANDS.get(words[0])
    if place is None:
        return None
    name, extras = words[0], place.extras
    if len(words) > 1 and (words[0], words[1]) == ("pipeline", "demo"):
        name, extras = "pipeline demo", (*extras, "agent", "embedded")
    return lacking(f"`{name}`", *(extra for extra in extras if extra != "embedded" or _lacks_server()))


def _lacks_server() -> bool:
    from ..registry import EmbeddedServerError  # noqa: PLC0415 - for the demos alone
    from ..registry.embedded import find_server  # noqa: PLC0415 - as above

    try:
        find_server()
    except EmbeddedServerError:
        return "SHAREDROUTES_REDIS_SERVER" not in os.environ  # it may name what is not there
    return False
