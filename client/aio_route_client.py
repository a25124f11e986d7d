"""The route client for asyncio; method for method the same as RouteClient."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import aclosing
from time import monotonic
from types import TracebackType
from typing import Self

from ..registry.aiostore import AsyncDoorbell, AsyncRedisClient, AsyncRouteStore
from ..registry.aiotasks import end, is_cancelled
from ..registry.checks import several
from ..registry.errors import CorruptData, RegistryError, StoreRefused
from ..registry.following.core import MOST_AT_ONCE
from ..registry.model import MessageQueue, TopicRoute
from ..registry.plans import last_change_id
from ..registry.sweeping import AsyncSweeper
from .attempts import AsyncAttempts, AttemptLog, RetryPolicy
from .config import ClientConfig
from .core import Avoid, ClientCore, Health
from .errors import NoRoute

__all__ = ["AsyncRouteClient"]

_log = logging.getLogger("sharedroutes.client")


class AsyncRouteClient:
    """Routes, kept fresh by a background task from start() to aclose(); for one event loop.

    Methods that need a topic that is not known yet read it once, within the call deadline.
    """

    def __init__(self, store: AsyncRouteStore, config: ClientConfig, *, owns_store: bool = False) -> None:
        self.config = config
        self._core = ClientCore(config)
        self._views = self._core.views
        self._faults = self._core.faults
        self._store = store
        self._owns_store = owns_store
        self._starting = asyncio.Lock()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._sweeper = AsyncSweeper(store) if config.sweep else None

    @classmethod
    def from_url(cls, url: str, config: ClientConfig | None = None) -> Self:
        """Return a client for a store URL (RouteStore.from_url); connects when started."""
        config = config or ClientConfig()
        return cls(AsyncRouteStore.from_url(url, config.registry), config, owns_store=True)

    @classmethod
    def from_client(cls, client: AsyncRedisClient, config: ClientConfig | None = None) -> Self:
        """Return a client over a redis.asyncio.Redis or RedisCluster that stays the caller's."""
        config = config or ClientConfig()
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
            if self._task is None:
                await asyncio.to_thread(self._core.load_snapshot)
                self._task = asyncio.create_task(self._follow(), name="sharedroutes-client")
                if self._sweeper is not None:
                    await self._sweeper.start()

    async def aclose(self) -> None:
        """Stop following and close the store if it is the client's own."""
        async with self._starting:
            self._closed = True
        if self._task is not None:
            await end(self._task)
        if self._sweeper is not None:
            await self._sweeper.aclose()
        if self._owns_store:
            await self._store.aclose()

    async def select_queue(self, topic: str, avoid: Avoid = None) -> MessageQueue:
        """Return the queue of a topic whose turn it is, not of a broker that fails, nor of one to `avoid`.

        Raises NoRoute, and StoreUnavailable or StoreRefused for a topic that is not known yet.
        """
        view = self._views.get(topic)
        if view is not None and avoid is None and self._faults.quiet and view.size:
            return view.queues[next(view.turns) % view.size]
        if view is None:
            view = self._core.view(topic)
        if view is None:
            await self._learn((topic,))
            view = self._core.view(topic)
            if view is None:
                raise NoRoute(topic, "no live broker holds")
        return self._core.pick(topic, view, avoid, monotonic())

    async def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return all readable queues of a topic. Raises as select_queue."""
        await self.route(topic)
        return self._core.subscribe_queues(topic) or ()

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic. Raises as select_queue."""
        route = self._core.route(topic)
        if route is None:
            await self._learn((topic,))
            route = self._core.route(topic)
            if route is None:
                raise NoRoute(topic, "no live broker holds")
        return route

    async def get(self, topics: Iterable[str]) -> dict[str, TopicRoute]:
        """Return the routes of those topics that a live broker holds; reads all unknown ones at once.

        Raises StoreUnavailable or StoreRefused when some topic is not known yet and cannot be read.
        """
        topics = several(topics)
        await self._learn(topics)
        return self._core.routes(topics)

    def attempts(
        self, topic: str, retries: int | None = None, policy: RetryPolicy | None = None
    ) -> AsyncAttempts:
        """Return the attempts at one operation, each with a queue: see README.

        Raises NoRoute and AttemptsFailed while it is iterated.
        """
        log = AttemptLog(topic, RetryPolicy.of(policy, retries), self.record)
        return AsyncAttempts(log, lambda failed: self.select_queue(topic, failed or None))

    def record(self, broker_name: str, latency_s: float, *, failed: bool = False) -> None:
        """Tell how long a broker took to answer, or to fail; `attempts` does it by itself."""
        self._faults.record(broker_name, latency_s, failed=failed, now=monotonic())

    def health(self) -> Health:
        """Return how far the client's view can be trusted."""
        return self._core.health(monotonic())

    async def _learn(self, topics: Iterable[str]) -> None:
        if self._task is None or self._closed:
            raise RuntimeError(
                "the route client does not run: use it in an `async with` block, or call start()"
            )
        request = self._core.question(topics, monotonic())
        if request is not None:
            answer = await self._store.lookup(request.topics, request.known, request.anew)
            self._core.offer(request, answer, monotonic())

    async def _follow(self) -> None:
        """Keep the view fresh until it is cancelled; whatever the store does, this goes on."""
        pause_s = 0.0
        while not is_cancelled():
            await asyncio.sleep(pause_s)
            try:
                async with aclosing(self._store.doorbell()) as doorbell:
                    while not is_cancelled():
                        await self._listen(doorbell)
                        await self._catch_up()
            except RegistryError as error:
                pause_s = self._core.failed(error)
            except Exception as error:  # noqa: BLE001 - a follower that dies would freeze the view for good
                _log.exception("a fault in the follower; it begins anew")
                pause_s = self._core.failed(error)

    async def _listen(self, doorbell: AsyncDoorbell) -> None:
        """Wait for a doorbell until something is due, then take in what rang meanwhile."""
        timeout_s = self._core.wait_s(monotonic())
        if self._core.deaf(monotonic()):
            await asyncio.sleep(timeout_s)
            return
        for _ in range(MOST_AT_ONCE):  # a steady stream of changes must not keep us from reading what is due
            try:
                message = await doorbell.wait(timeout_s)
            except StoreRefused as error:
                self._core.doorbell_refused(error, monotonic())
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
            core.offer(request, await store.lookup(request.topics, request.known, request.anew), monotonic())
        core.caught_up()
        if core.save_due(monotonic()):
            await asyncio.to_thread(core.save_snapshot, monotonic())
