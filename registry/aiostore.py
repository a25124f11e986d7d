"""The registry over an asyncio Redis client; method for method the same as RouteStore."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeAlias, TypeVar

import redis
import redis.asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry

from . import plans
from .config import RegistryConfig
from .errors import InvalidInput
from .keys import Keys
from .model import (
    Broker,
    BrokerData,
    DataVersion,
    Group,
    LeaseStatus,
    Registration,
    Sweep,
    TopicConfig,
    TopicRoute,
    topic_table,
)
from .plans import Batch, Call, ChangePage, Lookup, Plan, Reads, Reply
from .redispy import (
    REDIS_ERRORS,
    check_client,
    client_options,
    no_script,
    normal,
    report,
    retry_arguments,
    ring,
    translate,
)

__all__ = ["AsyncDoorbell", "AsyncRedisClient", "AsyncRouteStore", "end"]

T = TypeVar("T")

_CANCEL_AGAIN_S: Final = 0.1

AsyncRedisClient: TypeAlias = redis.asyncio.Redis
"""The client that a store can be made over."""


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until all have ended: a cancellation that meets a timeout inside redis-py can get lost."""
    while waiting := [task for task in tasks if not task.done()]:
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting, timeout=_CANCEL_AGAIN_S)


class AsyncDoorbell:
    """A subscription to the channel that every change rings; for one task."""

    def __init__(self, client: AsyncRedisClient, channel: str) -> None:
        self._client = client  # redis-py cuts a subscription off when its client is collected
        self._pubsub: PubSub = client.pubsub()
        self._channel = channel
        self._subscribed = False

    async def wait(self, timeout_s: float) -> bytes | None:
        """Return the next message, empty bytes when earlier ones may have been missed, None when none came.

        Raises StoreUnavailable, StoreRefused.
        """
        try:
            if not self._subscribed:
                await self._pubsub.subscribe(self._channel)
                self._subscribed = True
            message = await self._pubsub.get_message(timeout=timeout_s)
        except REDIS_ERRORS as error:
            raise translate(error) from error
        return ring(message)

    async def aclose(self) -> None:
        """End the subscription."""
        await self._pubsub.aclose()  # type: ignore[no-untyped-call]


class AsyncRouteStore:
    """The shared table; for one event loop. Every method raises StoreUnavailable and StoreRefused."""

    def __init__(
        self, client: AsyncRedisClient, config: RegistryConfig | None = None, *, owns_client: bool = False
    ) -> None:
        check_client(client)
        self.config = config or RegistryConfig()
        self.keys = Keys(self.config.namespace)
        self._client = client
        self._owns_client = owns_client

    @classmethod
    def from_url(cls, url: str, config: RegistryConfig | None = None) -> Self:
        """Return a store with a client of its own for a redis://, rediss:// or unix:// URL.

        Raises InvalidInput for one that is none.
        """
        config = config or RegistryConfig()
        try:
            pool = redis.asyncio.BlockingConnectionPool.from_url(
                url, timeout=config.call_deadline_s, retry=Retry(*retry_arguments()), **client_options(config)
            )
        except ValueError as error:
            raise InvalidInput(f"Redis URL: {error}") from None
        return cls(redis.asyncio.Redis.from_pool(pool), config, owns_client=True)

    @classmethod
    def from_client(cls, client: AsyncRedisClient, config: RegistryConfig | None = None) -> Self:
        """Return a store over a client that stays the caller's; its own timeouts and retries apply."""
        return cls(client, config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the client if it is the store's own."""
        if self._owns_client:
            await self._client.aclose()

    async def register(
        self,
        broker: Broker,
        topics: Iterable[TopicConfig] | Mapping[str, TopicConfig],
        *,
        held: Registration | None = None,
        take_over: bool = True,
        version: DataVersion | None = None,
    ) -> Registration:
        """Make `topics` the broker's whole table and give it a lease; see plans.register."""
        table = topics if isinstance(topics, Mapping) else topic_table(topics)
        return await self.run(
            plans.register(
                self.config, broker, table, held=held, take_over=take_over, version=version or DataVersion()
            )
        )

    async def heartbeat(self, held: Registration) -> LeaseStatus:
        """Renew a lease; see plans.heartbeat."""
        return await self.run(plans.heartbeat(self.config, held))

    async def unregister(self, held: Registration, *, reason: str = "unregistered") -> bool:
        """End a lease at once; see plans.unregister."""
        return await self.run(plans.unregister(self.config, held, reason=reason))

    async def sweep(self, holder: str) -> Sweep:
        """Announce the brokers whose lease has ended; see plans.sweep."""
        return await self.run(plans.sweep(self.config, holder))

    async def routes(self, topics: Sequence[str]) -> dict[str, TopicRoute]:
        """Return the routes of those topics that a live broker holds; corrupt keys are logged."""
        found = await self.lookup(topics)
        report(found.corrupt)
        return found.routes()

    async def lookup(
        self, topics: Sequence[str], known: Mapping[str, Group] | None = None, anew: Iterable[str] = ()
    ) -> Lookup:
        """Return all that one look at the table tells about the topics; see plans.lookup."""
        return await self.run(plans.lookup(self.keys, topics, known, anew))

    async def topics(self) -> list[str]:
        """Return the topics that a live broker holds, sorted; corrupt keys are logged."""
        listing = await self.run(plans.topics(self.keys))
        report(listing.corrupt)
        return listing.found

    async def brokers(self) -> list[BrokerData]:
        """Return the live brokers, sorted by name; corrupt keys are logged."""
        listing = await self.run(plans.brokers(self.keys))
        report(listing.corrupt)
        return listing.found

    async def changes_since(self, position: str = plans.ORIGIN, limit: int = 1_000) -> ChangePage:
        """Return up to `limit` changes after a position of the stream; see plans.changes_since."""
        return await self.run(plans.changes_since(self.keys, position, limit))

    def doorbell(self) -> AsyncDoorbell:
        """Return a new subscriber of the change doorbell; the caller closes it."""
        return AsyncDoorbell(self._client, self.keys.changes)

    async def run(self, plan: Plan[T]) -> T:
        """Run any plan; raises StoreUnavailable, StoreRefused and what the plan raises."""
        try:
            batch = next(plan)
            while True:
                batch = plan.send(await self._send(batch))
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            plan.close()

    async def _send(self, batch: Batch) -> list[Reply]:
        try:
            replies = [await self._call(batch)] if isinstance(batch, Call) else await self._read(batch)
        except REDIS_ERRORS as error:
            raise translate(error) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"a name cannot be written as UTF-8: {error}") from None
        return [normal(reply) for reply in replies]

    async def _read(self, batch: Reads) -> list[Any]:
        if len(batch.commands) == 1:
            return [await self._one(*batch.commands[0])]
        pipeline = self._client.pipeline(transaction=False)
        for command in batch.commands:
            pipeline.execute_command(*command)
        return await pipeline.execute(raise_on_error=False)

    async def _call(self, call: Call) -> Any:
        arguments = (len(call.keys), *call.keys, *call.args)
        reply = await self._one("EVALSHA", call.script.sha, *arguments)
        if no_script(reply):
            reply = await self._one("EVAL", call.script.source, *arguments)
        return reply

    async def _one(self, *command: str | int | bytes) -> Any:
        try:
            return await self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        except redis.ResponseError as error:
            return error
