"""The overview: how much there is of everything, and the first rows of it, for people who look on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final, TypeVar

from .. import codec
from ..errors import CorruptData
from ..keys import Keys
from ..model import Change
from .base import Plan, Reads, checked, clock_us, read, unless_foreign
from .changes import NO_CHANGES, HistoryBounds, history_bounds, newest_changes
from .client_hints import hints
from .expiry import whole_ms
from .routes import Lookup, lookup

T = TypeVar("T")

_SCAN_COUNT: Final = 1_000
_MOST_LEASES: Final = 20_000
_CHANGES: Final = 20


@dataclass(frozen=True, slots=True)
class Names:
    """The first names that were asked for, and how many there are."""

    first: tuple[str, ...] = ()
    matching: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The registry, read within some milliseconds; times in ms since 1970 by the clock of the store."""

    now_ms: int
    brokers: Names
    """Broker names: those without a live replica come first."""

    topics: Names
    table: Lookup
    """The rows of the first topics, and the groups of their brokers and of the first brokers."""

    deadlines: Mapping[tuple[str, int], int]
    """When the leases of the first brokers end, by name and id; one that is not there has ended."""

    leases: int
    """Replicas that are alive."""

    away: int
    """Broker names without a live replica."""

    changes: tuple[Change, ...]
    """The newest first."""

    feed: HistoryBounds
    hints: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Broker name to the clients that cannot reach it."""

    corrupt: tuple[CorruptData, ...] = ()
    """Keys that hold something foreign, as far as they were looked at."""


def overview(keys: Keys, part: str = "", rows: int = 50) -> Plan[Overview]:
    """Return the first `rows` brokers and topics whose name contains `part`, in whatever case.

    A broker is also found by its cluster. It takes nine round trips, and one for each thousand topics.
    """
    wanted, corrupt = part.casefold(), list[CorruptData]()
    (clock,) = yield Reads((("TIME",),))
    now_ms = clock_us(checked(keys.deadlines, clock)) // 1_000
    alive = yield from _guarded(_alive(keys, now_ms), (), corrupt)
    clusters = yield from _guarded(_clusters(keys), {}, corrupt)
    away = clusters.keys() - {name for name, _ in alive}
    brokers = _first_brokers(clusters, away, wanted, rows)
    topics = yield from _guarded(_topics(keys, wanted, rows), Names(), corrupt)
    table = yield from lookup(keys, topics.first, anew=brokers.first)
    newest = yield from _guarded(newest_changes(keys, _CHANGES), NO_CHANGES, corrupt)
    feed = yield from _guarded(history_bounds(keys), HistoryBounds(), corrupt)
    hinted, no_hints = yield from _guarded(hints(keys), ({}, ()), corrupt)
    return Overview(
        now_ms=now_ms,
        brokers=brokers,
        topics=topics,
        table=table,
        deadlines=(yield from _deadlines(keys, table, brokers.first)),
        leases=len(alive),
        away=len(away),
        changes=newest.changes,
        feed=feed,
        hints=hinted,
        corrupt=tuple(dict.fromkeys((*corrupt, *table.corrupt, *newest.corrupt, *no_hints))),
    )


def _guarded(plan: Plan[T], otherwise: T, corrupt: list[CorruptData]) -> Plan[T]:
    """Run a part of the plan, and do without it where its key is foreign."""
    try:
        return (yield from plan)
    except CorruptData as error:
        corrupt.append(error)
        return otherwise


def _alive(keys: Keys, now_ms: int) -> Plan[Sequence[tuple[str, str]]]:
    """Return broker name and id of the leases that have not ended."""
    command = ("ZRANGEBYSCORE", keys.deadlines, f"({now_ms}", "+inf", "LIMIT", 0, _MOST_LEASES)
    members = [member.decode(errors="replace") for member in (yield from read(*command))]
    return [(name, broker_id) for name, _, broker_id in (member.rpartition(":") for member in members)]


def _clusters(keys: Keys) -> Plan[Mapping[str, str]]:
    """Return the cluster of every broker name that was ever registered."""
    found = yield from read("HGETALL", keys.brokers)
    return {name.decode(): of.decode(errors="replace") for name, of in found.items() if codec.is_text(name)}


def _first_brokers(clusters: Mapping[str, str], away: Collection[str], wanted: str, rows: int) -> Names:
    found = [name for name, of in clusters.items() if wanted in name.casefold() or wanted in of.casefold()]
    first = nsmallest(rows, found, key=lambda name: (name not in away, name))
    return Names(tuple(first), len(found), len(clusters))


def _topics(keys: Keys, wanted: str, rows: int) -> Plan[Names]:
    """Count the topics, and those that are wanted; page by page, so that a loop goes on meanwhile."""
    seen, found, cursor = set[bytes](), set[str](), 0
    while True:
        cursor, members = yield from read("SSCAN", keys.topics, cursor, "COUNT", _SCAN_COUNT)
        seen.update(members)
        names = (member.decode() for member in members if codec.is_text(member))
        found.update(name for name in names if wanted in name.casefold())
        if int(cursor) == 0:
            return Names(tuple(nsmallest(rows, found)), len(found), len(seen))


def _deadlines(keys: Keys, table: Lookup, names: Sequence[str]) -> Plan[dict[tuple[str, int], int]]:
    groups = [table.groups[name] for name in names if name in table.groups]
    replicas = [(group.broker_name, broker_id) for group in groups for broker_id in group.broker_ids]
    scores = yield Reads(
        [("ZSCORE", keys.deadlines, keys.lease_member(name, broker_id)) for name, broker_id in replicas]
    )
    ends = (whole_ms(unless_foreign(keys.deadlines, score)) for score in scores)
    return {replica: end for replica, end in zip(replicas, ends, strict=True) if end is not None}
