"""The parts of the page about the registry: brokers, topics, changes, the feed; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...registry.model import MASTER_ID, Change, ChangeKind, Group, QueueData
from ...registry.plans.changes import order
from ...registry.plans.overview import Names, Overview
from .model import FACTS, Cell, Level, Section, Table, ago, cut, length, names, number

_MOST_REPLICAS: Final = 5
"""Of a broker: RocketMQ's have two or three."""

_NOTHING: Final = Cell("")
_AWAY: Final = Cell("away", "bad")
_ENDS: Final = frozenset((ChangeKind.DOWN, ChangeKind.WIPED, ChangeKind.DELETED))


def sections(found: Overview, now_ms: int) -> list[Section]:
    """Return the parts in their order; `now_ms` is the time by the clock of the store."""
    return [_brokers(found, now_ms), _topics(found), _changes(found, now_ms), _feed(found, now_ms)]


def _bound(of: Names) -> str:
    if len(of.first) == of.matching:
        return ""
    return f"The first {len(of.first):,} of {of.matching:,}; a filter finds the others."


# --- brokers ---


def _brokers(found: Overview, now_ms: int) -> Section:
    rows = [row for name in found.brokers.first for row in _rows_of(found, name, now_ms)]
    heads = ("Broker", "Cluster", "Replica", "Address", "Lease", "State")
    table = Table("Each replica with the address that clients are told", heads, rows, "No broker.")
    return Section("brokers", "Brokers and leases", table, _bound(found.brokers))


def _rows_of(found: Overview, name: str, now_ms: int) -> list[tuple[Cell, ...]]:
    group = found.table.groups.get(name)
    if group is None:
        return [(Cell(name), *[_NOTHING] * 4, Cell("cannot be read", "bad"))]
    head = Cell(name), Cell(group.cluster)
    ids = group.broker_ids[:_MOST_REPLICAS]
    rows = [(*head, *_replica(found, group, broker_id, now_ms)) for broker_id in ids]
    if not ids:
        return [(*head, Cell("none"), *[_NOTHING] * 2, _AWAY)]
    left_out = len(group.broker_ids) - len(ids)
    return [*rows, (*head, Cell(f"{left_out:,} more"), *[_NOTHING] * 3)] if left_out else [*rows]


def _replica(found: Overview, group: Group, broker_id: int, now_ms: int) -> tuple[Cell, ...]:
    name = Cell("0, master" if broker_id == MASTER_ID else f"{broker_id}, slave")
    alive = found.table.alive.get(group.broker_name)
    address = alive.broker_addrs.get(broker_id) if alive is not None else None
    if address is None:
        return name, _NOTHING, Cell("ended"), _AWAY
    state = Cell("alive", "good")
    if group.wiped:
        state = Cell("takes no messages", "warn", more="an operator took its write permission away")
    return name, Cell(address), _lease(found.deadlines.get((group.broker_name, broker_id)), now_ms), state


def _lease(ends_ms: int | None, now_ms: int) -> Cell:
    if ends_ms is None:
        return Cell("no deadline", "warn")
    left_ms = ends_ms - now_ms
    return Cell(f"{length(left_ms // 1_000)} left" if left_ms > 0 else "due")


# --- topics ---


def _topics(found: Overview) -> Section:
    known = found.table.rows
    rows = [_topic(topic, known[topic], found) for topic in found.topics.first if topic in known]
    heads = ("Topic", "Brokers", "Write queues", "Read queues", "State")
    table = Table("Each topic with the brokers that have it, and their queues", heads, rows, "No topic.")
    return Section("topics", "Topics", table, _bound(found.topics))


def _topic(topic: str, rows: Sequence[QueueData], found: Overview) -> tuple[Cell, ...]:
    live = found.table.alive
    alive = [row for row in rows if row.broker_name in live]
    closed = {
        row.broker_name for row in alive if live[row.broker_name].wiped or live[row.broker_name].headless
    }
    writable = [row for row in alive if row.writable and row.broker_name not in closed]
    state = Cell("served", "good") if writable else Cell("takes no messages", "warn")
    return (
        Cell(topic),
        names([row.broker_name for row in alive or rows]),
        number(sum(row.write_queue_nums for row in writable)),
        number(sum(row.read_queue_nums for row in alive if row.readable)),
        state if alive else Cell("no live broker", "bad"),
    )


# --- changes ---


def _changes(found: Overview, now_ms: int) -> Section:
    rows = [_change(change, now_ms) for change in found.changes]
    heads = ("When", "Change", "Broker", "What", "By")
    table = Table("The newest changes, whatever the filter", heads, rows, "No change is kept.")
    return Section("changes", "What changed lately", table)


def _change(change: Change, now_ms: int) -> tuple[Cell, ...]:
    at = order(change.change_id)
    when = _NOTHING if at is None else ago(at[0], now_ms)
    level: Level = "good" if change.kind is ChangeKind.UP else "warn" if change.kind in _ENDS else ""
    replica = f"{change.broker_name}:{change.broker_id}" if change.broker_name else ""
    return when, Cell(change.kind, level), Cell(replica), _what(change), Cell(cut(change.by))


def _what(change: Change) -> Cell:
    match change.kind:
        case ChangeKind.UP:
            return Cell(f"at {change.address}" if change.address else "")
        case ChangeKind.KV:
            return Cell(cut(f"{change.namespace} {change.key} {change.reason}"))
        case ChangeKind.TOPICS | ChangeKind.DELETED:
            told = {"added": change.added, "changed": change.changed, "removed": change.removed}
            parts = [f"{len(them):,} {what}: {names(them).text}" for what, them in told.items() if them]
            return Cell(cut("; ".join(parts)))
        case _:
            return Cell(cut(change.reason))


def _feed(found: Overview, now_ms: int) -> Section:
    feed, first = found.feed, order(found.feed.first_id)
    rows = [
        (Cell("Changes that are kept"), number(feed.entries)),
        (Cell("Oldest of them"), ago(first[0], now_ms) if first and feed.entries else Cell("none")),
        (Cell("Position of the newest"), Cell(feed.last_id)),
    ]
    if feed.written is not None:
        rows.append((Cell("Changes ever written"), number(feed.written)))
    return Section("feed", "Feed", Table("The stream that tells of changes", FACTS, rows, ""))
