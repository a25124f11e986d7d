"""What answers have to say of a small history: followed record by record, and ms by ms, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from tests.pipeline.answering import Row

_HOW: Final = {"expired": "expired", "broker gone": "gone", "has id 9 now": "moved"}


@dataclass
class Era:
    """Records between two gaps, and from when to when all is known."""

    from_ms: int
    to_ms: int
    records: list[Row] = field(default_factory=list)


def eras_of(changes: list[Row], until_ms: int | None = None) -> list[Era]:
    """Return the eras of the changes, which are in order."""
    seen = [row for row in changes if until_ms is None or row["ms"] <= until_ms]
    last_ms = until_ms if until_ms is not None else seen[-1]["ms"]
    found = [Era(next(row["ms"] for row in seen if row["kind"] != "gap"), last_ms)]
    for row, after in zip(seen, [*seen[1:], None], strict=True):
        if row["kind"] == "gap":
            behind_ms = after["ms"] if after else last_ms
            told_ms = int(row["key"].split("-")[0]) if row["key"] else behind_ms
            found[-1].to_ms = row["ms"]
            found.append(Era(min(told_ms, last_ms), last_ms))
        else:
            found[-1].records.append(row)
    return found


@dataclass
class Session:
    """A row of BROKER_SESSIONS."""

    broker: str
    broker_id: int
    epoch: int | None
    address: str | None
    began: str
    begin_id: str | None
    begin_ms: int
    ended: str = ""
    reason: str | None = None
    successor: str | None = None
    end_id: str | None = None
    end_ms: int = 0
    told_ms: int | None = None
    lease_ttl_ms: int | None = None
    lease_ended_ms: int | None = None
    away_until_ms: int = 0
    returned: bool = False
    owner: str | None = None
    """The address by its newest record."""

    def row(self) -> tuple[Any, ...]:
        """Return the columns in their order."""
        return tuple(value for name, value in vars(self).items() if name != "owner")


class _Replica:
    """One replica in one era: whose it is now, and who is missed."""

    def __init__(self, era: Era, done: list[Session]) -> None:
        self._era, self._done = era, done
        self._now: Session | None = None
        self._missed: Session | None = None
        self._seen = False
        self._ttl_ms: int | None = None
        """Of its newest up."""

    def up(self, row: Row, change_id: str) -> None:
        now = self._now
        if now and now.epoch == row["epoch"]:
            self._ttl_ms, now.owner = row["lease_ttl_ms"], row["address"]
        else:
            if now:
                is_same = now.owner == row["address"]
                self._end(row, change_id, "replaced" if is_same else "fenced")
                now.successor, now.returned = row["address"], True
            if self._missed:
                self._missed.away_until_ms = max(row["ms"], self._missed.end_ms)
                self._missed.returned, self._missed = True, None
            who = (row["broker"], row["broker_id"], row["epoch"], row["address"])
            self._now = Session(*who, "up", change_id, row["ms"], lease_ttl_ms=row["lease_ttl_ms"])
            self._now.owner, self._ttl_ms = row["address"], row["lease_ttl_ms"]
        self._seen = True

    def down(self, row: Row, change_id: str) -> None:
        how = _HOW.get(row["reason"], "clean")
        if not self._seen:
            epoch = None if how == "moved" else row["epoch"]
            who = (row["broker"], row["broker_id"], epoch, None)
            self._now = Session(*who, "unknown", None, self._era.from_ms)
        self._seen = True
        if now := self._now:
            self._end(row, change_id, how)
            now.reason = row["reason"]
            if how == "expired":
                now.lease_ended_ms = row["lease_ended_ms"]
                now.end_ms = max(now.begin_ms, min(row["lease_ended_ms"], row["ms"]))
            now.away_until_ms = max(now.end_ms, self._era.to_ms)
            self._missed = now

    def forget(self, row: Row, change_id: str) -> None:
        if now := self._now:
            self._ttl_ms = now.lease_ttl_ms  # it has no record of its own end
            self._end(row, change_id, "forgotten")
            now.reason = "forgotten"
        if self._missed:
            self._missed.away_until_ms = max(row["ms"], self._missed.end_ms)
        self._missed = None

    def close(self, how: str) -> None:
        if now := self._now:
            now.ended, now.end_ms, now.away_until_ms = how, self._era.to_ms, self._era.to_ms
            self._done.append(now)

    def _end(self, row: Row, change_id: str, how: str) -> None:
        now, self._now = self._now, None
        assert now
        now.ended, now.end_id, now.lease_ttl_ms = how, change_id, self._ttl_ms
        now.told_ms = now.end_ms = now.away_until_ms = row["ms"]
        self._done.append(now)


def sessions_of(eras: list[Era]) -> list[Session]:
    """Return the BROKER_SESSIONS of a history."""
    done: list[Session] = []
    for era in eras:
        replicas: dict[tuple[str, int], _Replica] = {}
        for row in era.records:
            if row["kind"] not in ("up", "down"):
                continue
            if row.get("reason") == "forgotten":
                for (broker, _), one in replicas.items():
                    if broker == row["broker"]:
                        one.forget(row, row["change_id"])
                continue
            one = replicas.setdefault((row["broker"], row["broker_id"]), _Replica(era, done))
            (one.up if row["kind"] == "up" else one.down)(row, row["change_id"])
        for one in replicas.values():
            one.close("open" if era is eras[-1] else "unknown")
    return done


class Span(NamedTuple):
    """A time in which a broker takes no messages."""

    from_ms: int
    to_ms: int
    cause: str
    over: bool


def silences_of(eras: list[Era], sessions: Iterable[Session]) -> dict[str, list[Span]]:
    """Return when each broker took no messages: its master away, or wiped; what meets is one."""
    found: dict[str, list[Span]] = {}
    for one in sessions:
        if one.broker_id == 0:
            found.setdefault(one.broker, []).append(
                Span(one.end_ms, one.away_until_ms, one.ended, one.returned)
            )
    for era in eras:
        for broker, spans in _wiped_in(era).items():
            found.setdefault(broker, []).extend(spans)
    return {
        broker: _merged([one for one in spans if one.to_ms > one.from_ms]) for broker, spans in found.items()
    }


def _wiped_in(era: Era) -> dict[str, list[Span]]:
    since: dict[str, int] = {}
    found: dict[str, list[Span]] = {}
    seen: set[str] = set()
    for row in era.records:
        broker, is_end = row["broker"], row["kind"] == "lifted" or row.get("reason") == "forgotten"
        if row["kind"] == "wiped":
            since.setdefault(broker, row["ms"])
        elif is_end and (broker in since or (row["kind"] == "lifted" and broker not in seen)):
            begin_ms = since.pop(broker, era.from_ms)
            found.setdefault(broker, []).append(Span(begin_ms, row["ms"], "wiped", over=True))
        if is_end or row["kind"] == "wiped":
            seen.add(broker)
    for broker, begin_ms in since.items():
        found.setdefault(broker, []).append(Span(begin_ms, era.to_ms, "wiped", over=False))
    return found


def _merged(spans: list[Span]) -> list[Span]:
    done: list[Span] = []
    for one in sorted(spans, key=lambda one: (one.from_ms, one.cause)):
        if done and one.from_ms <= done[-1].to_ms:
            last = done[-1]
            over = one.over if one.to_ms > last.to_ms else last.over
            if one.to_ms == last.to_ms:
                over = one.over and last.over
            done[-1] = Span(last.from_ms, max(last.to_ms, one.to_ms), last.cause, over)
        else:
            done.append(one)
    return done


@dataclass
class Life:
    """A row of TOPIC_LIVES."""

    topic: str
    life: int
    created_ms: int | None
    gone_ms: int | None
    brokers: list[str]
    came: list[str]
    left: list[str]
    first_ms: int
    last_ms: int


Low: TypeAlias = tuple[str, int, int, bool, int, int, list[str], list[str], list[str]]


class Topics:
    """Which brokers hold a topic, in each ms from one before the first change to the end."""

    def __init__(self, eras: list[Era], routes: Iterable[Row] = ()) -> None:
        self.since_ms, self.until_ms = eras[0].from_ms, eras[-1].to_ms
        self.gap_ms = {ms for one, after in pairwise(eras) for ms in range(one.to_ms, after.from_ms)}
        """Each ms that lies in a gap."""
        self.events: dict[tuple[str, str], list[list[tuple[int, bool]]]] = {}
        for number, era in enumerate(eras):
            for row in era.records:
                for topic, broker, held in _told(row):
                    of_eras = self.events.setdefault((topic, broker), [[] for _ in eras])
                    of_eras[number].append((row["ms"], held))
        self.snapshot = {(row["topic"], row["broker"]) for row in routes}
        pairs = self.events.keys() | self.snapshot
        self.held = {pair: self._followed(eras, pair) for pair in pairs}
        """By topic and broker: whether it holds, before the first change, then in each ms, and at the end."""

    def _followed(self, eras: list[Era], pair: tuple[str, str]) -> list[bool]:
        """Return what a pair was: as told last, unless what is told next says that it must have changed."""
        told = self.events.get(pair, [[] for _ in eras])
        is_there = pair in self.snapshot
        # That a topic goes says that it was there; and so does the snapshot at the end.
        firsts = [(not of_era[0][1]) if of_era else None for of_era in told]
        if is_there and firsts[-1] is None:
            firsts[-1] = True
        before = next((one for one in firsts if one is not None), False)
        found, now = [before], before
        for number, era in enumerate(eras):
            first = firsts[number]
            start = now if first is None else first
            if number:
                gap_ms = era.from_ms - eras[number - 1].to_ms
                found += [now or start] * gap_ms
            now = start
            at = dict(told[number])
            for ms in range(era.from_ms, era.to_ms + 1):
                now = at.get(ms, now)
                found.append(now)
            if era is not eras[-1]:
                found.pop()
        return found

    def holders(self, topic: str, ms: int) -> frozenset[str]:
        """Return who holds a topic."""
        place = ms - self.since_ms + 1
        return frozenset(broker for (one, broker), held in self.held.items() if one == topic and held[place])

    @property
    def names(self) -> list[str]:
        """Return the topics."""
        return sorted({topic for topic, _ in self.held})

    def times(self, topic: str) -> tuple[int, int, int | None]:
        """Return how long a topic was held while all was known, how long in gaps, and how long gone."""
        having = [ms for ms in range(self.since_ms, self.until_ms) if self.holders(topic, ms)]
        gone_ms = self.until_ms - having[0] - len(having) if having else 0
        known_ms = sum(ms not in self.gap_ms for ms in having)
        return known_ms, len(having) - known_ms, gone_ms or None

    def lives(self, topic: str, settle_ms: int, apart_ms: int) -> Iterator[Life]:
        """Yield the lives of a topic."""
        whole = [bool(self.holders(topic, ms)) for ms in range(self.since_ms - 1, self.until_ms + 1)]
        for number, (first, last) in enumerate(_runs(whole, apart_ms), 1):
            yield self._life(topic, number, first, last, settle_ms)

    def _life(self, topic: str, number: int, first: int, last: int, settle_ms: int) -> Life:
        """Return a life from one place to another, both held; place 0 is before the first change."""
        end = self.until_ms - self.since_ms + 1
        came, left, having, lost_at = [], [], [], {}
        for (one, broker), held in self.held.items():
            places = [place for place in range(first, last + 1) if held[place]]
            if one != topic or not places:
                continue
            is_there = places[-1] == end
            lost_at[broker] = None if is_there else places[-1] + 1
            if places[0] and places[0] > max(first, 1) + settle_ms:
                came.append(broker)
        is_gone = last != end
        for broker, place in lost_at.items():
            if place is None if not is_gone else place == last + 1:
                having.append(broker)
            if place is not None and (not is_gone or place < last + 1 - settle_ms):
                left.append(broker)
        created_ms = self.since_ms + first - 1 if first else None
        last_ms = self.since_ms + last
        lists = (sorted(having), sorted(came), sorted(left))
        first_ms = self.since_ms if created_ms is None else created_ms
        return Life(topic, number, created_ms, last_ms if is_gone else None, *lists, first_ms, last_ms)


def _told(row: Row) -> Iterator[tuple[str, str, bool]]:
    brokers = row["brokers"] if row["kind"] == "deleted" else [row["broker"]]
    for held in (True, False):
        for topic in row.get("added" if held else "removed", ()):
            for broker in brokers:
                yield topic, broker, held


def _runs(held: list[bool], apart_ms: int) -> list[tuple[int, int]]:
    """Return the first and the last place of each run, over holes of up to `apart_ms`."""
    found: list[tuple[int, int]] = []
    for place, is_held in enumerate(held):
        if is_held and found and place - found[-1][1] - 1 <= apart_ms:
            found[-1] = (found[-1][0], place)
        elif is_held:
            found.append((place, place))
    return found


class _Taking:
    """Who takes messages for a topic, and why others do not."""

    def __init__(self, topics: Topics, silences: dict[str, list[Span]]) -> None:
        self._topics, self._silences = topics, silences

    def counts(self, topic: str, ms: int) -> tuple[int, int]:
        """Return how many brokers hold a topic, and how many of them take messages."""
        holders = self._topics.holders(topic, ms)
        return len(holders), sum(
            not self._spans(one, lambda it: it.from_ms <= ms < it.to_ms) for one in holders
        )

    def begun(self, topic: str, ms: int) -> list[tuple[str, str]]:
        """Return the holders that fell silent at that ms, and why."""
        holders = sorted(self._topics.holders(topic, ms))
        return [(one, it.cause) for one in holders for it in self._spans(one, lambda it: it.from_ms == ms)]

    def silent(self, topic: str, ms: int) -> list[str]:
        """Return the holders that were silent before that ms and still are, each with why."""
        holders = sorted(self._topics.holders(topic, ms))
        spans = ((one, self._spans(one, lambda it: it.from_ms < ms < it.to_ms)) for one in holders)
        return [f"{one} {it.cause}" for one, found in spans for it in found]

    def is_over(self, topic: str, ms: int) -> bool:
        """Return whether a holder is seen to be back at that ms, or others to hold the topic."""
        holders = self._topics.holders(topic, ms - 1)
        is_other = holders != self._topics.holders(topic, ms) and ms not in self._topics.gap_ms
        return is_other or any(self._spans(one, lambda it: it.to_ms == ms and it.over) for one in holders)

    def _spans(self, broker: str, chosen: Callable[[Span], bool]) -> list[Span]:
        return [one for one in self._silences.get(broker, ()) if chosen(one)]


def low_times(topics: Topics, silences: dict[str, list[Span]], fewer_than: int) -> Iterator[Low]:
    """Yield the TOPIC_OUTAGES of a history."""
    taking = _Taking(topics, silences)
    for topic in topics.names:
        counts = [taking.counts(topic, ms) for ms in range(topics.since_ms, topics.until_ms)]
        for first, last in _runs([left < min(fewer_than, size) for size, left in counts], 0):
            from_ms, to_ms = topics.since_ms + first, topics.since_ms + last + 1
            if topics.holders(topic, from_ms - 1):  # else it was born so
                who = taking.begun(topic, from_ms)
                fewest = min(left for _, left in counts[first : last + 1])
                over = taking.is_over(topic, to_ms)
                causes = sorted({cause for _, cause in who})
                size, brokers = counts[first][0], [broker for broker, _ in who]
                yield (
                    topic,
                    from_ms,
                    to_ms,
                    over,
                    size,
                    fewest,
                    brokers,
                    causes,
                    taking.silent(topic, from_ms),
                )
