"""What `watch` knows of a registry; pure: every `now_s` is monotonic seconds."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ...registry import Change, ChangeKind
from ...registry.plans import Lookup
from ...registry.plans.replicas import Replica, ReplicaState
from ...registry.wording import counted
from ..changes import details_of, subject_of
from ..listings import headless

_KEPT: Final = 500
_LOW: Final = 1 / 3
"""Of a lease: an agent renews it at a third of its time, so with less than that left, two were missed."""

_WITHOUT_BROKER: Final = "no live broker has it"


class StoreState(StrEnum):
    """What the store does."""

    AWAITED = "awaited"
    """It has not answered yet."""

    ANSWERS = "answers"
    AWAY = "away"
    """It has answered, and does not now."""


class Filter(StrEnum):
    """Which rows are shown."""

    ALL = "all"
    LIVE = "live"
    TROUBLE = "trouble"

    @property
    def following(self) -> Filter:
        """The next one, round and round."""
        every: list[Filter] = [*Filter]
        return every[(every.index(self) + 1) % len(every)]


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One replica."""

    name: str
    cluster: str
    address: str
    state: ReplicaState
    left_s: float | None
    """Until its lease ends; None = it has none, or nobody knows."""

    share: float | None
    """What is left of the lease, from 0 to 1; None = not known."""

    topics: int
    trouble: str
    """What is not in order; empty = nothing."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic."""

    name: str
    live: tuple[str, ...]
    """The brokers that hold it and live."""

    gone: tuple[str, ...]
    """Those that do not."""


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change, or a note of this program about the store."""

    ms: int | None
    """When, by the store's clock; None = it is a note."""

    kind: str
    subject: str
    details: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not in order."""

    subject: str
    what: str


class Board:
    """Takes in changes, listings and failures, and returns rows of what is known."""

    def __init__(self) -> None:
        self.state = StoreState.AWAITED
        self.why_away = ""
        self.changes = deque[ChangeRow](maxlen=_KEPT)
        """The newest first."""

        self._away_since_s = 0.0
        self._replicas: dict[tuple[str, int], Replica] = {}
        self._listed_s = 0.0
        self._holders = defaultdict[str, set[str]](set)
        self._hints: Mapping[str, frozenset[str]] = {}
        self._topics: list[TopicRow] | None = None
        """All of them, by name; None = to be made anew: there may be a hundred thousand."""

    # --- what is taken in -----------------------------------------------------------------------------------

    def reset(self, table: Lookup) -> None:
        """Take in the whole table: what was known of topics before counts no more."""
        self._topics = None
        self._holders.clear()
        for topic, rows in table.rows.items():
            self._holders[topic] = {row.broker_name for row in rows}

    def change(self, change: Change) -> None:
        """Take in one change."""
        ms = int(change.change_id.partition("-")[0] or 0)
        self.changes.appendleft(ChangeRow(ms, change.kind, subject_of(change), details_of(change)))
        if change.kind in (ChangeKind.TOPICS, ChangeKind.DELETED):
            self._topics = None
        if change.kind is ChangeKind.TOPICS:
            for topic in change.added:
                self._holders[topic].add(change.broker_name)
            self._drop(change.removed, [change.broker_name])
        elif change.kind is ChangeKind.DELETED:
            self._drop(change.removed, change.brokers)
        elif change.kind in (ChangeKind.UP, ChangeKind.DOWN):
            self._told(change, ms)

    def _drop(self, topics: Iterable[str], brokers: Iterable[str]) -> None:
        for topic in topics:
            self._holders[topic] -= {*brokers}
            if not self._holders[topic]:
                del self._holders[topic]

    def _told(self, change: Change, ms: int) -> None:
        """Note what an UP or a DOWN says of a replica, which listings do not say again."""
        known = self._replicas.get((change.broker_name, change.broker_id))
        if known is not None:
            reason = change.reason if change.kind is ChangeKind.DOWN else ""
            ttl_ms = change.lease_ttl_ms or known.lease_ttl_ms
            noted = replace(known, since_ms=ms, reason=reason, lease_ttl_ms=ttl_ms)
            self._replicas[change.broker_name, change.broker_id] = noted

    def listed(self, replicas: Iterable[Replica], hints: Mapping[str, frozenset[str]], now_s: float) -> None:
        """Take in all replicas and hints; what the listing leaves out of a known replica stays."""
        before, live, self._replicas = self._replicas, self._live(), {}
        for found in replicas:
            of = (found.broker_name, found.broker_id)
            known = before.get(of)
            self._replicas[of] = found if known is None else _merged(found, known)
        if self._live() != live:
            self._topics = None
        self._hints = hints
        self._listed_s = now_s
        self._answered(now_s)

    def failed(self, why: str, now_s: float) -> None:
        """Note that the store does not answer."""
        self.why_away = why
        if self.state is StoreState.ANSWERS:
            self.state = StoreState.AWAY
            self._away_since_s = now_s
            self.changes.appendleft(ChangeRow(None, "store", "away", why))

    def _answered(self, now_s: float) -> None:
        if self.state is StoreState.AWAY:
            away_s = now_s - self._away_since_s
            self.changes.appendleft(ChangeRow(None, "store", "back", f"after {away_s:.1f} s"))
        self.state = StoreState.ANSWERS
        self.why_away = ""

    # --- what is shown --------------------------------------------------------------------------------------

    def away_s(self, now_s: float) -> float:
        """Return for how long the store has been away."""
        return now_s - self._away_since_s if self.state is StoreState.AWAY else 0.0

    def count(self, state: ReplicaState) -> int:
        """Return how many replicas are in a state."""
        return sum(entry.state is state for entry in self._replicas.values())

    @property
    def topic_count(self) -> int:
        """How many topics there are."""
        return len(self._holders)

    def brokers(self, now_s: float, query: str = "", shown: Filter = Filter.ALL) -> list[BrokerRow]:
        """Return the replicas that a search and a filter leave, by cluster and name."""
        rows = (self._row(entry, now_s) for entry in self._replicas.values())
        return sorted(
            (
                row
                for row in rows
                if _is_meant(query, row.name, row.cluster, row.address) and _fits(row, shown)
            ),
            key=lambda row: (row.cluster, row.name),
        )

    def _row(self, entry: Replica, now_s: float) -> BrokerRow:
        left_s = None if entry.left_ms is None else max(0.0, entry.left_ms / 1_000 - (now_s - self._listed_s))
        ttl_ms = entry.lease_ttl_ms
        share = None if left_s is None or not ttl_ms else min(1.0, left_s * 1_000 / ttl_ms)
        return BrokerRow(
            name=f"{entry.broker_name}:{entry.broker_id}",
            cluster=entry.cluster,
            address=entry.address,
            state=entry.state,
            left_s=left_s,
            share=share,
            topics=entry.topics,
            trouble="; ".join(self._troubles(entry, share)),
        )

    def _troubles(self, entry: Replica, share: float | None) -> Iterator[str]:
        if entry.state is ReplicaState.DEAD:
            yield f"dead: {entry.reason}" if entry.reason else "dead"
        elif entry.state is ReplicaState.OUT:
            yield "out: by an operator"
        elif share is not None and share < _LOW and self.state is StoreState.ANSWERS:
            yield "lease not renewed"
        if entry.wiped:
            yield "wiped: no write permission"
        clients = len(self._hints.get(entry.broker_name, ()))
        if clients and entry.state is ReplicaState.LIVE:
            yield f"{counted(clients, 'client')} cannot reach it"

    def topics(self, query: str = "", shown: Filter = Filter.ALL) -> list[TopicRow]:
        """Return the topics that a search and a filter leave, by name."""
        if self._topics is None:
            live = self._live()
            self._topics = [
                TopicRow(topic, tuple(sorted(holders & live)), tuple(sorted(holders - live)))
                for topic, holders in sorted(self._holders.items())
            ]
        if shown is Filter.LIVE:
            rows = [row for row in self._topics if row.live]
        elif shown is Filter.TROUBLE:
            rows = [row for row in self._topics if row.gone]
        else:
            rows = self._topics
        return [row for row in rows if _is_meant(query, row.name, *row.live, *row.gone)]

    def _live(self) -> set[str]:
        """Return the brokers of which a replica lives."""
        return {name for (name, _), entry in self._replicas.items() if entry.state is ReplicaState.LIVE}

    def changes_of(self, query: str = "") -> list[ChangeRow]:
        """Return the changes that a search leaves, the newest first."""
        return [row for row in self.changes if _is_meant(query, row.kind, row.subject, row.details)]

    def faults(self, now_s: float, query: str = "") -> list[Fault]:
        """Return all that is not in order and that a search leaves."""
        return [fault for fault in self._faults(now_s) if _is_meant(query, fault.subject, fault.what)]

    def _faults(self, now_s: float) -> Iterator[Fault]:
        if self.state is not StoreState.ANSWERS:
            yield Fault("store", self.why_away or "has not answered yet")
        for row in self.brokers(now_s):
            if row.trouble:
                yield Fault(row.name, row.trouble)
        for name in headless(self._replicas.values()):
            yield Fault(name, "only slaves live: nothing can be written to it")
        for topic in self.topics():
            if not topic.live:
                yield Fault(topic.name, _WITHOUT_BROKER)


def _merged(found: Replica, known: Replica) -> Replica:
    """Return a replica as it was found, with what only the change stream has told of it."""
    is_same = found.state is known.state
    return replace(
        found,
        since_ms=found.since_ms or (known.since_ms if is_same else None),
        reason=found.reason or (known.reason if found.state is not ReplicaState.LIVE else ""),
        address=found.address or known.address,
        topics=found.topics,
        lease_ttl_ms=found.lease_ttl_ms or known.lease_ttl_ms,
    )


def _is_meant(query: str, *words: str) -> bool:
    return not query or any(query.casefold() in word.casefold() for word in words)


def _fits(row: BrokerRow, shown: Filter) -> bool:
    if shown is Filter.TROUBLE:
        return bool(row.trouble)
    return shown is Filter.ALL or row.state is ReplicaState.LIVE
