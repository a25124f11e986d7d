"""The route client for threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import closing
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self

from ..registry.change_stream.core import MOST_AT_ONCE, NAP_S
from ..registry.checks import check_name, check_names, several
from ..registry.connection.links import RedisClient
from ..registry.errors import CorruptData, RegistryError, StoreRefused
from ..registry.model import MessageQueue
from ..registry.plans import last_change_id
from ..registry.plans.expiry import server_time
from ..registry.store import Doorbell, RouteStore
from ..registry.sweeper import Sweeper
from .attempts.attempt import Attempts, Select, Sending
from .attempts.policy import RetryPolicy
from .base import RouteClientBase
from .cache import Request
from .config import ClientConfig
from .core import NOBODY, Avoid
from .detector import detect
from .errors import NoRoute
from .flights import Flight, all_arrived
from .forks import survives_forks
from .listening import Changes, Listener, listen
from .route import Route
from .selection import PublishView, subscribe_queues

_log = logging.getLogger("sharedroutes.client")


class RouteClient(RouteClientBase):
    """Routes, kept fresh by a background thread from start() to close(); thread-safe, and safe to fork.

    Methods that need a topic that is not known yet read it once, within the call deadline.
    """

    def __init__(self, store: RouteStore, config: ClientConfig, *, owns_store: bool = False) -> None:
        super().__init__(config)
        self._store = store
        self._owns_store = owns_store
        self._starting = threading.Lock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sweeper: Sweeper | None = None
        survives_forks(self)

    @classmethod
    def from_url(cls, url: str, config: ClientConfig | None = None, *, namespace: str | None = None) -> Self:
        """Return a client for a store URL (RouteStore.from_url); connects when started.

        `namespace`: which registry of the store; None = as the settings say. Raises InvalidInput.
        """
        config = ClientConfig.of(config, namespace)
        return cls(RouteStore.from_url(url, config.registry), config, owns_store=True)

    @classmethod
    def from_client(
        cls, client: RedisClient, config: ClientConfig | None = None, *, namespace: str | None = None
    ) -> Self:
        """Return a client over a redis.Redis or RedisCluster that stays the caller's.

        `namespace`: as from_url. Raises InvalidInput.
        """
        config = ClientConfig.of(config, namespace)
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
            if not self._threads:
                if not self._is_copy:
                    self._core.load_snapshot()
                self._run()
                self._is_copy = False

    def close(self) -> None:
        """Stop following and close the store if it is the client's own."""
        with self._starting:
            self._stopping.set()
        self._core.close()
        for thread in self._threads:
            if thread is not threading.current_thread():  # an observer may close the client
                # A store that hangs lets go of the follower at its deadline; a daemon thread outlives nobody.
                thread.join(self.config.registry.call_deadline_s + 1)
        if self._sweeper is not None:
            self._sweeper.close()
        if self._owns_store:
            self._store.close()

    # --- choosing -------------------------------------------------------------------------------------------

    def select_queue(
        self, topic: str, avoid: Avoid = None, *, key: str | bytes | None = None
    ) -> MessageQueue:
        """Return the queue of a topic whose turn it is, not of a broker that fails, nor of one to `avoid`.

        With a `key`, the queue of this message group: the same for all clients while its broker is well.
        Raises NoRoute, StoreUnavailable or StoreRefused for a topic that is not known yet, and InvalidInput
        for what cannot be a name.
        """
        view = self._views.get(topic)
        if view is not None and avoid is None and key is None and self._faults.quiet and view.length:
            return view.schedule[next(view.turns) % view.length]
        avoided = NOBODY if avoid is None else self._core.avoided(avoid)
        return self._core.pick(topic, view or self._view(topic), avoided, monotonic(), key)

    def attempts(
        self,
        topic: str,
        retries: int | None = None,
        policy: RetryPolicy | None = None,
        *,
        key: str | bytes | None = None,
    ) -> Attempts:
        """Return the attempts at one operation, each with a queue: see docs/client.md.

        Raises NoRoute and AttemptsFailed while it is iterated.
        """
        return Attempts(self._log(topic, retries, policy), self._chooser(topic, key))

    def sending(
        self,
        topic: str,
        retries: int | None = None,
        policy: RetryPolicy | None = None,
        *,
        key: str | bytes | None = None,
    ) -> Sending:
        """Return the first attempt at an operation whose end a callback tells. Raises as select_queue."""
        return Sending.begin(self._log(topic, retries, policy), self._chooser(topic, key))

    # --- looking --------------------------------------------------------------------------------------------

    def route(self, topic: str) -> Route:
        """Return the route of a topic. Raises as select_queue."""
        route = self._routes.get(topic)
        if route is None and not (self._is_copy or self._stopping.is_set()):
            route = self._core.route(topic)
        if route is None:
            check_name("topic", topic)
            self._learn((topic,))
            route = self._core.route(topic)
            if route is None:
                raise NoRoute(topic, "no live broker holds")
        return route

    def get(self, topics: Iterable[str]) -> dict[str, Route]:
        """Return the routes of those topics that a live broker holds; reads all unknown ones at once.

        Raises StoreUnavailable or StoreRefused when some topic is not known yet and cannot be read.
        """
        topics = several(topics)
        ready = self._routes
        if not all(topic in ready for topic in topics):
            self._learn(check_names("topics", topics))
        found = {topic: ready.get(topic) or self._core.route(topic) for topic in topics}
        return {topic: route for topic, route in found.items() if route is not None}

    def prefetch(self, topics: Iterable[str]) -> None:
        """Read topics at once that will be needed, so that their first use need not wait. Raises as get."""
        self._learn(check_names("topics", topics))

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all readable queues of a topic. Raises as select_queue."""
        return subscribe_queues(self.route(topic))

    def watch(self, topics: Iterable[str] | None = None) -> Changes:
        """Yield the routes of topics as they are now, and each change, until the client is closed.

        Without topics: the changes of all that are known. A route that changed several times since it was
        looked at is yielded once, as it is then. Raises as get.
        """
        names = None if topics is None else check_names("topics", topics)
        self._learn(names or ())
        return Changes(self._core, names)

    def on_change(self, listener: Listener, topics: Iterable[str] | None = None) -> Callable[[], None]:
        """Call a listener at each change of these topics, or of all known ones; return what ends that.

        It is called on a thread of its own, and may take its time; what it raises is logged.
        """
        names = None if topics is None else check_names("topics", topics)
        self._learn(names or ())
        return listen(self._core, names, listener)

    # --- forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Let nothing change while the process is copied."""
        self._starting.acquire()
        self._core.hold_still()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._core.go_on()
        self._starting.release()

    def after_fork_in_child(self) -> None:
        """Begin anew at the first use: threads are not copied, and locks may be held by them."""
        was_stopping, self._stopping = self._stopping.is_set(), threading.Event()
        if was_stopping:
            self._stopping.set()
        self._is_copy = (self._is_copy or bool(self._threads)) and not was_stopping
        self._threads = []
        self._sweeper = None
        self._core.start_anew()
        self._faults = self._core.faults
        self._starting.release()

    # --- inside ---------------------------------------------------------------------------------------------

    def _chooser(self, topic: str, key: str | bytes | None) -> Select:
        def choose(failed: frozenset[str], until: float) -> MessageQueue:
            view = self._views.get(topic) or self._view(topic, until)
            return self._core.pick(topic, view, failed, monotonic(), key)

        return choose

    def _view(self, topic: str, until: float = inf) -> PublishView:
        view = None if self._is_copy or self._stopping.is_set() else self._core.view(topic)
        if view is None:
            check_name("topic", topic)
            self._learn((topic,), until)
            view = self._core.view(topic)
            if view is None:
                raise NoRoute(topic, "no live broker holds")
        return view

    def _learn(self, topics: Iterable[str], until: float = inf) -> None:
        """Make topics known that are not; each is asked for once, however many threads need it.

        Raises StoreTimeout when it takes longer than `until`.
        """
        if self._is_copy:
            self.start()
        running = any(thread.is_alive() for thread in self._threads)
        if not running or self._stopping.is_set():
            raise RuntimeError("the route client does not run: use `with`, or call start()")
        while True:
            question = self._core.question(topics, monotonic())
            flights = question.flights
            if question.request is not None and until == inf:
                self._ask(question.request)
            elif question.request is not None:
                flights.append(self._ask_aside(question.request))
            # Who asked for us and was interrupted has no answer: then it is our turn.
            if all_arrived(flights, topics, until):
                return

    def _ask(self, request: Request) -> None:
        try:
            self._look(request)
        except BaseException as error:
            self._core.unanswered(request, error)
            raise

    def _ask_aside(self, request: Request) -> Flight:
        """Ask in a thread of its own: a blocking call ends by the store's deadlines, and by no other."""
        flight = Flight()

        def ask() -> None:
            try:
                self._ask(request)
            except BaseException as error:  # noqa: BLE001 - raised where somebody waits for it
                flight.set_exception(error)
            else:
                flight.set_result(True)

        try:
            threading.Thread(target=ask, name="sharedroutes-lookup", daemon=True).start()
        except BaseException as error:
            self._core.unanswered(request, error)
            raise
        return flight

    def _look(self, request: Request) -> None:
        begin = monotonic()
        answer = self._store.lookup(request.topics, request.known, request.anew)
        self._core.offer(request, answer, monotonic(), monotonic() - begin)

    def _run(self) -> None:
        threads = {"sharedroutes-client": self._follow}
        if self.config.faults.detect:
            threads["sharedroutes-detector"] = lambda: detect(self._core, self._stopping)
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True) for name, target in threads.items()
        ]
        for thread in self._threads:
            thread.start()
        if self.config.sweep:
            self._sweeper = Sweeper(self._store)
            self._sweeper.start()

    def _follow(self) -> None:
        """Keep the view fresh until close(); whatever the store does, this goes on."""
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            pause_s = 0.0
            try:
                with closing(self._store.doorbell()) as doorbell:
                    self._core.hearing.renewed()
                    while not (self._stopping.is_set() or self._core.hearing.is_dead):
                        self._listen(doorbell)
                        self._catch_up()
            except RegistryError as error:
                pause_s = self._core.failed(error, monotonic())
            except Exception as error:  # noqa: BLE001 - a follower that dies would freeze the view for good
                _log.exception("a fault in the follower; it begins anew")
                pause_s = self._core.failed(error, monotonic())

    def _listen(self, doorbell: Doorbell) -> None:
        """Wait for a doorbell until something is due, then take in what rang meanwhile."""
        timeout_s = min(self._core.wait_s(monotonic()), NAP_S)
        if self._core.hearing.deaf(monotonic()):
            self._stopping.wait(timeout_s)
            return
        for _ in range(MOST_AT_ONCE):  # a steady stream of changes must not keep us from reading what is due
            try:
                message = doorbell.wait(timeout_s)
            except StoreRefused as error:
                self._core.hearing.refused(error, monotonic())
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
            self._look(request)
        core.caught_up()
        if core.clock.due(begin := monotonic()):
            core.clock.was_read(store.run(server_time()), begin, monotonic())
        self._exchange_hints()
        if core.save_due(monotonic()):
            core.save_snapshot(monotonic())

    def _exchange_hints(self) -> None:
        """Tell others whom we cannot reach, and hear whom they cannot, if the configuration wants it."""
        hinting = self._core.hinting
        if hinting is None:
            return
        try:
            names = hinting.to_tell(monotonic())
            if names is not None:
                self._store.hint(hinting.client_id, names, ttl_s=hinting.ttl_s)
        except RegistryError as error:
            hinting.failed(error, monotonic())
        if hinting.to_read(monotonic(), self.config.tail_s):
            try:
                hints = self._store.hints()
            except RegistryError:
                hints = {}
            hinting.heard(hints, self._core.brokers_in_use, monotonic())
