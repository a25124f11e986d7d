"""Looking twice: a difference counts when one atomic look finds it, whatever is written meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ... import scripts
from ...differences import Difference
from ...errors import StoreRefused
from ..base import Call, Command, ErrorReply, Plan, Reads, Reply, script_reply

FOREIGN: Final = ErrorReply("WRONGTYPE", "")
"""Stands for the reply of a key that holds another type; the key itself is reported elsewhere."""

_FOREIGN_IN_SCRIPT: Final = [b"foreign"]
_WORDS_AT_ONCE: Final = 3_000
"""Words of commands in one atomic look: Redis is busy for about a millisecond."""


@dataclass(frozen=True, slots=True)
class Check:
    """Commands that read one key each, the second word, and what their replies say."""

    commands: Sequence[Command]
    judge: Callable[[Sequence[Reply]], Sequence[Difference]]


def ask(commands: Sequence[Command]) -> Plan[list[Reply]]:
    """Return the replies, FOREIGN for a key of another type; raise StoreRefused."""
    if not commands:
        return []
    replies = yield Reads(commands)
    return [_checked(command, reply) for command, reply in zip(commands, replies, strict=True)]


def suspects(checks: Sequence[Check]) -> Plan[list[Check]]:
    """Return the checks that find something at a first, cheap look."""
    replies = iter((yield from ask([command for check in checks for command in check.commands])))
    return [check for check in checks if check.judge([next(replies) for _ in check.commands])]


def confirm(checks: Iterable[Check]) -> Plan[list[Difference]]:
    """Return the differences that a second look finds; what one check reads is of one instant."""
    found: list[Difference] = []
    some: list[Check] = []
    words = 0
    for check in checks:
        some.append(check)
        words += sum(len(command) for command in check.commands)
        if words >= _WORDS_AT_ONCE:
            found += yield from _snapshot(some)
            some, words = [], 0
    if some:
        found += yield from _snapshot(some)
    return found


def _snapshot(checks: Sequence[Check]) -> Plan[list[Difference]]:
    commands = [command for check in checks for command in check.commands]
    keys = dict.fromkeys(str(command[1]) for command in commands if len(command) > 1)
    arguments = [word for command in commands for word in (len(command), *command)]
    _, replies = yield from script_reply(Call(scripts.SNAPSHOT, tuple(keys), arguments))
    values = iter([FOREIGN if reply == _FOREIGN_IN_SCRIPT else reply for reply in replies])
    return [found for check in checks for found in check.judge([next(values) for _ in check.commands])]


def _checked(command: Command, reply: Reply) -> Reply:
    if not isinstance(reply, ErrorReply):
        return reply
    if reply.code == FOREIGN.code:
        return FOREIGN
    raise StoreRefused(f"{command[0]!r}: {reply.code} {reply.message}")
