"""The cache of a client behind its lock, with all that follows from a change of it."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

from ..registry.change_stream.stream import StreamPosition
from ..registry.codec import RowChange
from ..registry.errors import CorruptData
from ..registry.keys import Keys
from ..registry.model import Change, ChangeKind
from ..registry.plans import Lookup
from .cache import NO_ROWS, Request, RouteCache
from .changes import Watches
from .config import ClientConfig
from .flights import Flights
from .health import Freshness
from .observers import Event, Tell
from .observers.events import LookupDone, RoutesChanged
from .routes import ReadyRoutes, Route
from .snapshot import SnapshotFile

_log: Final = logging.getLogger("sharedroutes.client")

Feed: TypeAlias = Callable[[Sequence[Change] | None], None]
"""Is given the changes of the registry that a client takes in; None = some may have been missed."""


class EventQueue:
    """Calls to make when a lock is free again: an observer may ask for anything that takes it."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._calls: list[Callable[[], None]] = []
        self._is_calling = False

    def add(self, call: Callable[[], None]) -> None:
        """Make a call later; the lock is held."""
        self._calls.append(call)

    def call(self) -> None:
        """Make all calls, in order: what one of them causes comes after those that were waiting with it."""
        while self._calls:
            with self._lock:
                if self._is_calling or not self._calls:
                    return
                self._is_calling = True
                calls, self._calls = self._calls, []
            try:
                for call in calls:
                    call()
            finally:
                self._is_calling = False

    def begin_copy(self) -> None:
        """Forget what happened in the process that this one is a copy of: it is told there."""
        self._calls = []
        self._is_calling = False


class LockedCache:
    """What a client knows; `tell` is given every change of it, `restart` the brokers that were restarted.

    Its parts are read with `lock`, and changed in `changing`. Every `now` is monotonic seconds.
    """

    def __init__(
        self, config: ClientConfig, rng: random.Random, tell: Tell, restart: Callable[[str, float], None]
    ) -> None:
        keys = Keys(config.registry.namespace)
        self.lock = threading.Lock()
        self._tell = tell
        self._restart = restart
        self._events = EventQueue(self.lock)
        self.cache = RouteCache(config, rng)
        self.table = self.cache.table
        self.routes = ReadyRoutes(config, self.table, rng)
        self.freshness = Freshness(self.tell)
        self.stream = StreamPosition(
            keys.changes, config.tail_s, _log.info, rng, proven_tail_s=config.proven_tail_s
        )
        self.flights = Flights()
        self.file = SnapshotFile(config, keys.namespace, tell)
        self.watches = Watches()
        self.feed: Feed | None = None
        self._reported: set[str] = set()
        self._unread: dict[str, float | None] = {}
        """By topic whose key is corrupt: when the store had last confirmed what is known of it."""

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock, and tell afterwards what happened: an observer may ask for anything."""
        with self.lock:
            confirmed_at = self.freshness.confirmed_at
            yield
            self.freshness.judge(self.cache.losses, confirmed_at)
        self._events.call()

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic by what is known; the lock is held."""
        return self.routes.route(topic, self._as_of(topic))

    def _as_of(self, topic: str) -> float | None:
        if topic in self._unread:
            return self._unread[topic]
        held = self.cache.losses.is_held(topic, self.table.brokers_of(topic))
        return self.freshness.as_of(self.cache.answered.get(topic), held=held)

    def offer(self, request: Request, answer: Lookup, now: float, took_s: float = 0.0) -> None:
        """Take in the answer to a request, and how long it took."""
        with self.changing():
            self._note_unread(request, answer)
            changed = self.cache.offer(request, answer, now)
            self.report(answer.corrupt)
            self._changed(changed)
            if request.full:
                # What is well again may be said anew; the stream was not read, and is one key.
                self._reported &= {self.stream.key, *(error.key for error in answer.corrupt)}
                self.file.something_new()
            self.freshness.confirmed(now, everything=request.full, heard=self.stream.misses_nothing)
            self.freshness.answered(now)
            self.routes.confirm()
            self.flights.land(request.number, request.topics)
            if request.topics:
                self.tell(LookupDone(len(request.topics), len(answer.missing), took_s))

    def _note_unread(self, request: Request, answer: Lookup) -> None:
        for topic in request.topics if answer.corrupt or self._unread else ():
            if topic in answer.rows or topic in answer.missing:
                self._unread.pop(topic, None)
            else:
                self._unread.setdefault(topic, self._as_of(topic))

    def take(self, changes: Iterable[Change], now: float, rows: Mapping[str, RowChange] = NO_ROWS) -> None:
        """Take in changes of the stream, or one and the rows that its doorbell brings; the lock is held."""
        changes = tuple(changes)
        for change in changes:
            if change.kind is ChangeKind.UP:
                self._events.add(partial(self._restart, change.broker_name, now))
        self._changed(self.cache.take(changes, rows))
        if changes and self.feed is not None:
            self._events.add(partial(self.feed, changes))

    def prove(self, now: float) -> None:
        """Take in that nothing was missed, and that leases which ended were announced; the lock is held."""
        if self.freshness.error is None:
            self.cache.prove(now)
            self.freshness.confirmed(now, everything=False, heard=True)
            self.freshness.answered(now)
            self.routes.confirm()

    def begin(self) -> None:
        """Take in that the stream has a place, from which on changes are told; the lock is held."""
        self.cache.begin()
        self._missed()

    def lose(self, changes: Collection[Change], now: float) -> None:
        """Take in that the stream has lost our place, and what it has told since; the lock is held.

        Who withdrew meanwhile is not held back as something that the store may have lost.
        """
        self._changed(self.cache.lose(now, changes))
        self._missed()

    def doubt(self, now: float) -> None:
        """Take in that changes went by unheard, so that all is to be read again; the lock is held."""
        self.routes.stop_borrowing()
        self.cache.doubt(now)
        self._missed()

    def report(self, corrupt: Iterable[CorruptData]) -> None:
        """Log corrupt keys, each once; the lock is held."""
        for error in corrupt:
            if error.key not in self._reported:
                self._reported.add(error.key)
                _log.error("a key of the registry is corrupt, the rest is served: %s", error)

    def begin_copy(self) -> None:
        """Begin anew in a copy of the process: what is known stays, what others do does not."""
        self.flights = Flights()
        self._events.begin_copy()
        self.watches.begin_copy()
        self.routes.start_anew()
        self.freshness.begin_copy()
        self.stream.begin_copy()

    def _missed(self) -> None:
        if self.feed is not None:
            self._events.add(partial(self.feed, None))

    def _changed(self, topics: Collection[str]) -> None:
        if topics:
            self.routes.change(topics)
            self.file.something_new()
            self.watches.tell(topics)
            self.tell(RoutesChanged(tuple(topics)))

    def tell(self, event: Event) -> None:
        """Tell observers when the lock is free again; the lock is held."""
        self._events.add(partial(self._tell, event))
