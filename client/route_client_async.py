"""The route client for asyncio: method for method as RouteClient."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from math import inf
from time import monotonic
from types import TracebackType
from typing import Self

from ..registry.change_stream.core import MOST_AT_ONCE
from ..registry.checks import check_name, check_names, several
from ..registry.concurrency_async import end, is_cancelled
from ..registry.connection.links_async import AsyncRedisClient
from ..registry.errors import CorruptData, RegistryError, StoreRefused
from ..registry.model import MessageQueue
from ..registry.plans import last_change_id
from ..registry.plans.expiry import server_time
from ..registry.store_async import AsyncDoorbell, AsyncRouteStore
from ..registry.sweeper_async import AsyncSweeper
from .attempts.attempt import AsyncAttempts, AsyncSelect, AsyncSending
from .attempts.policy import RetryPolicy
from .base import RouteClientBase
from .cache import Request
from .config import ClientConfig
from .core import NOBODY, Avoid
from .detector import detect_async
from .errors import NoRoute
from .flights import too_late
from .forks import survives_forks
from .listening import AsyncChanges, AsyncListener, listen_async
from .route import Route
from .selection import PublishView, subscribe_queues

_log = logging.getLogger("sharedroutes.client")


class AsyncRouteClient(RouteClientBase):
    """Routes, kept fresh by a background task from start() to aclose(); for one event loop.

    It does not survive a fork, as no event loop does: the child makes a new one.
    """

    def __init__(self, store: AsyncRouteStore, config: ClientConfig, *, owns_store: bool = False) -> None:
        super().__init__(config)
        self._store = store
        self._owns_store = owns_store
        self._starting = asyncio.Lock()
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Read the snapshot, if any, and begin to follow the registry; does nothing when it has begun.

        Raises RuntimeError after aclose().
        """
        async with self._starting:
            if self._closed:
                raise RuntimeError("the route client was closed: make a new one")
            if not self._tasks:
                await asyncio.to_thread(self._core.load_snapshot)
                await self._run()

    async def aclose(self) -> None:
        """Stop following and close the store if it is the client's own."""
        async with self._starting:
            self._closed = True
        self._core.close()
        for task in self._tasks:
            await end(task)
        if self._sweeper is not None:
            await self._sweeper.aclose()
        if self._owns_store:
            await self._store.aclose()

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
        if view is not None and avoid is None and key is None and self._faults.quiet and view.length:
            return view.schedule[next(view.turns) % view.length]
        avoided = NOBODY if avoid is None else self._core.avoided(avoid)
        return self._core.pick(topic, view or await self._view(topic), avoided, monotonic(), key)

    def attempts(
        self,
        topic: str,
        retries: int | None = None,
        policy: RetryPolicy | None = None,
        *,
        key: str | bytes | None = None,
    ) -> AsyncAttempts:
        """Return the attempts at one operation, each with a queue: see docs/client.md.

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
        if route is None and not (self._is_copy or self._closed):
            route = self._core.route(topic)
        if route is None:
            check_name("topic", topic)
            await self._learn((topic,))
            route = self._core.route(topic)
            if route is None:
                raise NoRoute(topic, "no live broker holds")
        return route

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
        return AsyncChanges(self._core, names, lambda: self._learn(names or ()))

    async def on_change(
        self, listener: AsyncListener, topics: Iterable[str] | None = None
    ) -> Callable[[], None]:
        """Call a listener at each change of these topics, or of all known ones; return what ends that.

        It is called in a task of its own, and awaited if it can be; what it raises is logged.
        """
        names = None if topics is None else check_names("topics", topics)
        await self._learn(names or ())
        return listen_async(self._core, names, listener)

    # --- forks ----------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Let nothing change while the process is copied."""
        self._core.hold_still()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._core.go_on()

    def after_fork_in_child(self) -> None:
        """Be of no use: a task of the parent's loop runs nowhere here."""
        self._is_copy = True
        self._core.start_anew()

    # --- inside ---------------------------------------------------------------------------------------------

    def _chooser(self, topic: str, key: str | bytes | None) -> AsyncSelect:
        async def choose(failed: frozenset[str], until: float) -> MessageQueue:
            view = self._views.get(topic) or await self._view(topic, until)
            return self._core.pick(topic, view, failed, monotonic(), key)

        return choose

    async def _view(self, topic: str, until: float = inf) -> PublishView:
        view = None if self._is_copy or self._closed else self._core.view(topic)
        if view is None:
            check_name("topic", topic)
            await self._learn_by(until, (topic,))
            view = self._core.view(topic)
            if view is None:
                raise NoRoute(topic, "no live broker holds")
        return view

    async def _learn_by(self, until: float, topics: Iterable[str]) -> None:
        """Make topics known as `_learn`; raise StoreTimeout when it takes longer than `until`."""
        try:
            async with asyncio.timeout(None if until == inf else until - monotonic()) as limit:
                await self._learn(topics)
        except TimeoutError as error:
            if limit.expired():
                raise too_late(topics) from error
            raise

    async def _learn(self, topics: Iterable[str]) -> None:
        """Make topics known that are not; each is asked for once, however many tasks need it."""
        if self._is_copy:
            raise RuntimeError("the route client was made before a fork: make a new one in the child")
        if not self._tasks or self._closed:
            raise RuntimeError(
                "the route client does not run: use it in an `async with` block, or call start()"
            )
        while True:
            question = self._core.question(topics, monotonic())
            if question.request is not None:
                await self._ask(question.request)
            flights = [asyncio.shield(asyncio.wrap_future(flight)) for flight in question.flights]
            answered = await asyncio.gather(*flights, return_exceptions=True)
            for answer in answered:
                if isinstance(answer, BaseException):
                    raise answer
            if all(answered):  # who asked for us and was cancelled has no answer: then it is our turn
                return

    async def _ask(self, request: Request) -> None:
        try:
            await self._look(request)
        except BaseException as error:
            self._core.unanswered(request, error)
            raise

    async def _look(self, request: Request) -> None:
        begin = monotonic()
        answer = await self._store.lookup(request.topics, request.known, request.anew)
        self._core.offer(request, answer, monotonic(), monotonic() - begin)

    async def _run(self) -> None:
        self._tasks.append(asyncio.create_task(self._follow(), name="sharedroutes-client"))
        if self.config.faults.detect:
            self._tasks.append(asyncio.create_task(detect_async(self._core), name="sharedroutes-detector"))
        if self.config.sweep:
            self._sweeper = AsyncSweeper(self._store)
            await self._sweeper.start()

    async def _follow(self) -> None:
        """Keep the view fresh until it is cancelled; whatever the store does, this goes on."""
        pause_s = 0.0
        while not is_cancelled():
            await asyncio.sleep(pause_s)
            pause_s = 0.0
            try:
                async with aclosing(self._store.doorbell()) as doorbell:
                    self._core.hearing.renewed()
                    while not (is_cancelled() or self._core.hearing.is_dead):
                        await self._listen(doorbell)
                        await self._catch_up()
            except RegistryError as error:
                pause_s = self._core.failed(error, monotonic())
            except Exception as error:  # noqa: BLE001 - a follower that dies would freeze the view for good
                _log.exception("a fault in the follower; it begins anew")
                pause_s = self._core.failed(error, monotonic())

    async def _listen(self, doorbell: AsyncDoorbell) -> None:
        """Wait for a doorbell until something is due, then take in what rang meanwhile."""
        timeout_s = self._core.wait_s(monotonic())
        if self._core.hearing.deaf(monotonic()):
            await asyncio.sleep(timeout_s)
            return
        for _ in range(MOST_AT_ONCE):  # a steady stream of changes must not keep us from reading what is due
            try:
                message = await doorbell.wait(timeout_s)
            except StoreRefused as error:
                self._core.hearing.refused(error, monotonic())
                break
            if message is None:
                break
            self._core.doorbell(message)
            timeout_s = 0.0

    async def _catch_up(self) -> None:
        """Read what is due: our place in the stream, its tail, the table."""
        core, store = self._core, self._store
        if core.tail_due(monotonic()):
            try:
                if core.position is not None:
                    core.offer_page(await store.changes_since(core.position), monotonic())
                if core.position is None:  # before the table is read: the feed tells of what changes after it
                    core.begin(await store.run(last_change_id(store.keys)), monotonic())
            except CorruptData as error:
                core.feed_is_foreign(error, monotonic())
        request = core.due(monotonic())
        if request is not None:
            await self._look(request)
        core.caught_up()
        if core.clock.due(begin := monotonic()):
            core.clock.was_read(await store.run(server_time()), begin, monotonic())
        await self._exchange_hints()
        if core.save_due(monotonic()):
            await asyncio.to_thread(core.save_snapshot, monotonic())

    async def _exchange_hints(self) -> None:
        """Tell others whom we cannot reach, and hear whom they cannot, if the configuration wants it."""
        hinting = self._core.hinting
        if hinting is None:
            return
        try:
            names = hinting.to_tell(monotonic())
            if names is not None:
                await self._store.hint(hinting.client_id, names, ttl_s=hinting.ttl_s)
        except RegistryError as error:
            hinting.failed(error, monotonic())
        if hinting.to_read(monotonic(), self.config.tail_s):
            try:
                hints = await self._store.hints()
            except RegistryError:
                hints = {}
            hinting.heard(hints, self._core.brokers_in_use, monotonic())
