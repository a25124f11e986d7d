"""That a broker that is told to live has all its topics, and keeps them: a part of rule (f)."""

from __future__ import annotations

from typing import Final, TypeAlias

from sharedroutes.registry import ChangeKind
from tests.faults.checker.history import Change, Expected, Record
from tests.faults.checker.past import Past, Verdict

_WRITTEN_AGAIN: Final = ("corrupt-", "delete-", "lost-")
"""What the names of faults begin with after which an owner writes what it has once more."""

_Owner: TypeAlias = tuple[str, int, int]
"""Broker, id and epoch."""


class _Owners:
    """Who has come so far, and what has gone since."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._came: dict[_Owner, Change] = {}
        self._out: dict[tuple[str, int], Change] = {}
        self._deleted: dict[tuple[str, str], int] = {}

    def take(self, change: Change, record: Record) -> None:
        """Take in who comes and goes, and what an operator deletes."""
        replica = (record.broker, record.id)
        if record.kind == ChangeKind.UP:
            out = self._out.pop(replica, None)
            # What was out while the store lost its table may be let in again before it says what it has.
            if out is None or not _loses_between(self._past, out.at_us, change.at_us):
                self._came.setdefault((*replica, record.epoch), change)
        elif record.kind == ChangeKind.DOWN:
            self._out[replica] = change
        elif record.kind == ChangeKind.DELETED:
            of = ((broker, topic) for broker in record.brokers for topic in record.removed)
            self._deleted |= dict.fromkeys(of, change.at_us)

    def late(self, change: Change, record: Record) -> tuple[Change | None, set[str]]:
        """Return when the owner that writes this came, and the topics it had then and adds only now."""
        came = self._came.get((record.broker, record.id, record.epoch))
        if came is None or _loses_between(self._past, came.at_us, change.at_us):
            return came, set()
        had = _topics(self._past, record.broker, came.at_us) & _topics(
            self._past, record.broker, change.at_us
        )
        added = {*record.added} & had
        return came, {of for of in added if self._deleted.get((record.broker, of), 0) < came.at_us}


def check_that_tables_are_whole(past: Past, verdict: Verdict) -> None:
    """Check that nobody takes a topic away that its broker has, and that no owner comes before its topics.

    Of `docs/design/table.md`: of a registration the lease comes last, so that no crash leaves an address
    without its topics, and a slave that stands in for its master takes no topic away. Of
    `docs/design/front.md`: a front that restores what the store has lost restores all that the broker said.
    """
    owners, deleted, told = _Owners(past), dict[str, Change](), set[str]()
    known = {of for truth in past.of(Expected) for topics in truth.table.topics.values() for of in topics}
    for change in past.of(Change):
        record = change.record
        if record is None or change.id in told:  # it is read again where a replica that lags takes over
            continue
        told.add(change.id)
        owners.take(change, record)
        if record.kind == ChangeKind.DELETED:
            deleted |= dict.fromkeys({*record.removed} - known, change)
        if record.kind != ChangeKind.TOPICS or not record.epoch:
            continue
        gone = {*record.removed} & _topics(past, record.broker, change.at_us)
        reason = (
            f"{record.broker}:{record.id} has {', '.join(sorted(gone))}, which were taken out of its table"
        )
        verdict.check(reason if gone else "", past.expected_event(change.at_us), change)
        back = {*record.added} & deleted.keys()
        reason = f"{record.broker}:{record.id} has {', '.join(sorted(back))} again, deleted for good"
        verdict.check(reason if back else "", *(deleted[of] for of in back), change)
        came, late = owners.late(change, record)
        reason = f"{record.broker}:{record.id} was told to live before {', '.join(sorted(late))} were there"
        verdict.check(reason if late else "", came, change)


def _topics(past: Past, broker: str, at_us: int) -> set[str]:
    return {*past.expected_at(at_us).topics.get(broker, ())}


def _loses_between(past: Past, since_us: int, until_us: int) -> bool:
    """Whether the store may have lost what an owner had written by then, so that it is written again."""
    return any(
        window.fault.loses and (window.begin_us > since_us or window.fault.name.startswith(_WRITTEN_AGAIN))
        for window in past.faults_in(since_us, until_us)
    )
