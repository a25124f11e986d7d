"""What the changes of a registry tell of a broker at a moment of the past; pure.

A change decides what it names from then on. What no change up to a moment names is decided by the first one
after it: what is told to go was there. What no change names is as it is now, where that is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .codec import OF_NO_TABLE
from .model import FORGOTTEN, MASTER_ID, Change, ChangeKind
from .plans import Lookup
from .wording import some

OF_TOPICS: Final = (ChangeKind.TOPICS, ChangeKind.DELETED)
"""Changes that name topics."""

MOST_NAMES: Final = 20
"""The most topics that a row names."""


class BrokerState(StrEnum):
    """What a broker is good for."""

    WRITABLE = "writable"
    WIPED = "wiped"
    """An operator took its write permission."""

    NO_MASTER = "no master"
    """Only slaves are alive: it can be read."""

    AWAY = "away"
    UNKNOWN = "unknown"
    """It was up before the changes begin, or it was not: the first that tells of it is its next start."""


@dataclass(frozen=True, slots=True)
class BrokerNow:
    """What a registry holds of a broker after all the changes."""

    topics: frozenset[str] = frozenset()
    replicas: Mapping[int, str] = field(default_factory=dict, hash=False)
    """The live ones: ids to addresses."""

    wiped: bool = False


def brokers_now(table: Lookup) -> dict[str, BrokerNow]:
    """Return what a look at the whole table, or at some topics, tells of each broker."""
    topics: dict[str, set[str]] = {name: set() for name in table.groups}
    for topic, rows in table.rows.items():
        for row in rows:
            topics.setdefault(row.broker_name, set()).add(topic)
    return {
        name: BrokerNow(
            frozenset(held),
            table.alive[name].broker_addrs if name in table.alive else {},
            name in table.groups and table.groups[name].wiped,
        )
        for name, held in topics.items()
    }


def place_of(change_id: str) -> tuple[int, int]:
    """Return what changes are ordered by: ms of the store's clock, and which of the changes of that ms."""
    ms, _, sequence = change_id.partition("-")
    return int(ms), int(sequence)


def ms_of(change: Change) -> int:
    """Return when a change was written, ms since 1970."""
    return place_of(change.change_id)[0]


def brokers_of(change: Change) -> tuple[str, ...]:
    """Return the brokers that a change is about."""
    if change.kind in OF_NO_TABLE:
        return ()
    return change.brokers if change.kind is ChangeKind.DELETED else (change.broker_name,)


def told(change: Change, most: int | None = MOST_NAMES) -> str:
    """Return in words what a change says, with the names of at most so many topics of each list."""
    if change.kind is ChangeKind.TOPICS:
        lists = {"added": change.added, "changed": change.changed, "removed": change.removed}
        return "; ".join(_named(what, names, most) for what, names in lists.items() if names)
    if change.kind is ChangeKind.DELETED:
        return f"{' '.join(change.removed)} from {' '.join(change.brokers)}"
    if change.kind is ChangeKind.KV:
        return f"{change.reason} {change.namespace}/{change.key}"
    return change.address or change.reason or _OF_OPERATORS.get(change.kind, "-")


_OF_OPERATORS: Final = {
    ChangeKind.WIPED: "write permission taken away",
    ChangeKind.LIFTED: "write permission given back",
}


def _named(what: str, names: Sequence[str], most: int | None) -> str:
    return f"{what} {len(names)}: {some(sorted(names), most, between=' ')}"


class BrokerPast:
    """What is known of one broker at a moment; the changes after it move it on."""

    def __init__(self, name: str, changes: Iterable[Change], now: BrokerNow | None, at_ms: int) -> None:
        """Take all changes of the broker, in order, and what it has after them; None = that is not known."""
        self.name = name
        self._held: dict[str, bool] = {}
        self._replicas: dict[int, str | None] = {}
        self._unsure: set[int] = set()
        self._wiped: bool | None = None
        self._is_all = False
        """Whether it was forgotten: then all that is told since is all that there is."""

        later = False
        for change in changes:
            later = later or ms_of(change) > at_ms
            if not later:
                self.take(change)
            elif not self._is_all:
                self._conclude(change)
        if now is not None and not self._is_all:
            self._settle(now)

    def take(self, change: Change) -> None:
        """Take in the next change of the broker."""
        if change.kind in OF_TOPICS:
            self._held |= dict.fromkeys((*change.added, *change.changed), True)
            self._held |= dict.fromkeys(change.removed, False)
        elif change.kind is ChangeKind.DOWN and change.reason == FORGOTTEN:
            self._held, self._replicas, self._unsure, self._wiped = {}, {}, set(), False
            self._is_all = True
        elif change.kind in (ChangeKind.UP, ChangeKind.DOWN):
            self._unsure.discard(change.broker_id)
            self._replicas[change.broker_id] = change.address if change.kind is ChangeKind.UP else None
        else:
            self._wiped = change.kind is ChangeKind.WIPED

    def _conclude(self, change: Change) -> None:
        """Take in what a later change tells of what nothing has told yet."""
        if change.kind in OF_TOPICS:
            for topic in (*change.changed, *change.removed):
                self._held.setdefault(topic, True)
            for topic in change.added:
                self._held.setdefault(topic, False)
        elif change.kind is ChangeKind.DOWN and change.reason == FORGOTTEN:
            self._is_all = True
        elif change.kind in (ChangeKind.UP, ChangeKind.DOWN):
            if change.kind is ChangeKind.UP and change.broker_id not in self._replicas:
                self._unsure.add(change.broker_id)
            self._replicas.setdefault(change.broker_id, None if change.kind is ChangeKind.UP else "")
        elif self._wiped is None:
            self._wiped = change.kind is ChangeKind.LIFTED

    def _settle(self, now: BrokerNow) -> None:
        """Take in what nothing has told, as it is now."""
        self._held = {**dict.fromkeys(now.topics, True), **self._held}
        self._replicas = {**now.replicas, **self._replicas}
        if self._wiped is None:
            self._wiped = now.wiped

    @property
    def topics(self) -> set[str]:
        """The topics that it has."""
        return {topic for topic, held in self._held.items() if held}

    def has(self, topic: str) -> bool:
        """Whether it has a topic."""
        return self._held.get(topic, False)

    @property
    def replicas(self) -> tuple[str, ...]:
        """Its live replicas as people read them: `id address`."""
        live = sorted((of, at) for of, at in self._replicas.items() if at is not None)
        return tuple(f"{of} {at or 'unknown'}" for of, at in live)

    @property
    def state(self) -> BrokerState:
        """What it is good for."""
        live = {of for of, at in self._replicas.items() if at is not None}
        if MASTER_ID in live:
            return BrokerState.WIPED if self._wiped else BrokerState.WRITABLE
        if MASTER_ID in self._unsure or (self._unsure and not live):
            return BrokerState.UNKNOWN
        return BrokerState.NO_MASTER if live else BrokerState.AWAY

    @property
    def is_writable(self) -> bool:
        """Whether it takes messages."""
        return self.state is BrokerState.WRITABLE


def changes_by_broker(changes: Iterable[Change]) -> dict[str, list[Change]]:
    """Return the changes of each broker, in order."""
    found: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        for name in brokers_of(change):
            found[name].append(change)
    return found


def pasts(
    changes: Sequence[Change], now: Mapping[str, BrokerNow] | None, at_ms: int
) -> dict[str, BrokerPast]:
    """Return what was known of every broker at a moment; `now` as in Question.rows."""
    of_broker = changes_by_broker(changes)
    return {
        name: BrokerPast(name, of_broker.get(name, ()), now_of(name, now), at_ms)
        for name in sorted({*of_broker, *(now or ())})
    }


def now_of(name: str, now: Mapping[str, BrokerNow] | None) -> BrokerNow | None:
    """Return what is known of a broker after all changes; None = nothing is."""
    return None if now is None else now.get(name, BrokerNow())
