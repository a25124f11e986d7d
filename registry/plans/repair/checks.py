"""What groups, leases, deadlines and listings must be like, as checks that can be made twice.

A cheap first look finds suspects; a second one, an atomic script, confirms them. So what is written meanwhile
is no difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from ... import codec, scripts
from ...checks import check_address, check_name
from ...errors import CorruptData, InvalidInput, StoreRefused
from ...keys import Keys
from ..base import Call, Command, ErrorReply, Plan, Reads, Reply, script_reply

FOREIGN: Final = ErrorReply("WRONGTYPE", "")
"""Stands for the reply of a key that holds another type; the key itself is reported elsewhere."""

_FOREIGN_IN_SCRIPT: Final = [b"foreign"]
_WORDS_AT_ONCE: Final = 3_000
"""Words of commands in one atomic look: Redis is busy for about a millisecond."""

_EPOCH: Final = re.compile(rb"[0-9]{1,16}")
_TOKEN: Final = re.compile(r"[0-9]{1,16}\.[0-9]{1,18}")


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
    part: bytes = field(default=b"", repr=False)
    """The field or member of the key."""

    mendable: bool = True
    """Whether `rebuild` can put it right."""

    mended: bool = False
    left: str = ""
    """Why `rebuild` did not mend it."""

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


def suspects(checks: Sequence[Check]) -> Plan[list[Check]]:
    """Return the checks that find something at a first, cheap look."""
    replies = iter((yield from ask([command for check in checks for command in check.commands])))
    return [check for check in checks if any(check.judge(*[next(replies) for _ in check.commands]))]


def confirm(checks: Iterable[Check]) -> Plan[list[Difference]]:
    """Return the differences that a second look finds; what one check reads is of one instant."""
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


def field_problem(broker_name: str, name: bytes, value: bytes) -> str | None:
    """Return what is wrong with a field of a group, "" if nothing is; None for an unknown field."""
    text, of_replica = name.decode(errors="replace"), codec.replica_field(name)
    if of_replica is None and text not in ("token", "wiped", "cluster"):
        return None
    try:
        if of_replica is not None:
            _check_of_replica(of_replica[0], broker_name, of_replica[1], value)
        elif text == "cluster":
            check_name("brokerClusterName", value.decode())
        elif text == "wiped" and value != b"1":
            return "is not 1"
        elif text == "token" and not _TOKEN.fullmatch(value.decode(errors="replace")):
            return "is no table token"
    except CorruptData as error:
        return error.reason
    except (InvalidInput, UnicodeDecodeError) as error:
        return str(error)
    return ""


def _check_of_replica(what: str, broker_name: str, broker_id: int, value: bytes) -> None:
    if what == "member":
        codec.decode_broker("", broker_name, broker_id, "cluster", value)
    elif what == "version":
        codec.decode_data_version("", value)
    elif what == "out":
        check_address("out", value.decode())
    elif not _EPOCH.fullmatch(value):
        raise InvalidInput("is no epoch")


def group_check(keys: Keys, broker_name: str) -> Check:
    """Return the check of a group's fields, and whether the index of brokers has it."""
    key = keys.broker(broker_name)
    found = partial(Difference, key=key, broker_name=broker_name)

    def judge(group: Reply, listed: Reply) -> Iterator[Difference]:
        if group is FOREIGN or not group:
            return
        # A script's reply is a list.
        fields = group if isinstance(group, Mapping) else dict(zip(group[::2], group[1::2], strict=True))
        for part, value in fields.items():
            problem = field_problem(broker_name, part, value)
            if problem is None:
                text = f"has a field {part[:80]!r} that the registry did not write; remove it"
                yield found(DifferenceKind.FIELD_UNKNOWN, text=text, part=part, mendable=False)
            elif problem:
                text = f"its field {part!r} is {value[:80]!r}: {problem}"
                yield found(DifferenceKind.FIELD_CORRUPT, text=text, part=part)
        if b"cluster" not in fields and any(name.startswith(b"member:") for name in fields):
            known = isinstance(listed, bytes) and field_problem(broker_name, b"cluster", listed) == ""
            text = "has members and no cluster" + (
                "" if known else "; the broker brings it when it registers"
            )
            yield found(DifferenceKind.FIELD_CORRUPT, text=text, part=b"cluster", mendable=known)
        if listed is None:
            yield found(DifferenceKind.BROKER_UNLISTED, text=_BROKER_UNLISTED)

    return Check((("HGETALL", key), ("HGET", keys.brokers, broker_name)), judge)


_BROKER_UNLISTED: Final = "the broker is not in the index of brokers"


def table_group_check(keys: Keys, broker_name: str) -> Check:
    """Return the check whether a broker's table has a group, and is listed."""
    key = keys.broker_topics(broker_name)
    found = partial(Difference, key=key, broker_name=broker_name)

    def judge(table: Reply, group: Reply, listed: Reply) -> Iterator[Difference]:
        if table != 1 or group != 0:
            return
        text = "the group of this table is lost; the broker brings it when it registers, `forget` removes it"
        yield found(DifferenceKind.TABLE_WITHOUT_GROUP, text=text, mendable=False)
        if listed == 0:
            yield found(DifferenceKind.BROKER_UNLISTED, text=_BROKER_UNLISTED)

    group_key = keys.broker(broker_name)
    return Check((("EXISTS", key), ("EXISTS", group_key), ("HEXISTS", keys.brokers, broker_name)), judge)


def member_check(keys: Keys, broker_name: str, broker_id: int) -> Check:
    """Return the check whether the end of a member without a lease will be announced."""
    key = keys.broker(broker_name)

    def judge(member: Reply, lease: Reply, deadline: Reply) -> Iterator[Difference]:
        if member not in (None, FOREIGN) and lease is None and deadline is None:
            text = f"replica {broker_id} has neither lease nor deadline: nobody tells that it is dead"
            yield Difference(DifferenceKind.MEMBER_WITHOUT_DEADLINE, key, text, broker_name, broker_id)

    commands: tuple[Command, ...] = (
        ("HGET", key, f"member:{broker_id}"),
        ("GET", keys.lease(broker_name, broker_id)),
        ("ZSCORE", keys.deadlines, keys.lease_member(broker_name, broker_id)),
    )
    return Check(commands, judge)


def lease_check(keys: Keys, broker_name: str, broker_id: int) -> Check:
    """Return the check of a lease, its member and its deadline."""
    key, group = keys.lease(broker_name, broker_id), keys.broker(broker_name)
    found = partial(Difference, key=key, broker_name=broker_name, broker_id=broker_id)

    def judge(lease: Reply, epoch: Reply, member: Reply, deadline: Reply) -> Iterator[Difference]:
        if lease in (None, FOREIGN) or epoch is FOREIGN:
            return
        held, issued = codec.decode_lease(lease), _issued(epoch)
        if held is None:
            text = f"{lease[:80]!r} is no lease: the replica is not seen, and cannot register until it ends"
            yield found(DifferenceKind.LEASE_CORRUPT, text=text, mendable=False)
        elif issued is not None and held[0] > issued:  # an older one: a take-over, and it ends by itself
            text = f"has epoch {held[0]}, its group knows {issued or 'none'}: its owner registers again"
            yield found(DifferenceKind.LEASE_EPOCH, text=text, mendable=False)
        elif held[0] == issued and member is None:
            text = "is not among the members of its group: nobody sees it"
            yield found(DifferenceKind.LEASE_WITHOUT_MEMBER, text=text)
        if deadline is None or (deadline is not FOREIGN and float(deadline) == math.inf):
            text = "has no deadline: nobody would notice its end at once"
            yield found(DifferenceKind.LEASE_WITHOUT_DEADLINE, text=text)

    commands: tuple[Command, ...] = (
        ("GET", key),
        ("HGET", group, f"epoch:{broker_id}"),
        ("HGET", group, f"member:{broker_id}"),
        ("ZSCORE", keys.deadlines, keys.lease_member(broker_name, broker_id)),
    )
    return Check(commands, judge)


def _issued(epoch: bytes | None) -> int | None:
    """Return the epoch that a group has issued, 0 for none; None for garbage, reported as a field."""
    return int(epoch or 0) if epoch is None or _EPOCH.fullmatch(epoch) else None


_AHEAD_MS: Final = 1_000
"""A lease and its deadline are written at once: a lease that has ended has no deadline ahead."""


def deadline_check(keys: Keys, broker_name: str, broker_id: int, late_ms: int) -> Check:
    """Return the check whether a lease ended unannounced, more than `late_ms` ago or before its deadline."""
    member = keys.lease_member(broker_name, broker_id)

    def judge(deadline: Reply, lease: Reply, clock: Reply) -> Iterator[Difference]:
        if deadline in (None, FOREIGN) or lease == 1:
            return
        overdue_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000 - float(deadline)
        if not -_AHEAD_MS <= overdue_ms <= late_ms:
            since = f"{overdue_ms / 1000:.1f} s ago" if 0 < overdue_ms < math.inf else "before its deadline"
            text, part = f"the lease of {member} ended {since}: nobody sweeps", member.encode()
            kind, key = DifferenceKind.DEADLINE_OVERDUE, keys.deadlines
            yield Difference(kind, key, text, broker_name, broker_id, part=part)

    lease_key = keys.lease(broker_name, broker_id)
    return Check((("ZSCORE", keys.deadlines, member), ("EXISTS", lease_key), ("TIME",)), judge)


def topic_listed(keys: Keys, topic: str) -> Check:
    """Return the check whether a listed topic has a route index."""
    found = partial(Difference, DifferenceKind.TOPIC_GONE, topic=topic)
    return _listed(keys.topics, "SISMEMBER", topic, found, (keys.topic(topic),))


def broker_listed(keys: Keys, name: str) -> Check:
    """Return the check whether a listed broker has a group or a table."""
    found = partial(Difference, DifferenceKind.BROKER_GONE, broker_name=name)
    return _listed(keys.brokers, "HEXISTS", name, found, (keys.broker(name), keys.broker_topics(name)))


def _listed(key: str, command: str, name: str, found: Callable[..., Difference], of: Sequence[str]) -> Check:
    def judge(listed: Reply, *present: Reply) -> Iterator[Difference]:
        if listed == 1 and not any(present):
            text = f"lists {name[:80]!r}, and there is no key {' or '.join(of)}"
            yield found(key=key, text=text, part=name.encode())

    return Check(((command, key, name), *(("EXISTS", one) for one in of)), judge)


def namespace_check(keys: Keys, namespace: str) -> Check:
    """Return the check whether a namespace of the key-value store is listed."""
    key = keys.kv(namespace)

    def judge(present: Reply, listed: Reply) -> Iterator[Difference]:
        if present == 1 and listed == 0:
            text, part = "the namespace is not in the set of namespaces", namespace.encode()
            yield Difference(DifferenceKind.NAMESPACE_UNLISTED, key, text, part=part)

    return Check((("EXISTS", key), ("SISMEMBER", keys.namespaces, namespace)), judge)


def schema_check(keys: Keys) -> Check:
    """Return the check of the number of the table's form."""

    def judge(schema: Reply, brokers: Reply, namespaces: Reply) -> Iterator[Difference]:
        if schema is FOREIGN:
            return
        if schema is None and (brokers or namespaces):
            text = f"is missing; it should be {scripts.SCHEMA}"
            yield Difference(DifferenceKind.SCHEMA, keys.schema, text)
        elif schema is not None and not schema.isdigit():
            text = f"{schema[:80]!r} is no schema number: all writes are refused; set it to the right one"
            yield Difference(DifferenceKind.SCHEMA, keys.schema, text, mendable=False)

    return Check((("GET", keys.schema), ("EXISTS", keys.brokers), ("EXISTS", keys.namespaces)), judge)
