"""What a client knows of the table, and what it should ask next; pure, every `now` is monotonic seconds."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Final

from ..registry.change_stream.stream import EARLIEST
from ..registry.codec import OF_NO_TABLE, RowChange
from ..registry.model import EXPIRED, Change, ChangeKind, Group, QueueData, in_order
from ..registry.plans import Lookup
from .config import ClientConfig
from .health import Belief, Losses
from .observers.state import HeldLoss
from .routes import TableCopy, merged_replicas, merged_rows

_REFRESHES_WHILE_HELD: Final = 3
"""While losses are held back, everything is read so many times as often."""

_OF_A_LEASE: Final = (ChangeKind.UP, ChangeKind.DOWN)
_NOBODY: Final[frozenset[str]] = frozenset()
NO_ROWS: Final[Mapping[str, RowChange]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Request:
    """One look at the table that the cache asks for."""

    number: int
    topics: tuple[str, ...]
    known: Mapping[str, Group] = field(default_factory=dict)
    """Groups of which only the leases are read."""

    anew: tuple[str, ...] = ()
    """Groups that are read anew."""

    full: bool = False


class RouteCache:
    """The last known rows of the topics in use and their brokers.

    Requests are numbered; an answer never overwrites what a later request, or a later change, has brought.
    """

    def __init__(self, config: ClientConfig, rng: random.Random) -> None:
        self._config = config
        self._rng = rng
        self._number = 0
        self._topic_seen: dict[str, int] = {}
        self._broker_seen: dict[str, int] = {}
        self._dirty: dict[str, int] = dict.fromkeys(
            (*config.topics, *filter(None, (config.default_topic,))), 0
        )
        self._told: dict[str, int] = {}
        """By topic: the newest request when a doorbell brought a row; answers up to it may be older."""

        self._removed_of: dict[str, set[str]] = {}
        """By topic, the brokers that have lost it, as the feed has told since the last look at it."""

        self._withdrawn: dict[str, set[str]] = {}
        """By broker: addresses that their owners gave up, and that are served until the look that is due."""

        self._stale_groups: dict[str, int] = {}
        self._unread_groups: set[str] = set()
        """Groups as they were before the feed was lost: they do not name who has come back since."""

        self._passed_over = 0
        """The newest request when a change of something unknown went by: its answer may be older."""

        self._unsure: set[str] = set()
        """Brokers whose first answer may have been older than their end: not worth holding on to."""

        self._stream_asked = 0
        """The number of the last read of the stream, which may be under way."""

        self._ask_for_missing = False
        """Whether a topic that was missing may have been created unheard: the next full look asks for it."""

        self.refresh_at = 0.0
        """When everything is read again."""

        self._leases_at = self._leases_by = 0.0
        self.table = TableCopy()
        self.answered: dict[str, float] = {}
        """By topic: when the table last told of it, since the feed has a place."""

        self.losses = Losses(config.guard_hold_s)

    def held_losses(self, now: float) -> tuple[HeldLoss, ...]:
        """Return what is held back, brokers first: since when, for how long at most, and why."""
        losses, config, until = self.losses, self._config, self.losses.guarded_until
        why = "not announced" if until is None else losses.reason

        def left_s(next_look: float, interval_s: float) -> float:
            """Return the seconds until a look at which losses are believed."""
            if until is not None and next_look < until:
                next_look = until + interval_s
            return max(0.0, next_look - now)

        broker_left_s = left_s(self._leases_at, config.tail_s)
        topic_left_s = left_s(self.refresh_at, config.refresh_s / _REFRESHES_WHILE_HELD)
        if until is None:  # the stream is read soon, and then they are looked at
            topic_left_s = min(topic_left_s, config.tail_s)
        brokers = [
            HeldLoss("broker", name, now - since, broker_left_s, why)
            for name, since in sorted(losses.brokers.held.items())
        ]
        topics = [
            HeldLoss("topic", name, now - since, 0.0 if name in self._dirty else topic_left_s, why)
            for name, since in sorted(losses.topics.held.items())
        ]
        return (*brokers, *topics)

    def was_asked(self, topic: str, now: float) -> bool:
        """Whether the table told of the topic so recently that asking again is pointless."""
        answered = self.answered.get(topic)
        return (
            answered is not None
            and topic not in self._dirty
            and now < answered + self._config.missing_retry_s
        )

    def request(self, topics: Iterable[str]) -> Request:
        """Return the request that answers a caller's question."""
        return self._next(tuple(topics), self.table.groups, ())

    def next_due(self) -> float:
        """Return the time at which `due` has something to ask."""
        if self._dirty or self._stale_groups:
            return 0.0
        return min(self.refresh_at, self._leases_at)

    def due(self, now: float) -> Request | None:
        """Return what should be asked now, if anything."""
        if now >= self.refresh_at:
            missing, self._ask_for_missing = self.table.missing if self._ask_for_missing else {}, False
            return self._next(
                tuple({**self.table.rows, **self._dirty, **missing}), {}, tuple(self.table.groups), full=True
            )
        if now < self.next_due():
            return None
        anew = {*self._stale_groups, *(self._unread_groups & self.losses.brokers.held.keys())}
        known = {name: group for name, group in self.table.groups.items() if name not in anew}
        return self._next(tuple(self._dirty), known, tuple(anew))

    def offer(self, request: Request, answer: Lookup, now: float) -> set[str]:
        """Take in the answer to a request; return the topics whose route changed."""
        self._reschedule(request, now)
        brokers = self._newly_told(request, answer)
        vanished = (self.table.alive.keys() & brokers) - answer.alive.keys()
        lost = vanished - self._unsure
        belief = self.losses.belief(request.number, len(self.table.alive), len(lost), now)
        changed_brokers = self._take_brokers(request, answer, brokers, belief, now)
        changed = self.table.topics_of(changed_brokers)
        changed |= {
            topic
            for topic in request.topics
            if not self._is_overtaken(request, answer, topic)
            and self._take_topic(request, answer, topic, belief, now)
        }
        if request.full:
            self._forget_unused_groups()
            self._forget_old_numbers(request.number)
            self.losses.all_read(request.number)
            self._refresh_later(request, now)
        return changed

    def take(self, changes: Collection[Change], rows: Mapping[str, RowChange] = NO_ROWS) -> set[str]:
        """Take in changes of the feed; return the topics whose route changed without another look.

        `rows`: what the doorbell of the only change says of its topics.
        """
        table = self.table
        changed: set[str] = set()
        last_word = {(of.broker_name, of.broker_id): of for of in changes if of.kind in _OF_A_LEASE}
        came = {of.broker_name for of in last_word.values() if of.kind is ChangeKind.UP}
        for change in changes:
            name = change.broker_name
            if change.kind in OF_NO_TABLE:
                continue
            if change.kind is ChangeKind.DOWN and name in table.groups:
                self.losses.brokers.announced(name, change.broker_id)
            if change.kind is ChangeKind.UP:
                self.losses.brokers.revoked(name, change.broker_id)
                self._withdrawn.get(name, set()).discard(change.address)
            if change.kind in (ChangeKind.TOPICS, ChangeKind.DELETED):
                changed |= self._take_topics(change, rows)
            elif name in table.groups:
                self._stale_groups[name] = self._number
                own_word = change.kind is ChangeKind.DOWN and change.reason != EXPIRED
                is_back = change is not last_word.get((name, change.broker_id))
                # What is about to be looked at may stay: who is back, or whose last replica has a successor.
                stays = is_back or (name in came and table.is_alone(name))
                if own_word and self._withdraw(name, change.broker_id, stays=stays):
                    changed |= table.topics_of((name,))
            else:
                self._passed_over = self._number
        return changed

    def reads_stream(self) -> None:
        """Number a read of the stream that begins now."""
        self._number += 1
        self._stream_asked = self._number

    def stream_was_read(self, now: float) -> None:
        """Take in that the stream lost nothing before that read began: look again at what is in doubt.

        The last brokers of a topic have until the next look at leases: a store that stood still has lost all.
        """
        if self.losses.awaits_stream and not self.losses.is_guarded(now):
            alive, lacking = self.table.alive, self.losses.brokers.lacking
            gone = {name for name, broker in alive.items() if lacking(name) >= broker.broker_addrs.keys()}
            holders_of = map(self.table.brokers_of, self.table.topics_of(gone))
            if not any(holders.isdisjoint(alive.keys() - gone) for holders in holders_of):
                self._leases_at = 0.0
            self._dirty.update(dict.fromkeys(self.losses.topics.held, self._number))
        self.losses.stream_was_read(self._stream_asked)

    def prove(self, now: float) -> None:
        """Put the next look at the leases off: those that ended until now were announced.

        Where a loss is held back, the next look has to come soon.
        """
        if not self.losses.any_held:
            due_at = now + self._config.tail_s * self._rng.uniform(EARLIEST, 1.0)
            self._leases_at = max(self._leases_at, min(due_at, self._leases_by))

    def begin(self) -> None:
        """The feed has a place: changes before it may be newer than answers, also those under way."""
        self._passed_over = self._number
        self.answered.clear()
        self._ask_for_missing = True

    def lose(self, now: float, told: Collection[Change] = ()) -> set[str]:
        """The feed lost its place: hold on to what is known, and read everything again, with jitter.

        `told`: what it has told since. Brokers that came back as they were are looked at when all is: all
        clients would look at once at a store that was emptied. Return the topics whose route changed.
        """
        if self.table.alive:
            self.losses.changes_lost(now)
        self._unread_groups = {*self.table.groups}
        self.refresh_at = now + self._rng.uniform(0, self._config.jitter_s)
        ended = {change.broker_name for change in told if change.kind is ChangeKind.DOWN}
        return self.take([of for of in told if of.broker_name in ended or not self._says_what_is_known(of)])

    def doubt(self, now: float) -> None:
        """A change could not be read: it may concern anything, so read everything again soon, with jitter."""
        self.begin()
        self.refresh_at = min(self.refresh_at, now + self._rng.uniform(0, self._config.jitter_s))

    def accept(self, now: float) -> None:
        """Read everything again now, and believe it whatever it lacks: an operator says so."""
        self.losses.accept(self._number)
        self.refresh_at = now

    def forget(self, topics: Iterable[str]) -> None:
        """Read these topics no more."""
        for topic in topics:
            self.losses.topics.settle(topic)
            self.table.forget(topic)
            self.answered.pop(topic, None)
            self._dirty.pop(topic, None)
            self._removed_of.pop(topic, None)
            self._told.pop(topic, None)
            self._topic_seen[topic] = self._number  # answers under way are not wanted any more

    def _next(
        self,
        topics: tuple[str, ...],
        known: Mapping[str, Group],
        anew: tuple[str, ...],
        *,
        full: bool = False,
    ) -> Request:
        self._number += 1
        return Request(self._number, topics, dict(known), anew, full)

    def _reschedule(self, request: Request, now: float) -> None:
        self._leases_at = now + self._config.tail_s
        self._leases_by = now + self._config.proven_tail_s * self._rng.uniform(EARLIEST, 1.0)
        _settle(self._dirty, request.topics, request.number)
        _settle(self._stale_groups, request.anew, request.number)
        for name in request.anew:  # overtaken, maybe by a request that read only the leases it knew of
            if self._broker_seen.get(name, 0) > request.number:
                self._stale_groups[name] = self._number

    def _refresh_later(self, request: Request, now: float) -> None:
        """Everything was read: do so again after a while, sooner while losses are held back."""
        if not self.losses.awaits(request.number):
            often = _REFRESHES_WHILE_HELD if self.losses.guarded_until is not None else 1
            # So far apart that clients which began together are soon spread over all of the interval.
            self.refresh_at = now + self._config.refresh_s / often * self._rng.uniform(0.5, 1.0)

    def _newly_told(self, request: Request, answer: Lookup) -> list[str]:
        """Return the brokers of which the answer tells more than is known: later, and of all replicas."""
        return [
            name
            for name in answer.groups  # without those whose key is corrupt, which is no reason to forget them
            if self._broker_seen.get(name, 0) < request.number
            and ((then := request.known.get(name)) is None or self.table.groups.get(name, then) == then)
        ]

    def _take_brokers(
        self,
        request: Request,
        answer: Lookup,
        brokers: Iterable[str],
        belief: Belief,
        now: float,
    ) -> set[str]:
        """Store the groups and the live replicas; return the brokers whose replicas changed."""
        changed = set()
        losses = self.losses.brokers
        for name in brokers:
            self._broker_seen[name] = request.number
            if name not in request.known:
                self._unread_groups.discard(name)
            worth_holding = name not in self._unsure
            self._unsure.discard(name)
            if name not in self.table.groups and request.number <= self._passed_over:
                self._stale_groups[name] = self._number
                self._unsure.add(name)
            self.table.groups[name] = answer.groups[name]
            old, new = self.table.alive.get(name), answer.alive.get(name)
            if new == old:  # as nearly always
                losses.settle(name)
                continue
            merged, lacking = merged_replicas(old, new, self._withdrawn_of(name))
            if not lacking:
                losses.settle(name)
            elif worth_holding and losses.keeps(name, lacking, belief, request.number):
                losses.hold(name, lacking, self._number, now)
                new = merged
            else:
                losses.believe(name)
            self.table.put_replicas(name, new)
            if new != old:
                changed.add(name)
        return changed

    def tells_anew(self, changes: Iterable[Change]) -> bool:
        """Whether the first of changes comes from a broker, and says as new what is known: it was lost."""
        first = next((of for of in changes if of.kind not in OF_NO_TABLE), None)
        if first is None or not self._says_what_is_known(first):
            return False
        rows = (self.table.rows.get(topic) or () for topic in first.added)
        knows_rows = any(row.broker_name == first.broker_name for row in chain.from_iterable(rows))
        return first.kind is ChangeKind.UP or knows_rows

    def _says_what_is_known(self, change: Change) -> bool:
        """Whether a broker came to where it is known to be, or only has topics more."""
        if change.kind is ChangeKind.UP:
            broker = self.table.alive.get(change.broker_name)
            return broker is not None and broker.broker_addrs.get(change.broker_id) == change.address
        return change.kind is ChangeKind.TOPICS and not (change.changed or change.removed)

    def _take_topic(self, request: Request, answer: Lookup, topic: str, belief: Belief, now: float) -> bool:
        """Store the rows of a topic; whether they changed."""
        if topic not in self.table.rows and request.number <= self._passed_over:
            self._dirty[topic] = self._number
        self._topic_seen[topic] = request.number
        self.answered[topic] = now
        old, new = self.table.rows.get(topic), answer.rows.get(topic)
        if not new and topic not in answer.missing:  # its key is corrupt, which is no reason to forget it
            return False
        losses, served = self.losses.topics, self.table.served
        removed_of = self._brokers_without(topic)
        if new is not None and new == old:  # as nearly always
            losses.settle(topic)
            return False
        merged, lacking = merged_rows(
            [row for row in old or () if row.broker_name not in removed_of], new or ()
        )
        if not lacking:
            losses.settle(topic)
        elif losses.keeps(topic, lacking, belief, request.number):
            losses.hold(topic, lacking, self._number, now)
            new = merged
        else:
            losses.believe(topic)
        if new is not None:
            self.table.put(topic, new)
        else:
            for forgotten in self.table.put_missing(topic):
                for known in (self._topic_seen, self.answered, self._dirty):
                    known.pop(forgotten, None)
        return served(new) != served(old)

    def _is_overtaken(self, request: Request, answer: Lookup, topic: str) -> bool:
        """Whether there are later news of a topic; what differs from those of a doorbell is asked for."""
        if self._told.get(topic, -1) < request.number:
            self._told.pop(topic, None)
        elif answer.rows.get(topic) != self.table.rows.get(topic):
            self._dirty[topic] = self._number
        return self._topic_seen.get(topic, 0) >= request.number

    def _take_topics(self, change: Change, rows: Mapping[str, RowChange]) -> set[str]:
        """Take in a change of topics: by its rows, or else by another look; return those that changed."""
        changed = set()
        self._note_removed(change)
        for topic in chain(change.added, change.changed, change.removed):
            if topic in rows and self._knows_before(topic, rows[topic]):
                if self._take_row(topic, rows[topic].now):
                    changed.add(topic)
            elif topic in self.table.rows or topic in self.table.missing:
                self._dirty[topic] = self._number
            else:
                self._passed_over = self._number
        return changed

    def _knows_before(self, topic: str, row: RowChange) -> bool:
        """Whether what a doorbell says of a topic goes on from what is known of it, which is not in doubt.

        An answer that was quicker than the doorbell has the row already, or a newer one.
        """
        name, known = row.now.broker_name, self.table.rows.get(topic)
        if known is None or topic in self._dirty or name not in self.table.groups:
            return False
        if topic in self.losses.topics.held:
            return False
        ours = next((old for old in known if old.broker_name == name), None)
        return ours in (row.before, row.now)

    def _take_row(self, topic: str, row: QueueData) -> bool:
        """Store the row of one broker; whether the topic's route changed. Answers under way may be older."""
        old = self.table.rows[topic]
        new = in_order((*(other for other in old if other.broker_name != row.broker_name), row))
        self._topic_seen[topic] = self._told[topic] = self._number
        self.table.put(topic, new)
        return self.table.served(new) != self.table.served(old)

    def _note_removed(self, change: Change) -> None:
        """Note what the feed tells to be gone: a look that lacks it is the second word."""
        for topic in change.removed:
            if topic in self.table.rows:
                self._removed_of.setdefault(topic, set()).update(change.brokers or (change.broker_name,))

    def _brokers_without(self, topic: str) -> Collection[str]:
        """Return the brokers that have lost the topic, as the feed has told since the last look at it."""
        found = self._removed_of.get(topic, _NOBODY)
        if topic not in self._dirty:
            self._removed_of.pop(topic, None)
        return found

    def _withdraw(self, name: str, broker_id: int, *, stays: bool) -> bool:
        """Let go of an address that its owner gave up, now or at the next look; whether routes have changed.

        That is no guess, so the guard has no say.
        """
        broker = self.table.alive.get(name)
        if stays:
            if broker is not None and broker_id in broker.broker_addrs:
                self._withdrawn.setdefault(name, set()).add(broker.broker_addrs[broker_id])
            return False
        self._broker_seen[name] = self._number
        dropped = self.table.drop_replica(name, broker_id)
        if dropped and name not in self.table.alive:
            self.losses.brokers.believe(name)
        return dropped

    def _withdrawn_of(self, name: str) -> Collection[str]:
        """Return the addresses that a broker's replicas gave up, as the feed has told since the last look."""
        found = self._withdrawn.get(name, _NOBODY)
        if name not in self._stale_groups:
            self._withdrawn.pop(name, None)
        return found

    def _forget_unused_groups(self) -> None:
        for name in self.table.unused_groups():
            del self.table.groups[name]
            self.table.put_replicas(name, None)
            self._broker_seen.pop(name, None)
            self.losses.brokers.settle(name)
            self._unsure.discard(name)
            self._unread_groups.discard(name)
            self._withdrawn.pop(name, None)

    def _forget_old_numbers(self, number: int) -> None:
        """Forget when forgotten topics were last asked for, once no answer to that can be under way."""
        self._topic_seen = {
            topic: seen
            for topic, seen in self._topic_seen.items()
            if seen >= number or topic in self.table.rows or topic in self.table.missing
        }


def _settle(waiting: dict[str, int], asked: Iterable[str], number: int) -> None:
    """Remove what was asked for by a request that was made after the change."""
    for name in asked:
        if waiting.get(name, number) < number:
            del waiting[name]
