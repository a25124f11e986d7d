"""All that a route client decides, for threads and for asyncio; the clients only do the I/O."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from ..registry.change_stream.position import order
from ..registry.checks import check_broker_name, several
from ..registry.errors import CorruptData, InvalidInput
from ..registry.keys import Keys
from ..registry.model import Change, ChangeKind, MessageQueue
from ..registry.plans import ChangePage, Lookup
from .cache import Request, RouteCache
from .config import ClientConfig
from .errors import NoRoute
from .faults.memory import FaultMemory
from .flights import Flight, Flights
from .health import Health, Trust
from .hearing import Hearing
from .hinting import Hinting
from .keeping import SnapshotKeeper
from .observers import LogObserver, tell_all
from .observers.events import ClockReading, LookupDone, RoutesChanged
from .ready import Served
from .route import Route
from .selection import PublishView, find_address
from .snapshot import Snapshot
from .telling import Telling
from .watching import Watches

_log = logging.getLogger("sharedroutes.client")

NOBODY: Final[frozenset[str]] = frozenset()

_FIRST_PAUSE_S: Final = (0.02, 0.1)
"""A connection that was cut, alone, is made again at once."""

_SHORTEST_PAUSE_S: Final = 0.5


Avoid: TypeAlias = str | Collection[str] | None
"""A broker, or several, not to choose if there is another."""


class Question(NamedTuple):
    """What a caller has to do to learn about topics."""

    request: Request | None
    """To ask the store, and to hand in as an answer or as unanswered; None = nothing."""

    flights: list[Flight]
    """To wait for: others are asking already."""


class ClientCore:
    """Cache, feed, faults and views of one client, behind one lock; every `now` is monotonic seconds."""

    def __init__(self, config: ClientConfig, rng: random.Random | None = None) -> None:
        self.config = config
        self.keys = Keys(config.registry.namespace)
        self.tell = tell_all((LogObserver(), *config.observers))
        self.tell_attempt = tell_all(config.observers) if config.observers else None
        """For what happens with each message, which the log does not want to know."""

        self.clock = ClockReading(config.observers, self.tell)
        """When to read the store's clock for observers that want it; the follower does so."""

        self.watches = Watches()
        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._telling = Telling(self._lock, self.tell, self._restart)
        self._cache = RouteCache(config, self._rng)
        self._flights = Flights()
        self._served = Served(config, self._cache, self._rng)
        self._keeper = SnapshotKeeper(config, self.keys.namespace, self.tell)
        self.faults = FaultMemory(config.faults, self._rng, self.tell)
        self.hinting = self._new_hinting()
        self.hearing = Hearing(self.keys.changes, config.tail_s)
        """The follower's alone: what others need of it is asked of the core."""

        self.views = self._served.views
        self.routes = self._served.routes
        """Ready views and routes by topic; a change of the route removes them. Read without the lock."""

        self.known_brokers: Container[str] = self._cache.groups
        """The names of brokers in use, to be looked up without the lock."""

        self._trust = Trust(self._telling.add)
        self._reported: set[str] = set()

    # --- what callers ask -----------------------------------------------------------------------------------

    def view(self, topic: str) -> PublishView | None:
        """Return the view of a topic by what is known, if it is known."""
        with self._lock:
            return self._served.view(topic)

    def pick(
        self, topic: str, view: PublishView, avoid: frozenset[str], now: float, key: str | bytes | None = None
    ) -> MessageQueue:
        """Return the queue whose turn it is, or the one of a message group; raises NoRoute without any."""
        if not view.size:
            raise NoRoute(topic, "no live master accepts messages for")
        verdict = self.faults.verdict(now)
        if key is None:
            return view.pick(verdict, avoid, self._rng)
        return view.pick_for(key, verdict, avoid)

    def avoided(self, avoid: str | Collection[str]) -> frozenset[str]:
        """Return the brokers to avoid as a set; raise InvalidInput for what cannot be a broker."""
        names = (avoid,) if isinstance(avoid, str) else several(avoid, "avoid")
        for name in names:
            if name not in self.known_brokers:
                check_broker_name(name, "avoid")
        return frozenset(names)

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic by what is known."""
        with self._lock:
            return self._route(topic)

    def find_address(self, broker_name: str, broker_id: int, *, only_this: bool) -> tuple[str, int] | None:
        """Return the address of a replica of a broker in use, and its id; see selection.find_address."""
        with self._lock:
            broker = self._cache.alive.get(broker_name)
        return None if broker is None else find_address(broker, broker_id, only_this=only_this)

    def question(self, topics: Iterable[str], now: float) -> Question:
        """Return what to do to learn about topics that are not known and were not asked for just now."""
        with self._lock:
            wanted = [topic for topic in topics if self._cache.route(topic) is None]
            if wanted and self.config.default_topic:  # it may have to stand in for them
                wanted.append(self.config.default_topic)
            unknown = [
                topic
                for topic in dict.fromkeys(wanted)
                if self._cache.route(topic) is None and not self._cache.was_asked(topic, now)
            ]
            own, flights = self._flights.board(unknown)
            if not own:
                return Question(None, flights)
            request = self._cache.request(own)
            self._flights.take_off(request.number, own)
            return Question(request, flights)

    def unanswered(self, request: Request, error: BaseException) -> None:
        """A caller's request failed: who waits for the same topics gets the same error."""
        with self._lock:
            self._flights.land(request.number, request.topics, error)

    def health(self, now: float) -> Health:
        """Return how far the view can be trusted."""
        with self._lock:
            trust = self._trust
            return Health(
                trust.source,
                None if trust.answered_at is None else now - trust.answered_at,
                trust.error,
                self.position,
                self._cache.held_losses(now),
                len(self._cache.rows),
            )

    def has_taken_in(self, position: str, now: float) -> bool:
        """Whether changes up to this position were heard, and what they are about was read."""
        wanted = order(position)
        if wanted is None:
            raise InvalidInput(f"position: {position!r} is no id of the stream, such as '0-0'")
        with self._lock:
            heard = order(self.position or "")
            return (
                heard is not None
                and heard >= wanted
                and self._trust.error is None
                and self._cache.next_due() > now
            )

    def record(
        self,
        broker_name: str,
        latency_s: float,
        now: float,
        *,
        failed: bool,
        reachable: bool | None,
        generation: int | None,
    ) -> None:
        """Take in how an attempt ended; see FaultMemory.record."""
        counts = self.faults.record(
            broker_name, latency_s, failed=failed, now=now, reachable=reachable, generation=generation
        )
        if self.hinting is not None and counts:
            # Who refuses (attempts tell it by `reachable`, as RocketMQ does) has answered.
            self.hinting.ended(broker_name, now, answered=not failed or reachable is not None)

    def probed(self, broker_name: str, now: float, *, reachable: bool) -> None:
        """Take in how a probe ended."""
        self.faults.probed(broker_name, reachable=reachable, now=now)
        if self.hinting is not None:
            self.hinting.ended(broker_name, now, answered=reachable)

    def see(self, broker_name: str, now: float) -> tuple[str, bool]:
        """Return the position in the change stream, and whether a broker is to be left alone."""
        faults = self.faults
        return self.hearing.position or "", not faults.quiet and broker_name in faults.verdict(now).blocked

    def accept(self, now: float) -> None:
        """Believe the store's next answers, whatever they lack: an operator says so."""
        with self._lock:
            self._cache.accept(now)

    def forget(self, topics: Collection[str]) -> None:
        """Keep these topics fresh no more."""
        kept = self.config.default_topic
        with self._locked():
            self._cache.forget([topic for topic in topics if topic != kept])
            self._served.forget(topics)

    def close(self) -> None:
        """Let go of who waits for changes, and keep nothing ready: from now on nothing would be true."""
        self.watches.close()
        with self._lock:
            self._served.start_anew()

    @property
    def brokers_in_use(self) -> list[str]:
        """The brokers of the known routes."""
        with self._lock:
            return list(self._cache.groups)

    # --- what the follower does -----------------------------------------------------------------------------

    @property
    def position(self) -> str | None:
        """The position in the change stream; None before the first contact."""
        return self.hearing.position

    def wait_s(self, now: float) -> float:
        """Return for how long the follower may wait for a doorbell."""
        with self._lock:
            return max(0.0, min(self.hearing.tail_at, self._cache.next_due()) - now)

    def doorbell(self, message: bytes) -> None:
        """Take in a doorbell; empty = doorbells may have been missed."""
        with self._locked():
            self._take(self.hearing.rang(message))

    def tail_due(self, now: float) -> bool:
        """Whether the tail of the stream is to be read now."""
        with self._lock:
            return now >= self.hearing.tail_at

    def begin(self, position: str, now: float) -> None:
        """The follower found its place: from here on it hears of every change."""
        with self._locked():
            was_foreign = self.hearing.is_foreign
            self.hearing.begin(position, now)
            self._cache.begin()
            if was_foreign:
                self._cache.doubt(now)
            self._served.stop_borrowing()
            self._trust.answered(now)

    def offer_page(self, page: ChangePage, now: float) -> None:
        """Take in a page of the change stream."""
        with self._locked():
            self._report(page.corrupt)
            if self.hearing.is_foreign:  # what happened meanwhile stands nowhere
                page = replace(page, lost=True)
            if page.lost:
                self._trust.lost(self.position or "")
                self._cache.lose(now)
            else:
                self._take(page.changes)
                if page.corrupt:
                    self._trust.missed_changes()
                    self._served.stop_borrowing()
                    self._cache.doubt(now)
            self.hearing.read(page, now)
            self._trust.answered(now)

    def caught_up(self) -> None:
        """Everything that was due has been answered: trouble with the store is over."""
        if self._trust.error is not None:
            with self._locked():
                self._trust.caught_up()

    def feed_is_foreign(self, error: CorruptData, now: float) -> None:
        """The key of the stream holds something else: the table is read until it is put right."""
        with self._locked():
            self._report((error,))
            self._trust.missed_changes()
            if self.hearing.found_foreign(now):
                self._served.stop_borrowing()
                self._cache.doubt(now)
            self._trust.answered(now)

    def due(self, now: float) -> Request | None:
        """Return what is to be asked of the table now."""
        with self._lock:
            return self._cache.due(now)

    def offer(self, request: Request, answer: Lookup, now: float, took_s: float = 0.0) -> None:
        """Take in the answer to a request, and how long it took."""
        with self._locked():
            changed = self._cache.offer(request, answer, now)
            self._report(answer.corrupt)
            self._changed(changed)
            if request.full:
                # What is well again may be said anew; the stream was not read, and is one key.
                self._reported &= {self.keys.changes, *(error.key for error in answer.corrupt)}
                self._keeper.something_new()
            self._trust.confirmed(now, everything=request.full, heard=self.hearing.misses_nothing)
            self._trust.answered(now)
            self._served.confirm()
            self._flights.land(request.number, request.topics)
            if request.topics:
                self._telling.add(LookupDone(len(request.topics), len(answer.missing), took_s))

    def failed(self, error: Exception, now: float) -> float:
        """The store did not answer: said once, until it answers again. Returns seconds until the next try."""
        with self._locked():
            self.hearing.lost_touch()
            self._trust.failed(str(error))
            in_use, pause_s = list(self._cache.groups), self._pause_s()
        if self.hinting is not None:  # nobody confirms a suspicion any more
            self.hinting.heard({}, in_use, now)
        return pause_s

    # --- the snapshot ---------------------------------------------------------------------------------------

    def load_snapshot(self) -> None:
        """Begin with the snapshot file, if there is one that can be used. Waits for the disk."""
        known = self._keeper.load()
        if known is not None:
            with self._locked():
                self._cache.restore(known.rows, known.alive)
                self.hearing.resume(known.position)
                self._trust.begin("snapshot" if known.rows else "none")

    def save_due(self, now: float) -> bool:
        """Whether there is something new to write, and the last write is not a moment ago."""
        return self._keeper.due(now) and not self._cache.held

    def save_snapshot(self, now: float) -> None:
        """Write the snapshot file; a failure is told. Waits for the disk."""
        with self._lock:
            known = Snapshot(dict(self._cache.rows), dict(self._cache.alive), self.position)
            self._keeper.taken(now)
        self._keeper.save(known)

    # --- a copy of the process ------------------------------------------------------------------------------

    def hold_still(self) -> None:
        """Let nothing change until `go_on` or `start_anew`: the process is about to be copied."""
        self._lock.acquire()

    def go_on(self) -> None:
        """Change again: the copy was made."""
        self._lock.release()

    def start_anew(self) -> None:
        """This is the copy: what is known stays, what others do does not, and chance is another one."""
        self._rng.seed()
        self.faults = FaultMemory(self.config.faults, self._rng, self.tell)
        self.hinting = self._new_hinting()
        self._flights = Flights()
        self._telling.begin_copy()
        self.watches.abandon()
        self.watches = Watches()
        self._served.start_anew()
        self._trust.begin_copy()
        self.hearing.begin_copy()
        self._lock.release()

    # --- inside the lock ------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock, and tell afterwards what happened: an observer may ask for anything."""
        with self._lock:
            before, confirmed_at = self._cache.losses.held_back(), self._trust.confirmed_at
            yield
            self._trust.judge(self._cache.losses, before, confirmed_at)
        self._telling.go()

    def _pause_s(self) -> float:
        """Return seconds until the next try: growing pauses would keep in step who failed together."""
        if self._trust.failures <= 1:
            return self._rng.uniform(*_FIRST_PAUSE_S)
        longest_s = self.config.reconnect_s
        return self._rng.uniform(min(_SHORTEST_PAUSE_S, longest_s / 2), longest_s)

    def _new_hinting(self) -> Hinting | None:
        hints = self.config.hints
        return None if hints is None else Hinting(hints, self.faults, self.tell, self._rng)

    def _restart(self, broker_name: str) -> None:
        """A broker that was started anew begins with a clean slate."""
        self.faults.forget(broker_name)
        if self.hinting is not None:
            self.hinting.restarted(broker_name)

    def _route(self, topic: str) -> Route | None:
        as_of = self._trust.as_of(self._cache.answered_at(topic), held=self._cache.is_held(topic))
        return self._served.route(topic, as_of)

    def _take(self, changes: Iterable[Change]) -> None:
        changes = tuple(changes)
        self._telling.restarted(change.broker_name for change in changes if change.kind is ChangeKind.UP)
        self._changed(self._cache.take(changes))

    def _changed(self, topics: Collection[str]) -> None:
        if topics:
            self._served.change(topics)
            self._keeper.something_new()
            self.watches.tell(topics)
            self._telling.add(RoutesChanged(tuple(topics)))

    def _report(self, corrupt: Iterable[CorruptData]) -> None:
        for error in corrupt:
            if error.key not in self._reported:
                self._reported.add(error.key)
                _log.error("a key of the registry is corrupt, the rest is served: %s", error)
