"""The tables of all brokers as they stand, in parts that several processes can read: nothing is decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from .. import codec
from ..checks import check_broker_name
from ..errors import CorruptData, InvalidInput
from ..keys import Keys
from ..model import Group
from .base import Command, Plan, Reads, checked, unless_foreign
from .routes import Listing, mget

_AT_ONCE: Final = 1_000

RawTable: TypeAlias = Mapping[bytes, bytes]
"""Names of topics to their configurations, as they stand in the store."""


def table_sizes(keys: Keys) -> Plan[Listing[tuple[str, int]]]:
    """Return each listed broker, by name, with the number of topics in its table.

    A table of another type has 0: who reads it finds out. Raises CorruptData when the index of brokers is
    foreign, StoreUnavailable, StoreRefused.
    """
    (reply,) = yield Reads((("HKEYS", keys.brokers),))
    names: list[str] = []
    corrupt: list[CorruptData] = []
    for raw in checked(keys.brokers, reply):
        name = raw.decode(errors="backslashreplace")
        try:
            check_broker_name(name if codec.is_text(raw) else None)
            names.append(name)
        except InvalidInput:
            corrupt.append(CorruptData(keys.brokers, f"lists {name[:80]!r}, which is no name of a broker"))
    names.sort()
    found: list[tuple[str, int]] = []
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        replies = yield Reads([("HLEN", keys.broker_topics(name)) for name in some])
        for name, reply in zip(some, replies, strict=True):
            found.append((name, unless_foreign(keys.broker_topics(name), reply) or 0))
    return Listing(found, tuple(corrupt))


def tables(keys: Keys, names: Sequence[str]) -> Plan[list[RawTable | CorruptData]]:
    """Return the whole tables of some brokers, in one round trip: for small ones, a few at a time."""
    names_of_keys = [keys.broker_topics(name) for name in names]
    replies = yield Reads([("HGETALL", key) for key in names_of_keys])
    found: list[RawTable | CorruptData] = []
    for key, reply in zip(names_of_keys, replies, strict=True):
        try:
            found.append(checked(key, reply))
        except CorruptData as error:
            found.append(error)
    return found


def table_page(keys: Keys, name: str, cursor: int, count: int) -> Plan[tuple[int, RawTable]]:
    """Return the next cursor, 0 at the end, and about `count` topics of a table; raise CorruptData.

    A topic may come twice, and one that comes or goes meanwhile may be missing.
    """
    key = keys.broker_topics(name)
    (reply,) = yield Reads((("HSCAN", key, cursor, "COUNT", count),))
    following, page = checked(key, reply)
    return int(following), page


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica that a broker has, or had."""

    broker_name: str
    broker_id: int
    cluster: str
    wiped: bool
    member: bytes | None
    """What it said of itself, encoded; None = it has left, or was never there."""

    epoch: int | None
    """Of its owner; None = what stands there is no epoch."""

    lease: bytes | None
    """None = it is not alive."""

    left_ms: int | None
    """Until its lease ends; None = it is not alive, or nobody noted when."""


def replicas(keys: Keys, names: Sequence[str]) -> Plan[Listing[Replica]]:
    """Return the replicas of some brokers, by name and id; a few hundred brokers at a time.

    Raises StoreUnavailable, StoreRefused.
    """
    replies = yield Reads([("HGETALL", keys.broker(name)) for name in names])
    corrupt: list[CorruptData] = []
    found: list[tuple[Group, int, Mapping[bytes, bytes]]] = []
    for name, reply in zip(names, replies, strict=True):
        try:
            fields: Mapping[bytes, bytes] = checked(keys.broker(name), reply)
        except CorruptData as error:
            corrupt.append(error)
            continue
        group = codec.decode_group(name, fields)
        ids = {of[1] for of in map(codec.replica_field, fields) if of is not None}
        found += [(group, broker_id, fields) for broker_id in sorted(ids)]
    named = [(group.broker_name, broker_id) for group, broker_id, _ in found]
    leases = yield from mget([keys.lease(*of) for of in named])
    ends: list[Command] = [("ZSCORE", keys.deadlines, keys.lease_member(*of)) for of in named]
    *scores, clock = yield Reads([*ends, ("TIME",)])
    now_ms = _clock_ms(checked(keys.deadlines, clock))
    listed = []
    for (group, broker_id, fields), lease, score in zip(found, leases, scores, strict=True):
        ends_ms = unless_foreign(keys.deadlines, score) if lease is not None else None
        left_ms = None if ends_ms is None else max(0, int(float(ends_ms)) - now_ms)
        listed.append(_replica(group, broker_id, fields, lease, left_ms))
    return Listing(listed, tuple(corrupt))


def _replica(
    group: Group, broker_id: int, fields: Mapping[bytes, bytes], lease: bytes | None, left_ms: int | None
) -> Replica:
    member = fields.get(f"member:{broker_id}".encode())
    epoch = codec.number(fields.get(f"epoch:{broker_id}".encode(), b"").decode(errors="replace"))
    return Replica(group.broker_name, broker_id, group.cluster, group.wiped, member, epoch, lease, left_ms)


def _clock_ms(clock: Sequence[int | bytes]) -> int:
    seconds, us = clock
    return int(seconds) * 1_000 + int(us) // 1_000
