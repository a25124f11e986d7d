"""The route client for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from time import monotonic
from typing import Self, TypeVar

from ..registry.change_stream.follower_async import AsyncStreamReader
from ..registry.checks import check_name, check_names, several
from ..registry.concurrency_async import Background, Lock, run_blocking
from ..registry.connection.links_async import AsyncRedisClient
from ..registry.errors import StoreUnavailable
from ..registry.model import MessageQueue
from ..registry.plans import Lookup
from ..registry.store_async import AsyncRouteStore
from ..registry.sweeper_async import AsyncSweeper
from .attempts.attempt import AsyncAttempts, AsyncSelect, AsyncSending
from .attempts.log import Pick
from .attempts.policy import RetryPolicy
from .brokers import NOBODY, Avoid
from .cache import Request
from .changes import AsyncChanges, AsyncListener, listen_async
from .config import ClientConfig
from .core import AsyncRouteClientBase
from .detector import detector_async
from .errors import NoRoute
from .flights import all_arrived_async, ask_async
from .forks import survives_forks
from .routes import Route
from .selection import subscribe_queues

T = TypeVar("T")


class AsyncRouteClient(AsyncRouteClientBase):
    """Routes, kept fresh by a background task from start() to aclose(); for one event loop.

    It does not survive a fork, as no event loop does: the child makes a new one.
    """

    def __init__(self, store: AsyncRouteStore, config: ClientConfig, *, owns_store: bool = False) -> None:
        super().__init__(config)
        self._store = self._reads = store
        if config.read_from == "replica":
            self._reads, self._core.follower.reading = store.at_replicas(self._core.place, config.reconnect_s)
        self._owns_store = owns_store
        self._starting = Lock()
        self._closed = False
        self._reader: AsyncStreamReader | None = None
        self._detector: Background | None = None
        self._sweeper: AsyncSweeper | None = None
        survives_forks(self)

    @classmethod
    def from_url(cls, url: str, config: ClientConfig | None = None, *, namespace: str | None = None) -> Self:
        """Return a client for a store URL (RouteStore.from_url); connects when started.

        `namespace`: which registry of the store; None = as the settings say. Raises InvalidInput.
        """
        config = ClientConfig.of(config, namespace)
        return cls(AsyncRouteStore.from_url(url, config.registry), config, owns_store=True)

    @classmethod
    def from_client(
        cls, client: AsyncRedisClient, config: ClientConfig | None = None, *, namespace: str | None = None
    ) -> Self:
        """Return a client over a redis.asyncio.Redis or RedisCluster that stays the caller's.

        `namespace`: as from_url. Raises InvalidInput.
        """
        config = ClientConfig.of(config, namespace)
        return cls(AsyncRouteStore.from_client(client, config.registry), config)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Read the snapshot, if any, and begin to follow the registry; does nothing when it has begun.

        Raises RuntimeError after aclose().
        """
        async with self._starting:
            if self._closed:
                raise RuntimeError("the route client was closed: make a new one")
            if self._reader is None:
                if not self._is_copy:
                    await run_blocking(self._core.follower.load_snapshot)
                await self._run()
                self._is_copy = False

    async def aclose(self) -> None:
        """Stop following and close the store if it is the client's own."""
        async with self._starting:
            self._closed = True
        self._core.close()
        for running in (self._reader, self._detector):
            if running is not None:
                await running.stop()
        if self._sweeper is not None:
            await self._sweeper.aclose()
        if self._reads is not self._store:
            await self._reads.aclose()
        if self._owns_store:
            await self._store.aclose()
        if self._reader is not None:
            await self._reader.finish()

    # --- choosing -------------------------------------------------------------------------------------------

    async def select_queue(
        self, topic: str, avoid: Avoid = None, *, key: str | bytes | None = None
    ) -> MessageQueue:
        """Return the queue of a topic whose turn it is, not of a broker that fails, nor of one to `avoid`.

        With a `key`, the queue of this message group: the same for all clients while its broker is well.
        Raises NoRoute, StoreUnavailable or StoreRefused for a topic that is not known yet, and InvalidInput
        for what cannot be a name.
        """
        view = self._views.get(topic)
        if view is not None and avoid is None and key is None:
            faults = self._faults
            if faults.quiet:
                if view.length:
                    return view.schedule[next(view.turns) % view.length]
            else:
                verdict, schedule, length = view.ready
                if verdict is faults.latest and monotonic() < faults.valid_until:
                    return schedule[next(view.turns) % length]
        avoided = NOBODY if avoid is None else self._core.brokers.avoided(avoid)
        found = view if view is not None else await self._found(topic, self._core.view)
        return self._core.brokers.pick(topic, found, avoided, monotonic(), key)

    def attempts(
        self,
        topic: str,
        retries: int | None = None,
        policy: RetryPolicy | None = None,
        *,
        key: str | bytes | None = None,
    ) -> AsyncAttempts:
        """Return the attempts at one operation, each with a queue: see docs/client/attempts.md.

        Raises NoRoute and AttemptsFailed while it is iterated.
        """
        return AsyncAttempts(self._log(topic, retries, policy), self._chooser(topic, key))

    async def sending(
        self,
        topic: str,
        retries: int | None = None,
        policy: RetryPolicy | None = None,
        *,
        key: str | bytes | None = None,
    ) -> AsyncSending:
        """Return the first attempt at an operation whose end a callback tells. Raises as select_queue."""
        return await AsyncSending.begin(self._log(topic, retries, policy), self._chooser(topic, key))

    # --- looking --------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> Route:
        """Return the route of a topic. Raises as select_queue."""
        route = self._routes.get(topic)
        return route if route is not None else await self._found(topic, self._core.route)

    async def get(self, topics: Iterable[str]) -> dict[str, Route]:
        """Return the routes of those topics that a live broker holds; reads all unknown ones at once.

        Raises StoreUnavailable or StoreRefused when some topic is not known yet and cannot be read.
        """
        topics = several(topics)
        ready = self._routes
        if not all(topic in ready for topic in topics):
            await self._learn(check_names("topics", topics))
        found = {topic: ready.get(topic) or self._core.route(topic) for topic in topics}
        return {topic: route for topic, route in found.items() if route is not None}

    async def prefetch(self, topics: Iterable[str]) -> None:
        """Read topics at once that will be needed, so that their first use need not wait. Raises as get."""
        await self._learn(check_names("topics", topics))

    async def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all readable queues of a topic. Raises as select_queue."""
        return subscribe_queues(await self.route(topic))

    def watch(self, topics: Iterable[str] | None = None) -> AsyncChanges:
        """Yield the routes of topics as they are now, and each change, until the client is closed.

        Without topics: the changes of all that are known. A route that changed several times since it was
        looked at is yielded once, as it is then. Raises as get.
        """
        names = None if topics is None else check_names("topics", topics)
        return AsyncChanges(
            self._core.known.watches, self._core.route, names, lambda: self._learn(names or ())
        )

    async def on_change(
        self, listener: AsyncListener, topics: Iterable[str] | None = None
    ) -> Callable[[], None]:
        """Call a listener at each change of these topics, or of all known ones; return what ends that.

        It is called in a task of its own, and awaited if it can be; what it raises is logged.
        """
        names = None if topics is None else check_names("topics", topics)
        await self._learn(names or ())
        return listen_async(self._core.known.watches, self._core.route, names, listener)

    # --- inside ---------------------------------------------------------------------------------------------

    def _chooser(self, topic: str, key: str | bytes | None) -> AsyncSelect:
        async def select(until: float) -> Pick:
            ready = self._views.get(topic)
            view = ready if ready is not None else await self._found(topic, self._core.view, until)
            return lambda avoid: self._core.brokers.pick(topic, view, avoid, monotonic(), key)

        return select

    async def _found(self, topic: str, find: Callable[[str], T | None], until: float = inf) -> T:
        """Return what is found of a topic, which is learned first if it is not known."""
        found = None if self._is_copy or self._closed else find(topic)
        if found is None:
            check_name("topic", topic)
            await self._learn((topic,), until)
            found = find(topic)
            if found is None:
                raise NoRoute(topic, "no live broker holds")
        return found

    async def _learn(self, topics: Iterable[str], until: float = inf) -> None:
        """Make topics known that are not; each is asked for once, however many callers need it.

        Raises StoreTimeout when it takes longer than `until`.
        """
        if self._is_copy:
            await self._use_copy()
        if self._closed or self._reader is None or not self._reader.is_running:
            raise RuntimeError("the route client does not run: use `async with`, or call start()")
        while True:
            question = self._core.question(topics, monotonic())
            if question.request is not None:
                failed = partial(self._core.unanswered, question.request)
                look = partial(self._look, question.request)
                question.flights.extend(await ask_async(look, failed, topics, until))
            # Who asked for us and was interrupted has no answer: then it is our turn.
            if await all_arrived_async(question.flights, topics, until):
                return

    async def _look(self, request: Request) -> None:
        begin = monotonic()
        answer = await self._lookup(request)
        self._core.known.offer(request, answer, monotonic(), monotonic() - begin)

    async def _lookup(self, request: Request) -> Lookup:
        try:
            return await self._reads.lookup(request.topics, request.known, request.anew)
        except StoreUnavailable:
            if self._reads is self._store:
                raise
        return await self._store.lookup(request.topics, request.known, request.anew)

    async def _run(self) -> None:
        self._reader = AsyncStreamReader(self._reads, self._core.follower, "sharedroutes-client")
        self._reader.start()
        if self.config.faults.detect:
            self._detector = detector_async(self._core, self.config.registry.call_deadline_s + 1)
            self._detector.start()
        if self.config.sweep:
            self._sweeper = AsyncSweeper(self._store)
            await self._sweeper.start()

    def _drop_background(self) -> bool:
        had_begun = self._reader is not None
        self._reader = self._detector = self._sweeper = None
        return had_begun
