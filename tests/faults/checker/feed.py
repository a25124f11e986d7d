"""What followers are told: rule (c), and the table that their items make."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final

from sharedroutes.registry import ChangeKind
from sharedroutes.registry.model import FORGOTTEN
from sharedroutes.registry.plans import ORIGIN
from sharedroutes.registry.plans.changes import order
from tests.faults.checker.endings import check_that_ends_are_told, check_that_ends_are_told_at_once
from tests.faults.checker.history import STORE, Change, Item, Record, Replica, Table, TableContent
from tests.faults.checker.past import Past, Verdict

_FIRST: Final = (0, 0)


class Replay:
    """The table that the items of one follower make; it has none before the first reset."""

    def __init__(self) -> None:
        self.is_complete = False
        """Whether there was a reset with a table."""

        self._leases: dict[tuple[str, int], str] = {}
        self._topics: dict[str, set[str]] = {}

    @property
    def table(self) -> TableContent:
        """The table as it is now, in one form."""
        leases = (Replica(broker, of, address) for (broker, of), address in self._leases.items())
        return in_one_form(
            TableContent(tuple(leases), {name: tuple(of) for name, of in self._topics.items()})
        )

    def take(self, item: Item) -> None:
        """Take in an item."""
        if item.kind == "reset":
            self.is_complete = item.table is not None
            table = item.table or TableContent()
            self._leases = {(broker, of): address for broker, of, address in table.leases}
            self._topics = {name: set(topics) for name, topics in table.topics.items()}
        elif item.record is not None:
            self._take_record(item.record)

    def _take_record(self, record: Record) -> None:
        replica = (record.broker, record.id)
        if record.kind == ChangeKind.UP:
            self._leases[replica] = record.address
        elif record.kind == ChangeKind.DOWN:
            self._leases.pop(replica, None)
            if record.reason == FORGOTTEN:
                self._topics.pop(record.broker, None)
        elif record.kind == ChangeKind.TOPICS:
            topics = self._topics.setdefault(record.broker, set())
            topics |= {*record.added, *record.changed}
            topics -= {*record.removed}
        elif record.kind == ChangeKind.DELETED:
            for broker in record.brokers:
                self._topics.get(broker, set()).difference_update(record.removed)


def in_one_form(table: TableContent) -> TableContent:
    """Return a table so that equal ones are the same: sorted, without brokers that have no topics."""
    topics = {name: tuple(sorted(of)) for name, of in sorted(table.topics.items()) if of}
    return TableContent(tuple(sorted(table.leases)), topics)


def the_feed_has_no_gap(past: Past) -> Verdict:
    """Check that each follower was told of all that stands in the stream, in order, and the table by it.

    Of `docs/design.md`, what must always hold: 11, "nothing is silently dropped", and 6: who lost its place,
    and so perhaps changes, is told a `Reset` with the whole table. What came before it is in that table.
    """
    verdict = Verdict()
    items_of: dict[str, list[Item]] = defaultdict(list)
    for item in past.of(Item):
        items_of[item.who].append(item)
    stream = {change.id: change for change in past.of(Change)}
    for items in items_of.values():
        _check_sequence(items, stream, past, verdict)
        _check_tables(items, past, verdict)
    check_that_ends_are_told(past, verdict)
    check_that_ends_are_told_at_once(past, verdict)
    return verdict


def _check_sequence(items: Iterable[Item], stream: dict[str, Change], past: Past, verdict: Verdict) -> None:
    before: Item | None = None
    for item in items:
        if before is not None and item.kind == "change":
            change = stream.get(item.id)
            verdict.check(
                _wrong_step(before, item, change) or _wrong_hold(before, item), before, change, item
            )
            around_us = 1_000 * past.bounds.stale_ms
            lost = past.may_have_lost(item.at_us - around_us, item.at_us + around_us)
            reason = f"{item.who} was told of {item.id}, which never stood in the stream"
            verdict.check("" if lost or change is not None else reason, item)
        before = item


def _wrong_step(before: Item, item: Item, change: Change | None) -> str:
    """Return what is wrong about an item after another; empty = nothing. `change`: the stream's entry."""
    ours, theirs = order(item.id), order(before.id)
    step = f"{item.who} was told of {item.id} after {before.id}"
    if ours is None or theirs is None:
        return f"{step}, which is no id"
    if ours <= theirs:
        return f"{step}, so {'twice' if ours == theirs else 'backwards'}"
    if change is None:
        return ""
    if change.record != item.record:
        return f"{step}, and something else stands there in the stream"
    if change.previous not in (None, before.id):
        return f"{step}, without a reset; in the stream, {change.previous} stands before it"
    return ""


def _wrong_hold(before: Item, item: Item) -> str:
    """Return what is wrong about going on from a stream without entries: nothing says what was missed."""
    holds = before.kind == "reset" and before.id == ORIGIN and before.table != TableContent()
    return (
        f"{item.who} was told of {item.id} after a reset at {ORIGIN}, whose table may be old" if holds else ""
    )


def _is_before(last: Item, newest: Change) -> bool:
    """Whether a follower that was told this last lacks a change; a later reset has it, whatever its place."""
    if last.kind == "reset" and last.at_us >= newest.at_us:
        return False
    return (order(last.id) or _FIRST) < (order(newest.id) or _FIRST)


def _check_tables(items: Iterable[Item], past: Past, verdict: Verdict) -> None:
    """Check, where the store was read, that the follower had been told of everything, and the same."""
    replay, rest = Replay(), deque(items)
    last: Item | None = None
    for table in past.of(Table):
        if table.source != STORE:
            continue
        while rest and rest[0].at_us <= table.at_us:
            last = rest.popleft()
            replay.take(last)
        if replay.is_complete and last is not None:
            known_us = table.at_us - 1_000 * past.bounds.stale_ms
            newest = past.newest_change(known_us - past.late_us(known_us, table.at_us, last.who))
            is_deaf = newest is not None and _is_before(last, newest)
            stored, told = in_one_form(table.table), replay.table
            reason = f"the table by what a follower was told is {told}, that of the store {stored}"
            verdict.check("a follower was not told of the last changes" if is_deaf else "", newest, table)
            verdict.check("" if stored == told else reason, table)
