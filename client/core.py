"""All that a route client decides, for threads and for asyncio; the clients only do the I/O."""

from __future__ import annotations

import itertools
import logging
import random
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ..registry.errors import CorruptData, StoreRefused
from ..registry.following.core import REFUSED_PAUSE_S, pause_s
from ..registry.following.feed import Feed
from ..registry.keys import Keys
from ..registry.model import Change, ChangeKind, MessageQueue, TopicRoute
from ..registry.plans import ChangePage, Lookup
from . import snapshot
from .cache import Request, RouteCache
from .config import ClientConfig
from .errors import NoRoute
from .faults import FaultMemory
from .views import PublishView, publish_queues, subscribe_queues

__all__ = ["Avoid", "ClientCore", "Health"]

_log = logging.getLogger("sharedroutes.client")

_NOBODY: Final[frozenset[str]] = frozenset()
_SAVE_S: Final = 1.0

_SPREAD: Final = 1_024
"""Producers begin at a random queue (RocketMQ: ThreadLocalIndex), so that they do not march in step."""


Avoid: TypeAlias = str | Collection[str] | None
"""A broker, or several, not to choose if there is another."""


@dataclass(frozen=True, slots=True)
class Health:
    """How far a client's view can be trusted."""

    source: Literal["none", "live", "memory", "snapshot"]
    """live: the store answers; memory: it did; snapshot: it has not answered since the start."""

    age_s: float | None
    """Seconds since the store last answered; None = it never did."""

    last_error: str | None
    """Why the store does not answer now; None = it does."""

    position: str | None
    """The id of the last change that was taken in."""

    held: tuple[str, ...]
    """Brokers and topics that are served although the store's last answer lacked them."""

    topics: int
    """Topics in the cache."""


class ClientCore:
    """Cache, feed, faults and views of one client, behind one lock; every `now` is monotonic seconds."""

    def __init__(self, config: ClientConfig, rng: random.Random | None = None) -> None:
        self.config = config
        self.keys = Keys(config.registry.namespace)
        self.faults = FaultMemory(config.ladder)
        self.views: dict[str, PublishView] = {}
        """Ready views by topic; a change of the route removes them. Read without the lock."""

        self._rng = rng or random.Random()
        self._lock = threading.Lock()
        self._cache = RouteCache(config, self._rng)
        self._feed = Feed(self.keys.changes)
        self._must_read = True
        self._deaf_until = 0.0
        self._tail_at = 0.0
        self._turns: dict[str, itertools.count[int]] = {}
        self._answered_at: float | None = None
        self._error: str | None = None
        self._failures = 0
        self._reported: set[str] = set()
        self._unsaved = False
        self._save_at = 0.0

    # --- what callers ask -----------------------------------------------------------------------------------

    def view(self, topic: str) -> PublishView | None:
        """Return the view of a topic by what is known, if it is known."""
        with self._lock:
            route = self._cache.route(topic)
            if route is None:
                return None
            turns = self._turns.setdefault(topic, itertools.count(self._rng.randrange(_SPREAD)))
            view = self.views[topic] = PublishView(publish_queues(route), turns)
            return view

    def pick(self, topic: str, view: PublishView, avoid: Avoid, now: float) -> MessageQueue:
        """Return the queue whose turn it is; raises NoRoute when there is none at all."""
        if not view.size:
            raise NoRoute(topic, "no live master accepts messages for")
        avoided = _NOBODY if avoid is None else frozenset((avoid,) if isinstance(avoid, str) else avoid)
        return view.pick(self.faults.blocked(now), avoided)

    def route(self, topic: str) -> TopicRoute | None:
        """Return the route of a topic by what is known."""
        with self._lock:
            return self._cache.route(topic)

    def routes(self, topics: Iterable[str]) -> dict[str, TopicRoute]:
        """Return the routes of those topics of which one is known."""
        found = {topic: self.route(topic) for topic in topics}
        return {topic: route for topic, route in found.items() if route is not None}

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """Return the readable queues of a topic by what is known, if it is known."""
        route = self.route(topic)
        return None if route is None else subscribe_queues(route)

    def question(self, topics: Iterable[str], now: float) -> Request | None:
        """Return what to ask the store to learn about topics that are not known; None = asked just now."""
        with self._lock:
            unknown = [
                topic
                for topic in topics
                if self._cache.route(topic) is None and not self._cache.was_asked(topic, now)
            ]
            return self._cache.request(unknown) if unknown else None

    def health(self, now: float) -> Health:
        """Return how far the view can be trusted."""
        with self._lock:
            source: Literal["none", "live", "memory", "snapshot"]
            if self._answered_at is None:
                source = "snapshot" if self._cache.rows else "none"
            else:
                source = "live" if self._error is None else "memory"
            return Health(
                source,
                None if self._answered_at is None else now - self._answered_at,
                self._error,
                self._feed.position,
                tuple(sorted(self._cache.held)),
                len(self._cache.rows),
            )

    # --- what the follower does -----------------------------------------------------------------------------

    @property
    def position(self) -> str | None:
        """The position in the change stream; None before the first contact."""
        return self._feed.position

    def wait_s(self, now: float) -> float:
        """Return for how long the follower may wait for a doorbell."""
        with self._lock:
            due = 0.0 if self._must_read else min(self._tail_at, self._cache.next_due())
            return max(0.0, due - now)

    def doorbell(self, message: bytes) -> None:
        """Take in a doorbell; empty = doorbells may have been missed."""
        with self._lock:
            changes = self._feed.doorbell(message)
            if changes is None:
                self._must_read = True
            else:
                self._take(changes)

    def doorbell_refused(self, error: StoreRefused, now: float) -> None:
        """The store gives no doorbell to this user: the tail is read every `tail_s` all the same."""
        if self._deaf_until == 0.0:
            _log.info("no doorbell, the changes are read every %s s: %s", self.config.tail_s, error)
        self._deaf_until = now + REFUSED_PAUSE_S

    def deaf(self, now: float) -> bool:
        """Whether to do without a doorbell for now: rights can be granted later."""
        return now < self._deaf_until

    def tail_due(self, now: float) -> bool:
        """Whether the tail of the stream is to be read now."""
        with self._lock:
            return self._must_read or now >= self._tail_at

    def begin(self, position: str, now: float) -> None:
        """The follower found its place: from here on it hears of every change."""
        with self._lock:
            self._feed.position = position
            self._cache.begin()
            self._must_read = False
            self._tail_at = now + self.config.tail_s
            self._answered(now)

    def offer_page(self, page: ChangePage, now: float) -> None:
        """Take in a page of the change stream."""
        with self._lock:
            self._report(page.corrupt)
            if page.lost:
                _log.warning("the store lost changes after %s: all is read again", self._feed.position)
                self._feed.position = None
                self._cache.lose(now)
            else:
                self._feed.position = page.position
                self._take(page.changes)
                if page.corrupt:
                    self._cache.doubt(now)
            self._must_read = page.lost or not page.complete
            self._tail_at = now + self.config.tail_s
            self._answered(now)

    def caught_up(self) -> None:
        """Everything that was due has been answered: trouble with the store is over."""
        with self._lock:
            if self._error is not None:
                _log.info("the store answers again")
                self._error = None
                self._failures = 0

    def feed_is_foreign(self, error: CorruptData, now: float) -> None:
        """The key of the stream holds something else: until it is put right, only the table is read."""
        with self._lock:
            self._report((error,))
            self._must_read = False
            self._tail_at = now + self.config.tail_s
            self._answered(now)

    def due(self, now: float) -> Request | None:
        """Return what is to be asked of the table now."""
        with self._lock:
            return self._cache.due(now)

    def offer(self, request: Request, answer: Lookup, now: float) -> None:
        """Take in the answer to a request."""
        with self._lock:
            changed = self._cache.offer(request, answer, now)
            self._report(answer.corrupt)
            self._drop_views(changed)
            self._unsaved = self._unsaved or bool(changed) or request.full
            self._answered(now)

    def failed(self, error: Exception) -> float:
        """The store did not answer: said once, until it answers again. Returns seconds until the next try."""
        with self._lock:
            self._must_read = True
            if self._error is None:
                _log.warning("the store does not answer, serving the last known routes: %s", error)
            self._error = str(error)
            self._failures += 1
            return pause_s(self._failures, self._rng)

    # --- the snapshot ---------------------------------------------------------------------------------------

    def load_snapshot(self) -> None:
        """Read the snapshot file, if one is configured; what cannot be used is said and left alone."""
        path = self.config.snapshot_path
        if path is None:
            return
        try:
            known = snapshot.decode(self.keys.namespace, path.read_bytes())
        except FileNotFoundError:
            return
        except (snapshot.SnapshotError, OSError) as error:
            _log.warning("the snapshot %s is not used: %s", path, error)
            return
        with self._lock:
            self._cache.restore(known.rows, known.alive)
            self._feed.position = known.position

    def save_due(self, now: float) -> bool:
        """Whether there is something new to write, and the last write is not a moment ago."""
        return (
            self.config.snapshot_path is not None
            and self._unsaved
            and not self._cache.held
            and now >= self._save_at
        )

    def save_snapshot(self, now: float) -> None:
        """Write the snapshot file; a failure is said. Waits for the disk."""
        path = self.config.snapshot_path
        if path is None:
            return
        with self._lock:
            self._unsaved = False
            self._save_at = now + _SAVE_S
            known = snapshot.Snapshot(dict(self._cache.rows), dict(self._cache.alive), self._feed.position)
        try:
            snapshot.write(path, snapshot.encode(self.keys.namespace, known))
        except OSError as error:
            _log.warning("the snapshot %s cannot be written: %s", path, error)

    # --- inside the lock ------------------------------------------------------------------------------------

    def _take(self, changes: Iterable[Change]) -> None:
        changes = tuple(changes)
        for change in changes:
            if change.kind is ChangeKind.UP:  # a broker that was started anew begins with a clean slate
                self.faults.forget(change.broker_name)
        changed = self._cache.take(changes)
        self._drop_views(changed)
        self._unsaved = self._unsaved or bool(changed)

    def _drop_views(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self.views.pop(topic, None)

    def _answered(self, now: float) -> None:
        self._answered_at = now

    def _report(self, corrupt: Iterable[CorruptData]) -> None:
        for error in corrupt:
            if error.key not in self._reported:
                self._reported.add(error.key)
                _log.error("a key of the registry is corrupt, the rest is served: %s", error)
