"""What groups, leases, deadlines and listings must be like, each as a check that can be made twice."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ... import codec, scripts
from ...checks import check_address, check_name
from ...differences import Difference, DifferenceKind
from ...errors import CorruptData, InvalidInput
from ...keys import Keys
from ..base import Command, Reply
from .look import FOREIGN, Check

_EPOCH: Final = re.compile(rb"[0-9]{1,16}")
_TOKEN: Final = re.compile(r"[0-9]{1,16}\.[0-9]{1,18}")


def group_fields(reply: Reply) -> dict[bytes, bytes]:
    """Return the fields of a hash, whether it was read by itself or in a script."""
    if isinstance(reply, Mapping):
        return dict(reply)
    return dict(zip(reply[::2], reply[1::2], strict=True))


def field_problem(broker_name: str, name: bytes, value: bytes) -> str | None:
    """Return what is wrong with a field of a group, "" if nothing is; None for one that is none of ours."""
    text = name.decode(errors="replace")
    of_replica = codec.replica_field(name)
    if of_replica is None and text not in ("token", "wiped", "cluster"):
        return None
    try:
        if of_replica is not None:
            _check_of_replica(of_replica[0], broker_name, of_replica[1], value)
        else:
            _check_of_group(text, value)
    except CorruptData as error:
        return error.reason
    except (InvalidInput, UnicodeDecodeError) as error:
        return str(error)
    return ""


def _check_of_group(what: str, value: bytes) -> None:
    if what == "cluster":
        check_name("brokerClusterName", value.decode())
    elif what == "wiped" and value != b"1":
        raise InvalidInput("is not 1")
    elif what == "token" and not _TOKEN.fullmatch(value.decode(errors="replace")):
        raise InvalidInput("is no table token")


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

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        group, listed = replies
        if group is FOREIGN or not group:
            return []
        found = list(_field_differences(key, broker_name, group_fields(group), listed))
        if listed is None:
            text = "the broker is not in the index of brokers"
            found.append(
                Difference(kind=DifferenceKind.BROKER_UNLISTED, key=key, text=text, broker_name=broker_name)
            )
        return found

    return Check((("HGETALL", key), ("HGET", keys.brokers, broker_name)), judge)


def _field_differences(
    key: str, broker_name: str, fields: Mapping[bytes, bytes], listed: Reply
) -> Iterator[Difference]:
    for name, value in fields.items():
        problem = field_problem(broker_name, name, value)
        if problem is None:
            yield Difference(
                kind=DifferenceKind.FIELD_UNKNOWN,
                key=key,
                text=f"has a field {name[:80]!r} that the registry did not write; remove it",
                mendable=False,
                broker_name=broker_name,
                part=name,
            )
        elif problem:
            yield _field_corrupt(key, broker_name, name, f"its field {name!r} is {value[:80]!r}: {problem}")
    if b"cluster" not in fields and any(name.startswith(b"member:") for name in fields):
        known = isinstance(listed, bytes) and field_problem(broker_name, b"cluster", listed) == ""
        text = "has members and no cluster" + ("" if known else "; the broker brings it when it registers")
        yield _field_corrupt(key, broker_name, b"cluster", text, mendable=known)


def _field_corrupt(
    key: str, broker_name: str, name: bytes, text: str, *, mendable: bool = True
) -> Difference:
    return Difference(
        kind=DifferenceKind.FIELD_CORRUPT,
        key=key,
        text=text,
        mendable=mendable,
        broker_name=broker_name,
        part=name,
    )


def table_group_check(keys: Keys, broker_name: str) -> Check:
    """Return the check whether a broker's table has a group, and is listed."""
    key = keys.broker_topics(broker_name)

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        table, group, listed = replies
        found = []
        if table == 1 and group == 0:
            text = (
                "the group of this table is lost; the broker brings it when it registers, `forget` removes it"
            )
            found.append(
                Difference(
                    kind=DifferenceKind.TABLE_WITHOUT_GROUP,
                    key=key,
                    text=text,
                    mendable=False,
                    broker_name=broker_name,
                )
            )
            if listed == 0:
                text = "the broker is not in the index of brokers"
                found.append(
                    Difference(
                        kind=DifferenceKind.BROKER_UNLISTED, key=key, text=text, broker_name=broker_name
                    )
                )
        return found

    return Check(
        (("EXISTS", key), ("EXISTS", keys.broker(broker_name)), ("HEXISTS", keys.brokers, broker_name)),
        judge,
    )


def member_check(keys: Keys, broker_name: str, broker_id: int) -> Check:
    """Return the check whether the end of a member without a lease will be told."""
    key, lease_key = keys.broker(broker_name), keys.lease(broker_name, broker_id)

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        member, lease, deadline = replies
        if member in (None, FOREIGN) or lease is not None or deadline is not None:
            return []
        return [
            Difference(
                kind=DifferenceKind.MEMBER_WITHOUT_DEADLINE,
                key=key,
                text=f"replica {broker_id} has neither lease nor deadline: nobody tells that it is dead",
                broker_name=broker_name,
                broker_id=broker_id,
            )
        ]

    return Check(
        (
            ("HGET", key, f"member:{broker_id}"),
            ("GET", lease_key),
            ("ZSCORE", keys.deadlines, keys.lease_member(broker_name, broker_id)),
        ),
        judge,
    )


def lease_check(keys: Keys, broker_name: str, broker_id: int) -> Check:
    """Return the check of a lease, its member and its deadline."""
    key = keys.lease(broker_name, broker_id)
    group = keys.broker(broker_name)

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        lease, epoch, member, deadline = replies
        if lease in (None, FOREIGN) or epoch is FOREIGN:
            return []
        found = [_lease_problem(lease, epoch, member)]
        if _never(deadline):
            text = "has no deadline: nobody would notice its end at once"
            found.append((DifferenceKind.LEASE_WITHOUT_DEADLINE, text, True))
        return [
            Difference(
                kind=kind,
                key=key,
                text=text,
                mendable=mendable,
                broker_name=broker_name,
                broker_id=broker_id,
            )
            for kind, text, mendable in filter(None, found)
        ]

    commands: tuple[Command, ...] = (
        ("GET", key),
        ("HGET", group, f"epoch:{broker_id}"),
        ("HGET", group, f"member:{broker_id}"),
        ("ZSCORE", keys.deadlines, keys.lease_member(broker_name, broker_id)),
    )
    return Check(commands, judge)


def _never(deadline: Reply) -> bool:
    """Whether nobody would ever look at a lease: it has no deadline, or one that does not come."""
    return deadline is None or (deadline is not FOREIGN and float(deadline) == math.inf)


def _lease_problem(
    lease: bytes, epoch: bytes | None, member: bytes | None
) -> tuple[DifferenceKind, str, bool] | None:
    held = codec.decode_lease(lease)
    if held is None:
        text = f"{lease[:80]!r} is no lease: the replica is not seen, and cannot register until it ends"
        return DifferenceKind.LEASE_CORRUPT, text, False
    if epoch is not None and not _EPOCH.fullmatch(epoch):
        return None  # the field is reported
    issued = int(epoch or 0)
    if held[0] > issued:  # an older one: somebody is taking over, and it ends by itself
        text = f"has epoch {held[0]}, its group knows {issued or 'none'}: its owner registers again"
        return DifferenceKind.LEASE_EPOCH, text, False
    if held[0] == issued and member is None:
        return (
            DifferenceKind.LEASE_WITHOUT_MEMBER,
            "is not among the members of its group: nobody sees it",
            True,
        )
    return None


_AHEAD_MS: Final = 1_000
"""A lease and its deadline are written at once: one that has ended has no deadline ahead."""


def deadline_check(keys: Keys, broker_name: str, broker_id: int, late_ms: int) -> Check:
    """Return the check whether a lease ended untold, more than `late_ms` ago or before its deadline."""
    member = keys.lease_member(broker_name, broker_id)

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        deadline, lease, clock = replies
        if deadline in (None, FOREIGN) or lease == 1:
            return []
        overdue_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000 - float(deadline)
        if -_AHEAD_MS <= overdue_ms <= late_ms:
            return []
        since = f"{overdue_ms / 1000:.1f} s ago" if 0 < overdue_ms < math.inf else "before its deadline"
        return [
            Difference(
                kind=DifferenceKind.DEADLINE_OVERDUE,
                key=keys.deadlines,
                text=f"the lease of {member} ended {since}: nobody sweeps",
                broker_name=broker_name,
                broker_id=broker_id,
                part=member.encode(),
            )
        ]

    return Check(
        (
            ("ZSCORE", keys.deadlines, member),
            ("EXISTS", keys.lease(broker_name, broker_id)),
            ("TIME",),
        ),
        judge,
    )


def topic_listed(keys: Keys, topic: str) -> Check:
    """Return the check whether a listed topic has a route index."""
    return _listed(keys.topics, "SISMEMBER", topic, DifferenceKind.TOPIC_GONE, (keys.topic(topic),))


def broker_listed(keys: Keys, name: str) -> Check:
    """Return the check whether a listed broker has a group or a table."""
    of = (keys.broker(name), keys.broker_topics(name))
    return _listed(keys.brokers, "HEXISTS", name, DifferenceKind.BROKER_GONE, of)


def _listed(key: str, command: str, name: str, kind: DifferenceKind, of: Sequence[str]) -> Check:
    def judge(replies: Sequence[Reply]) -> list[Difference]:
        listed, *present = replies
        if listed != 1 or any(present):
            return []
        found = Difference(
            kind=kind,
            key=key,
            text=f"lists {name[:80]!r}, and there is no key {' or '.join(of)}",
            broker_name=name if kind is DifferenceKind.BROKER_GONE else "",
            topic=name if kind is DifferenceKind.TOPIC_GONE else "",
            part=name.encode(),
        )
        return [found]

    keys: list[Command] = [("EXISTS", one) for one in of]
    return Check(((command, key, name), *keys), judge)


def namespace_check(keys: Keys, namespace: str) -> Check:
    """Return the check whether a namespace of the key-value store is listed."""
    key = keys.kv(namespace)

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        present, listed = replies
        if present != 1 or listed != 0:
            return []
        text = "the namespace is not in the set of namespaces"
        return [
            Difference(kind=DifferenceKind.NAMESPACE_UNLISTED, key=key, text=text, part=namespace.encode())
        ]

    return Check((("EXISTS", key), ("SISMEMBER", keys.namespaces, namespace)), judge)


def schema_check(keys: Keys) -> Check:
    """Return the check of the number of the table's form."""

    def judge(replies: Sequence[Reply]) -> list[Difference]:
        schema, brokers, namespaces = replies
        if schema is FOREIGN or (schema is None and not brokers and not namespaces):
            return []
        if schema is None:
            text = f"is missing; it should be {scripts.SCHEMA}"
            return [Difference(kind=DifferenceKind.SCHEMA, key=keys.schema, text=text)]
        if schema.isdigit():
            return []
        text = f"{schema[:80]!r} is no schema number: all writes are refused; set it to the right one"
        return [Difference(kind=DifferenceKind.SCHEMA, key=keys.schema, text=text, mendable=False)]

    return Check((("GET", keys.schema), ("EXISTS", keys.brokers), ("EXISTS", keys.namespaces)), judge)
