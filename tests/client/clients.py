"""Route clients of both kinds in one form, with settings that suit tests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias, TypeVar, cast

import redis

from sharedroutes.client import (
    AsyncRouteClient,
    ClientConfig,
    Health,
    NoRoute,
    RetryPolicy,
    RouteChange,
    RouteClient,
)
from sharedroutes.client.changes import AsyncChanges
from sharedroutes.registry import (
    Change,
    ChangeKind,
    EmbeddedServer,
    MessageQueue,
    RegistryConfig,
    RouteStore,
    StoreUnavailable,
    codec,
)
from sharedroutes.registry.keys import Keys
from sharedroutes.testing import InMemoryRegistry
from tests.fix_redis import PATIENT, AsyncFromSync
from tests.registry.builders import broker, topics
from tests.support import await_until

T = TypeVar("T")

AnyClient: TypeAlias = AsyncRouteClient
"""What tests see: the asyncio client, or the one for threads in the same form."""

ClientMaker: TypeAlias = Callable[..., AnyClient]
"""Takes a URL, a configuration and single settings; the test enters what it returns."""


@dataclass(frozen=True)
class Stage:
    """A registry at a URL, what agents do there, and clients of it of one kind."""

    make_client: ClientMaker
    url: str
    agent: RouteStore

    def client(self, *config: ClientConfig, **settings: Any) -> AnyClient:
        """Return a client, which the test enters."""
        return self.make_client(self.url, *config, **settings)

    @contextlib.asynccontextmanager
    async def in_place(self, *config: ClientConfig, **settings: Any) -> AsyncIterator[AnyClient]:
        """Run a client that hears of every change."""
        async with self.client(*config, **settings) as client:
            await until_in_place(client)
            yield client

    def register(self, *names: str, count: int = 1) -> None:
        """Let brokers hold so many topics, from t0 on."""
        for name in names:
            self.agent.register(broker(name), topics(count))


@dataclass(frozen=True)
class OwnStage(Stage):
    """The same on a server that the test may pause, kill and start again."""

    server: EmbeddedServer


HOUR_S: Final = 3_600.0

QUICK: Final = ClientConfig(
    registry=PATIENT,
    tail_s=0.05,
    refresh_s=HOUR_S,
    jitter_s=0.0,
    reconnect_s=0.2,
    missing_retry_s=0.05,
    guard_hold_s=HOUR_S,
)
"""Reads the tail of the feed and the leases all the time, and everything only once."""

BELL_ONLY: Final = ClientConfig(
    registry=PATIENT,
    tail_s=HOUR_S,
    refresh_s=HOUR_S,
    jitter_s=0.0,
    reconnect_s=0.2,
    missing_retry_s=HOUR_S,
    guard_hold_s=HOUR_S,
)
"""Hears of changes by the doorbell or not at all."""

IMPATIENT: Final = replace(QUICK, registry=RegistryConfig(call_deadline_s=0.2, connect_deadline_s=0.2))
"""Waits for nobody."""

FOLLOWER: Final = "sharedroutes-client"
"""The name of a client's thread or task."""


class InThreads(AsyncFromSync):
    """A RouteClient in the form of AsyncRouteClient: what may wait runs in a thread."""

    def __init__(self, blocking: RouteClient) -> None:
        super().__init__(blocking)
        self.blocking = blocking

    async def __aenter__(self) -> Self:
        self.blocking.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.blocking.close)

    def health(self) -> Health:
        return self.blocking.health()

    def record(
        self, broker_name: str, latency_s: float, *, failed: bool = False, reachable: bool | None = None
    ) -> None:
        self.blocking.record(broker_name, latency_s, failed=failed, reachable=reachable)

    def forget(self, topics: Iterable[str]) -> None:
        self.blocking.forget(topics)

    def find_address(
        self, broker_name: str, broker_id: int = 0, *, only_this: bool = False
    ) -> tuple[str, int] | None:
        return self.blocking.find_address(broker_name, broker_id, only_this=only_this)

    def watch(self, topics: Iterable[str] | None = None) -> AsyncChanges:
        return cast("AsyncChanges", ChangesInThreads(self.blocking, topics))


class ChangesInThreads:
    """What `RouteClient.watch` returns, in the form of what `AsyncRouteClient.watch` returns."""

    def __init__(self, blocking: RouteClient, topics: Iterable[str] | None) -> None:
        self._begin = functools.partial(blocking.watch, topics)
        self._changes: Iterator[RouteChange] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RouteChange:
        if self._changes is None:
            self._changes = await asyncio.to_thread(self._begin)
        change = await asyncio.to_thread(next, self._changes, None)
        if change is None:
            raise StopAsyncIteration
        return change

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._changes = None


def sync_client(where: str | InMemoryRegistry, config: ClientConfig = QUICK, **settings: Any) -> AnyClient:
    """Return the client for threads, of the registry at a URL or of one in memory; the test enters it."""
    config = replace(config, **settings)
    client = RouteClient.from_url(where, config) if isinstance(where, str) else where.client(config)
    return cast("AnyClient", InThreads(client))


def async_client(where: str | InMemoryRegistry, config: ClientConfig = QUICK, **settings: Any) -> AnyClient:
    """Return the client for asyncio, of the registry at a URL or of one in memory; the test enters it."""
    config = replace(config, **settings)
    return AsyncRouteClient.from_url(where, config) if isinstance(where, str) else where.async_client(config)


def running(name: str) -> int:
    """Return how many threads, and tasks of this loop, have this name."""
    threads = sum(thread.name == name for thread in threading.enumerate())
    return threads + sum(task.get_name() == name for task in asyncio.all_tasks())


def let_many_wait(threads: int = 32) -> None:
    """Let so many calls of the running loop's InThreads wait at once: by default it is a handful."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))


def calls(admin: redis.Redis, *commands: str) -> int:
    """Return how many of these commands the server has run, or of all but those of the test itself."""
    stats = admin.info("commandstats")
    names = [f"cmdstat_{command}" for command in commands] or stats.keys() - {"cmdstat_info"}
    return sum(int(stats[name]["calls"]) for name in names if name in stats)


async def attempt(
    client: AnyClient,
    topic: str,
    operation: Callable[[MessageQueue], T],
    policy: RetryPolicy | None = None,
) -> T:
    """Return what the operation returns at the first attempt that succeeds."""
    if isinstance(client, InThreads):
        return await asyncio.to_thread(_attempt_blocking, client.blocking, topic, operation, policy)
    async for one in client.attempts(topic, policy=policy):
        async with one as queue:
            return operation(queue)
    raise AssertionError("the loop ended without a result")


def _attempt_blocking(
    client: RouteClient, topic: str, operation: Callable[[MessageQueue], T], policy: RetryPolicy | None
) -> T:
    for one in client.attempts(topic, policy=policy):
        with one as queue:
            return operation(queue)
    raise AssertionError("the loop ended without a result")


async def holders(client: AnyClient, topic: str) -> set[str]:
    """Return the brokers in the route of a topic."""
    try:
        return {data.broker_name for data in (await client.route(topic)).queue_datas}
    except NoRoute:
        return set()


async def chosen(client: AnyClient, topic: str = "t0") -> set[str]:
    """Return the brokers whose turn comes within 40 choices."""
    return {(await client.select_queue(topic)).broker_name for _ in range(40)}


async def until_chosen(client: AnyClient, *names: str) -> None:
    """Wait until these brokers and no other take turns for t0."""

    async def reached() -> bool:
        return await chosen(client) == {*names}

    await await_until(reached, description=f"{names} are chosen")


async def until_held_by(client: AnyClient, topic: str, *names: str) -> None:
    """Wait until the client's route of a topic names these brokers and no other.

    A call that is too late for the deadlines of IMPATIENT, on a busy machine, is no route yet.
    """

    async def reached() -> bool:
        with contextlib.suppress(StoreUnavailable):
            return await holders(client, topic) == set(names)
        return False

    await await_until(reached, description=f"{topic} is held by {names}")


async def until_known(client: AnyClient, *names: str) -> None:
    """Wait until the client hears of every change from now on, and its route of t0 names these brokers."""
    await until_in_place(client)
    await until_held_by(client, "t0", *names)


async def until_source(client: AnyClient, source: str) -> None:
    """Wait until the client's health names this source."""
    await await_until(lambda: client.health().source == source, description=f"the source is {source}")


async def until_in_place(client: AnyClient) -> None:
    """Wait until the client has read what it uses, and hears of every change from now on."""
    known = getattr(client, "blocking", client)._core.known
    await await_until(
        lambda: client.health().position is not None and known.cache.refresh_at > 0.0,
        description="the client has its place",
    )


async def until_position(client: AnyClient, change_id: str) -> None:
    """Wait until the client has taken in this change."""
    await await_until(
        lambda: client.health().position == change_id, description=f"the client has heard of {change_id}"
    )


def tell_silently(admin: redis.Redis, keys: Keys, topic: str) -> str:
    """Write to the feed that broker-a changed a topic, without ringing the doorbell; return the change id."""
    change = Change(kind=ChangeKind.TOPICS, broker_name="broker-a", broker_id=0, epoch=1, changed=(topic,))
    change_id = admin.xadd(keys.changes, {"c": codec.encode_change(change)})
    assert isinstance(change_id, bytes)
    return change_id.decode()
