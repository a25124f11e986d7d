"""Questions to the past of a registry, with the columns of their answers; pure.

Each is answered from the changes, in order, and from what the registry holds after them, by broker; None =
that is not known, and so only what changes name is. `cli/history.py` asks them of the live
stream, and `pipeline/answers/past.py` of the history that an ingest keeps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from .model import FORGOTTEN, Change, ChangeKind
from .past import (
    MOST_NAMES,
    OF_TOPICS,
    BrokerNow,
    BrokerPast,
    brokers_of,
    changes_by_broker,
    ms_of,
    now_of,
    pasts,
    place_of,
    told,
)

Row: TypeAlias = tuple[Any, ...]
Span: TypeAlias = tuple[int | None, int | None]
"""From when to when a question is about, ms since 1970; None = as far as the changes go."""

Now: TypeAlias = Mapping[str, BrokerNow] | None

END_MS: Final = 2**63 - 1
"""After all changes."""


class Column(NamedTuple):
    """One column: its name, its type in Spark's DDL, and what it means with its unit."""

    name: str
    type: str
    meaning: str


_HEAD: Final = (
    Column("ms", "bigint", "when, by the store's clock, ms since 1970"),
    Column("change", "string", "topics, up, down, wiped, lifted, deleted, kv"),
    Column("broker", "string", "broker name; empty with deleted and kv"),
    Column("id", "bigint", "its broker id, 0 = master; null = it is about no broker"),
    Column("what", "string", "what it says: topics, an address, a reason"),
)
_TAIL: Final = (
    Column("by", "string", "who wrote it: agent, front, operator's command; empty = not told"),
    Column("user", "string", "by which user of the store; empty = the default one, or not told"),
    Column("entry", "string", "its id in the stream"),
)
_STATE: Final = Column(
    "state", "string", "writable, wiped, no master (can be read), away, unknown (before the first that tells)"
)


def _row(change: Change, what: str, *more: object) -> Row:
    broker_id = change.broker_id if change.broker_name else None
    head = (ms_of(change), str(change.kind), change.broker_name, broker_id, what)
    return (*head, *more, change.by, change.user, change.change_id)


def _within(changes: Iterable[Change], after_ms: int, until_ms: int) -> list[Change]:
    return [change for change in changes if after_ms < ms_of(change) <= until_ms]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Between:
    """A question about a time, by default about all of it."""

    since_ms: int = 0
    until_ms: int = END_MS

    @property
    def span(self) -> Span:
        """From when to when it is about."""
        return self.since_ms or None, None if self.until_ms == END_MS else self.until_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicHistory(_Between):
    """What happened to a topic, and to the brokers that had it at that time."""

    topic: str

    columns: ClassVar = (
        *_HEAD,
        Column("serving", "array<string>", "the brokers that take messages for the topic after it"),
        *_TAIL,
    )

    def rows(self, changes: Sequence[Change], now: Now) -> Iterator[Row]:
        """Yield the answer, in order of time."""
        brokers = pasts(changes, now, self.since_ms)
        for change in _within(changes, self.since_ms, self.until_ms):
            told_of = [brokers[name] for name in brokers_of(change)]
            lists = {"added": change.added, "changed": change.changed, "removed": change.removed}
            what = ", ".join(name for name, topics in lists.items() if self.topic in topics)
            if change.kind not in OF_TOPICS and any(broker.has(self.topic) for broker in told_of):
                what = told(change)
            for broker in told_of:
                broker.take(change)
            if what:
                serving = (one.name for one in brokers.values() if one.has(self.topic) and one.is_writable)
                yield _row(change, what, tuple(serving))


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHistory(_Between):
    """What happened to a broker."""

    broker: str

    columns: ClassVar = (
        *_HEAD,
        _STATE,
        Column("topics", "bigint", "how many topics it is known to have after it"),
        *_TAIL,
    )

    def rows(self, changes: Sequence[Change], now: Now) -> Iterator[Row]:
        """Yield the answer, in order of time."""
        of_broker = [change for change in changes if self.broker in brokers_of(change)]
        broker = BrokerPast(self.broker, of_broker, now_of(self.broker, now), self.since_ms)
        for change in _within(of_broker, self.since_ms, self.until_ms):
            broker.take(change)
            yield _row(change, told(change), str(broker.state), len(broker.topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAt:
    """Which brokers had which topics at a moment, and what they were good for."""

    at_ms: int
    topics: frozenset[str] = frozenset()
    """Only these; empty = all."""

    columns: ClassVar = (
        Column("topic", "string", "topic name"),
        Column("broker", "string", "broker name"),
        _STATE,
        Column("replicas", "array<string>", "its live replicas: id and address"),
    )

    @property
    def span(self) -> Span:
        """From when to when it is about."""
        return self.at_ms, self.at_ms

    def rows(self, changes: Sequence[Change], now: Now) -> Iterator[Row]:
        """Yield the answer, by topic and broker."""
        found = []
        for name, broker in pasts(changes, now, self.at_ms).items():
            state, replicas = str(broker.state), broker.replicas
            topics = broker.topics & self.topics if self.topics else broker.topics
            found += [(topic, name, state, replicas) for topic in topics]
        yield from sorted(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between an earlier moment and a later one."""

    from_ms: int
    to_ms: int

    columns: ClassVar = (
        Column("broker", "string", "broker name"),
        Column("topic", "string", "topic name; empty = the row is about the broker"),
        Column("before", "string", "absent or held; of a broker: its state and its live replicas"),
        Column("after", "string", "the same later; changed = held, with another configuration"),
        Column("between", "string", "what it was meanwhile, if neither before nor after; else empty"),
    )

    @property
    def span(self) -> Span:
        """From when to when it is about."""
        return self.from_ms, self.to_ms

    def rows(self, changes: Sequence[Change], now: Now) -> Iterator[Row]:
        """Yield the answer, by broker and topic."""
        of_broker = changes_by_broker(_within(changes, self.from_ms, self.to_ms))
        for name, broker in pasts(changes, now, self.from_ms).items():
            yield from self._of_broker(broker, of_broker.get(name, ()))

    @staticmethod
    def _of_broker(broker: BrokerPast, changes: Iterable[Change]) -> Iterator[Row]:
        """Yield what differs of a broker, given the broker at `from_ms` and its changes since."""
        old, was = _state(broker), broker.topics
        states: list[str] = []
        changed: set[str] = set()
        otherwise: set[str] = set()
        for change in changes:
            is_forgotten = change.kind is ChangeKind.DOWN and change.reason == FORGOTTEN
            hit = broker.topics if is_forgotten else {*change.added, *change.changed, *change.removed}
            broker.take(change)
            states.append(_state(broker))
            changed.update(change.changed)
            otherwise.update(topic for topic in hit if broker.has(topic) != (topic in was))
        new, has = _state(broker), broker.topics
        meanwhile = "; ".join(state for state in dict.fromkeys(states) if state not in (old, new))
        if meanwhile or old != new:
            yield broker.name, "", old, new, meanwhile
        for topic in sorted((was & has & changed) | otherwise):
            before, after = _HELD[topic in was], _HELD[topic in has]
            is_back = before == after and topic in otherwise
            after = "changed" if topic in was & has & changed else after
            yield broker.name, topic, before, after, _HELD[topic not in was] if is_back else ""


_HELD: Final = ("absent", "held")


def _state(broker: BrokerPast) -> str:
    return ", ".join((broker.state, *broker.replicas))


# --- what changed before it broke ---------------------------------------------------------------------------


class Piece(NamedTuple):
    """How one broker served one topic: at the beginning of a time, and from each change on that mattered."""

    topic: str
    broker: str
    entries: tuple[str, ...]
    """The changes: their ids."""

    serves: tuple[bool, ...]
    """Whether it took messages for the topic: at the beginning, and after each of the changes."""


@dataclass(slots=True)
class Hits:
    """How many topics a change hit, and the worst of them."""

    out: int = 0
    fewer: int = 0
    hit: int = 0
    worst: list[tuple[int, str]] = field(default_factory=list)
    """0 = out, 1 = fewer, 2 = hit otherwise; and the topic."""

    def add(self, rank: int, topic: str) -> None:
        """Count a topic."""
        self.out += rank == 0
        self.fewer += rank == 1
        self.hit += 1
        self.worst.append((rank, topic))
        if len(self.worst) > _TRIMMED_AT:
            self.trim()

    def trim(self) -> Hits:
        """Keep the worst topics that a row names."""
        self.worst = sorted(self.worst)[:MOST_NAMES]
        return self


_TRIMMED_AT: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What changed before it broke, with the topics that each change hit, worst first."""

    at_ms: int
    window_ms: int

    columns: ClassVar = (
        *_HEAD,
        Column("out", "bigint", "topics for which no broker takes messages after it, and one did before"),
        Column("fewer", "bigint", "other topics for which fewer brokers take messages than before"),
        Column("hit", "bigint", "all topics whose routes or configuration it changed"),
        Column("topics", "array<string>", f"the worst of these, at most {MOST_NAMES}"),
        *_TAIL,
    )

    @property
    def from_ms(self) -> int:
        """When the time begins that is looked at."""
        return self.at_ms - self.window_ms

    @property
    def span(self) -> Span:
        """From when to when it is about."""
        return self.from_ms, self.at_ms

    def rows(self, changes: Sequence[Change], now: Now) -> Iterator[Row]:
        """Yield the answer."""
        pieces: defaultdict[str, list[Piece]] = defaultdict(list)
        for piece in self.pieces(changes, now):
            pieces[piece.topic].append(piece)
        hits = self.hits(pieces.values())
        looked_at = _within(changes, self.from_ms, self.at_ms)
        rows = [self.row(change, hits.get(change.change_id)) for change in looked_at]
        yield from sorted(rows, key=self.order)

    def pieces(self, changes: Sequence[Change], now: Now) -> Iterator[Piece]:
        """Yield how each broker served its topics."""
        of_broker = changes_by_broker(_within(changes, self.from_ms, self.at_ms))
        for name, broker in pasts(changes, now, self.from_ms).items():
            yield from self._of_broker(broker, of_broker.get(name, ()))

    @staticmethod
    def _of_broker(broker: BrokerPast, changes: Iterable[Change]) -> Iterator[Piece]:
        """Yield how a broker served its topics, given the broker at `from_ms` and its changes since."""
        serves = broker.is_writable
        turns: dict[str, list[tuple[str, bool]]] = {topic: [("", serves)] for topic in broker.topics}
        for change in changes:
            before = broker.state, broker.replicas
            broker.take(change)
            hit: Iterable[str] = {*change.added, *change.changed, *change.removed}
            if change.kind not in OF_TOPICS:
                hit = broker.topics if before != (broker.state, broker.replicas) else ()
            serves = broker.is_writable
            for topic in hit:
                of_topic = turns.setdefault(topic, [("", False)])
                of_topic.append((change.change_id, serves and broker.has(topic)))
        for topic, told_of in turns.items():
            entries, served = zip(*told_of, strict=True)
            yield Piece(topic, broker.name, entries[1:], served)

    @staticmethod
    def hits(topics: Iterable[Sequence[Piece]]) -> dict[str, Hits]:
        """Return for each change what it hit, given the pieces of every topic."""
        found: dict[str, Hits] = {}
        for pieces in topics:
            serves = {piece.broker: piece.serves[0] for piece in pieces}
            turns: defaultdict[str, list[tuple[str, bool]]] = defaultdict(list)
            for piece in pieces:
                for entry, after in zip(piece.entries, piece.serves[1:], strict=True):
                    turns[entry].append((piece.broker, after))
            for entry in sorted(turns, key=place_of):
                count = sum(serves.values())
                serves.update(turns[entry])
                left = sum(serves.values())
                rank = 2 if left >= count else 1 if left else 0
                found.setdefault(entry, Hits()).add(rank, pieces[0].topic)
        return found

    @staticmethod
    def row(change: Change, hits: Hits | None) -> Row:
        """Return the row of a change."""
        hits = (hits or Hits()).trim()
        topics = tuple(topic for _, topic in hits.worst)
        return _row(change, told(change), hits.out, hits.fewer, hits.hit, topics)

    @classmethod
    def order(cls, row: Row) -> tuple[int, ...]:
        """Return what rows are sorted by: the worst first, of the same the latest first."""
        told_of = dict(zip((column.name for column in cls.columns), row, strict=True))
        ms, sequence = place_of(told_of["entry"])
        return -told_of["out"], -told_of["fewer"], -told_of["hit"], -ms, -sequence


Question: TypeAlias = TopicHistory | BrokerHistory | TableAt | Difference | Before
