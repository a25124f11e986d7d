"""The route client for threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from contextlib import closing
from time import monotonic
from types import TracebackType
from typing import Self

from ..registry.checks import several
from ..registry.errors import CorruptData, RegistryError, StoreRefused
from ..registry.following.core import MOST_AT_ONCE, NAP_S
from ..registry.model import MessageQueue, TopicRoute
from ..registry.plans import last_change_id
from ..registry.store import Doorbell, RedisClient, RouteStore
from ..registry.sweeping import Sweeper
from .attempts import AttemptLog, Attempts, RetryPolicy
from .config import ClientConfig
from .core import Avoid, ClientCore, Health
from .errors import NoRoute

__all__ = ["RouteClient"]

_log = logging.getLogger("sharedroutes.client")


class RouteClient:
    """Routes, kept fresh by a background thread from start() to close(); thread-safe.

    Methods that need a topic that is not known yet read it once, within the call deadline.
    """

    def __init__(self, store: RouteStore, config: ClientConfig, *, owns_store: bool = False) -> None:
        self.config = config
        self._core = ClientCore(config)
        self._views = self._core.views
        self._faults = self._core.faults
        self._store = store
        self._owns_store = owns_store
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._sweeper = Sweeper(store) if config.sweep else None

    @classmethod
    def from_url(cls, url: str, config: ClientConfig | None = None) -> Self:
        """Return a client for a store URL (RouteStore.from_url); connects when started."""
        config = config or ClientConfig()
        return cls(RouteStore.from_url(url, config.registry), config, owns_store=True)

    @classmethod
    def from_client(cls, client: RedisClient, config: ClientConfig | None = None) -> Self:
        """Return a client over a redis.Redis or RedisCluster that stays the caller's."""
        config = config or ClientConfig()
        return cls(RouteStore.from_client(client, config.registry), config)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Read the snapshot, if any, and begin to follow the registry; does nothing when it has begun.

        Raises RuntimeError after close().
        """
        with self._starting:
            if self._stopping.is_set():
                raise RuntimeError("the route client was closed: make a new one")
            if self._thread is None:
                self._core.load_snapshot()
                self._thread = threading.Thread(target=self._follow, name="sharedroutes-client", daemon=True)
                self._thread.start()
                if self._sweeper is not None:
                    self._sweeper.start()

    def close(self) -> None:
        """Stop following and close the store if it is the client's own."""
        with self._starting:
            self._stopping.set()
        if self._thread is not None:
            # A store that hangs lets go of the follower at its deadline; a daemon thread outlives nobody.
            self._thread.join(self.config.registry.call_deadline_s + 1)
        if self._sweeper is not None:
            self._sweeper.close()
        if self._owns_store:
            self._store.close()

    def select_queue(self, topic: str, avoid: Avoid = None) -> MessageQueue:
        """Return the queue of a topic whose turn it is, not of a broker that fails, nor of one to `avoid`.

        Raises NoRoute, and StoreUnavailable or StoreRefused for a topic that is not known yet.
        """
        view = self._views.get(topic)
        if view is not None and avoid is None and self._faults.quiet and view.size:
            return view.queues[next(view.turns) % view.size]
        if view is None:
            view = self._core.view(topic)
        if view is None:
            self._learn((topic,))
            view = self._core.view(topic)
            if view is None:
                raise NoRoute(topic, "no live broker holds")
        return self._core.pick(topic, view, avoid, monotonic())

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all readable queues of a topic. Raises as select_queue."""
        self.route(topic)
        return self._core.subscribe_queues(topic) or ()

    def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic. Raises as select_queue."""
        route = self._core.route(topic)
        if route is None:
            self._learn((topic,))
            route = self._core.route(topic)
            if route is None:
                raise NoRoute(topic, "no live broker holds")
        return route

    def get(self, topics: Iterable[str]) -> dict[str, TopicRoute]:
        """Return the routes of those topics that a live broker holds; reads all unknown ones at once.

        Raises StoreUnavailable or StoreRefused when some topic is not known yet and cannot be read.
        """
        topics = several(topics)
        self._learn(topics)
        return self._core.routes(topics)

    def attempts(self, topic: str, retries: int | None = None, policy: RetryPolicy | None = None) -> Attempts:
        """Return the attempts at one operation, each with a queue: see README.

        Raises NoRoute and AttemptsFailed while it is iterated.
        """
        log = AttemptLog(topic, RetryPolicy.of(policy, retries), self.record)
        return Attempts(log, lambda failed: self.select_queue(topic, failed or None))

    def record(self, broker_name: str, latency_s: float, *, failed: bool = False) -> None:
        """Tell how long a broker took to answer, or to fail; `attempts` does it by itself."""
        self._faults.record(broker_name, latency_s, failed=failed, now=monotonic())

    def health(self) -> Health:
        """Return how far the client's view can be trusted."""
        return self._core.health(monotonic())

    def _learn(self, topics: Iterable[str]) -> None:
        running = self._thread is not None and self._thread.is_alive()  # not so in a forked child
        if not running or self._stopping.is_set():
            raise RuntimeError("the route client does not run: use `with`, or call start()")
        request = self._core.question(topics, monotonic())
        if request is not None:
            answer = self._store.lookup(request.topics, request.known, request.anew)
            self._core.offer(request, answer, monotonic())

    def _follow(self) -> None:
        """Keep the view fresh until close(); whatever the store does, this goes on."""
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            try:
                with closing(self._store.doorbell()) as doorbell:
                    while not self._stopping.is_set():
                        self._listen(doorbell)
                        self._catch_up()
            except RegistryError as error:
                pause_s = self._core.failed(error)
            except Exception as error:  # noqa: BLE001 - a follower that dies would freeze the view for good
                _log.exception("a fault in the follower; it begins anew")
                pause_s = self._core.failed(error)

    def _listen(self, doorbell: Doorbell) -> None:
        """Wait for a doorbell until something is due, then take in what rang meanwhile."""
        timeout_s = min(self._core.wait_s(monotonic()), NAP_S)
        if self._core.deaf(monotonic()):
            self._stopping.wait(timeout_s)
            return
        for _ in range(MOST_AT_ONCE):  # a steady stream of changes must not keep us from reading what is due
            try:
                message = doorbell.wait(timeout_s)
            except StoreRefused as error:
                self._core.doorbell_refused(error, monotonic())
                break
            if message is None:
                break
            self._core.doorbell(message)
            timeout_s = 0.0

    def _catch_up(self) -> None:
        """Read what is due: our place in the stream, its tail, the table."""
        core, store = self._core, self._store
        if core.tail_due(monotonic()):
            try:
                if core.position is not None:
                    core.offer_page(store.changes_since(core.position), monotonic())
                if core.position is None:  # before the table is read: the feed tells of what changes after it
                    core.begin(store.run(last_change_id(store.keys)), monotonic())
            except CorruptData as error:
                core.feed_is_foreign(error, monotonic())
        request = core.due(monotonic())
        if request is not None:
            core.offer(request, store.lookup(request.topics, request.known, request.anew), monotonic())
        core.caught_up()
        if core.save_due(monotonic()):
            core.save_snapshot(monotonic())
