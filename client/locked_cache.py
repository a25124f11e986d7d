"""The cache of a client behind its lock, with all that follows from a change of it."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ..registry.change_stream.stream import StreamPosition
from ..registry.errors import CorruptData
from ..registry.keys import Keys
from ..registry.model import Change, ChangeKind
from ..registry.plans import Lookup
from .cache import Request, RouteCache
from .changes import Watches
from .config import ClientConfig
from .flights import Flights
from .health import Freshness
from .observers import Event, Tell
from .observers.events import LookupDone, RoutesChanged
from .routes import ReadyRoutes, Route
from .snapshot import SnapshotFile

_log: Final = logging.getLogger("sharedroutes.client")


class EventQueue:
    """What is to be told when a lock is free: an observer may ask for anything that takes it.

    `add` and `restarted` are called with the lock, `tell` without it. `restart` is called for a broker that
    was started anew, before the events are told.
    """

    def __init__(self, lock: threading.Lock, tell: Tell, restart: Callable[[str], None]) -> None:
        self._lock = lock
        self._tell = tell
        self._restart = restart
        self._restarted: list[str] = []
        self._events: list[Event] = []
        self._is_telling = False

    def add(self, event: Event) -> None:
        """Tell of an event later."""
        self._events.append(event)

    def restarted(self, broker_names: Iterable[str]) -> None:
        """Take in that these brokers were started anew."""
        self._restarted.extend(broker_names)

    def tell(self) -> None:
        """Tell all: what an observer causes comes after what it is told just now."""
        while self._restarted or self._events:
            with self._lock:
                if self._is_telling or not (self._restarted or self._events):
                    return
                self._is_telling = True
                restarted, events = [*self._restarted], [*self._events]
                self._restarted.clear()
                self._events.clear()
            try:
                for broker_name in restarted:
                    self._restart(broker_name)
                for event in events:
                    self._tell(event)
            finally:
                self._is_telling = False

    def begin_copy(self) -> None:
        """Forget what happened in the process that this one is a copy of: it is told there."""
        self._events.clear()
        self._is_telling = False


class LockedCache:
    """What a client knows, and who is told when it changes.

    Its parts are read with `lock`, and changed in `changing`. Every `now` is monotonic seconds.
    """

    def __init__(
        self, config: ClientConfig, rng: random.Random, tell: Tell, restart: Callable[[str], None]
    ) -> None:
        keys = Keys(config.registry.namespace)
        self.lock = threading.Lock()
        self.events = EventQueue(self.lock, tell, restart)
        self.cache = RouteCache(config, rng)
        self.table = self.cache.table
        self.routes = ReadyRoutes(config, self.table, rng)
        self.freshness = Freshness(self.events.add)
        self.stream = StreamPosition(keys.changes, config.tail_s, _log.info, rng)
        self.flights = Flights()
        self.file = SnapshotFile(config, keys.namespace, tell)
        self.watches = Watches()
        self._reported: set[str] = set()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock, and tell afterwards what happened: an observer may ask for anything."""
        with self.lock:
            losses, freshness = self.cache.losses, self.freshness
            before, confirmed_at = losses.held_back(), freshness.confirmed_at
            yield
            freshness.judge(losses, before, confirmed_at)
        self.events.tell()

    def route(self, topic: str) -> Route | None:
        """Return the route of a topic by what is known; the lock is held."""
        held = self.cache.losses.is_held(topic, self.table.brokers_of(topic))
        return self.routes.route(topic, self.freshness.as_of(self.cache.answered.get(topic), held=held))

    def offer(self, request: Request, answer: Lookup, now: float, took_s: float = 0.0) -> None:
        """Take in the answer to a request, and how long it took."""
        with self.changing():
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
                self.events.add(LookupDone(len(request.topics), len(answer.missing), took_s))

    def take(self, changes: Iterable[Change]) -> None:
        """Take in changes of the stream; the lock is held."""
        changes = tuple(changes)
        self.events.restarted(change.broker_name for change in changes if change.kind is ChangeKind.UP)
        self._changed(self.cache.take(changes))

    def doubt(self, now: float) -> None:
        """Take in that changes went by unheard, so that all is to be read again; the lock is held."""
        self.routes.stop_borrowing()
        self.cache.doubt(now)

    def report(self, corrupt: Iterable[CorruptData]) -> None:
        """Log corrupt keys, each once; the lock is held."""
        for error in corrupt:
            if error.key not in self._reported:
                self._reported.add(error.key)
                _log.error("a key of the registry is corrupt, the rest is served: %s", error)

    def begin_copy(self) -> None:
        """Begin anew in a copy of the process: what is known stays, what others do does not."""
        self.flights = Flights()
        self.events.begin_copy()
        self.watches.begin_copy()
        self.routes.start_anew()
        self.freshness.begin_copy()
        self.stream.begin_copy()

    def _changed(self, topics: Collection[str]) -> None:
        if topics:
            self.routes.change(topics)
            self.file.something_new()
            self.watches.tell(topics)
            self.events.add(RoutesChanged(tuple(topics)))
