"""What can be wrong in a registry, and how it is found: by checks of what an atomic script reads.

So what is written meanwhile is no difference. What the script read is also what a cure compares with before
it writes. Rows of the route index, of which there are many, get a cheaper look before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from ... import scripts
from ...errors import StoreRefused
from ..base import Call, Command, ErrorReply, Plan, Reads, Reply, script_reply

FOREIGN: Final = ErrorReply("WRONGTYPE", "")
"""Stands for the reply of a key that holds another type; the key itself is reported elsewhere."""

_FOREIGN_IN_SCRIPT: Final = [b"foreign"]
_WORDS_AT_ONCE: Final = 3_000
"""Words of commands in one atomic look: Redis is busy for about a millisecond."""


class DifferenceKind(StrEnum):
    """How a registry differs from its design."""

    UNKNOWN_KEY = "unknown-key"  # a key in the registry's namespace that is of no kind
    WRONG_TYPE = "wrong-type"  # something else stands where the registry keeps a value
    NO_TTL = "no-ttl"  # a lease that would never end
    UNWANTED_TTL = "unwanted-ttl"  # a key that would vanish
    SCHEMA = "schema"  # the number of the table's form is missing or is none

    TOPIC_UNLISTED = "topic-unlisted"  # a route index whose topic is not in the set of topics
    TOPIC_GONE = "topic-gone"  # a name in the set of topics that has no route index
    BROKER_UNLISTED = "broker-unlisted"  # a broker that is not in the index of brokers
    BROKER_GONE = "broker-gone"  # a name in the index of brokers that has neither group nor table
    NAMESPACE_UNLISTED = "namespace-unlisted"  # a namespace of the key-value store that is not in their set
    TABLE_WITHOUT_GROUP = "table-without-group"  # a broker's table whose group is lost

    ROW_MISSING = "row-missing"  # a topic in a broker's table that the route index does not have of it
    ROW_STALE = "row-stale"  # a row that is another than the broker's table makes
    ROW_DUPLICATE = "row-duplicate"  # several rows of one broker in one route index
    ROW_WITHOUT_TABLE = "row-without-table"  # a row of a broker whose table does not have the topic
    ROW_CORRUPT = "row-corrupt"  # a row that is no route
    CONFIG_CORRUPT = "config-corrupt"  # an entry of a broker's table that is no topic's configuration

    FIELD_CORRUPT = "field-corrupt"  # a field of a group that cannot be read
    FIELD_UNKNOWN = "field-unknown"  # a field of a group that the registry did not write

    LEASE_CORRUPT = "lease-corrupt"  # the value of a lease is none
    LEASE_EPOCH = "lease-epoch"  # an epoch that its group has not issued: a fail-over lost writes
    LEASE_WITHOUT_MEMBER = "lease-without-member"  # a live replica that lookups do not see in its group
    LEASE_WITHOUT_DEADLINE = "lease-without-deadline"  # a live replica whose end nobody would notice at once
    MEMBER_WITHOUT_DEADLINE = "member-without-deadline"  # a dead replica whose end nobody announces
    DEADLINE_OVERDUE = "deadline-overdue"  # the end of a lease, long ago and unannounced: nobody sweeps
    DEADLINE_CORRUPT = "deadline-corrupt"  # a member of the deadlines that stands for no lease


class RowCure(NamedTuple):
    """Makes a broker's row of one topic what its table says; many at once, decided by a script."""

    nobodys: bytes = b""
    """The rows to remove instead, a line each, when the difference is of no broker."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in a registry that is wrong, and what `rebuild` did about it."""

    kind: DifferenceKind
    key: str
    text: str
    """What is wrong, and what to do if it cannot be mended."""

    broker_name: str = ""
    broker_id: int | None = None
    topic: str = ""
    cure: Call | RowCure | None = field(default=None, repr=False)
    """What `rebuild` does about it; None = it cannot be mended from the brokers' tables."""

    mended: bool = False
    left: str = ""
    """Why `rebuild` did not mend it."""

    @property
    def mendable(self) -> bool:
        """Whether `rebuild` can put it right."""
        return self.cure is not None

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


@dataclass(frozen=True, slots=True)
class Check:
    """Commands that read one key each, the second word, and what their replies say."""

    commands: Sequence[Command]
    judge: Callable[..., Iterable[Difference]]
    """Takes the replies of one look."""


def ask(commands: Sequence[Command]) -> Plan[list[Reply]]:
    """Return the replies, FOREIGN for a key of another type; raise StoreRefused."""
    if not commands:
        return []
    replies = yield Reads(commands)
    return [_unless_refused(command, reply) for command, reply in zip(commands, replies, strict=True)]


def _unless_refused(command: Command, reply: Reply) -> Reply:
    if not isinstance(reply, ErrorReply):
        return reply
    if reply.code == FOREIGN.code:
        return FOREIGN
    raise StoreRefused(f"{command[0]!r}: {reply.code} {reply.message}")


def run(checks: Iterable[Check]) -> Plan[list[Difference]]:
    """Return the differences that some checks find; what one check reads is of one instant."""
    found: list[Difference] = []
    some: list[Check] = []
    words = 0
    for check in checks:
        some.append(check)
        words += sum(map(len, check.commands))
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
    return [found for check in checks for found in check.judge(*[next(values) for _ in check.commands])]
