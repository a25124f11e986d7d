"""How the asyncio store reaches its servers: links send commands, and subscriptions outlive failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar

import redis
import redis.asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry

from ..concurrency_async import close_fully, closing_fully, learn_nodes, sleep
from ..config import RegistryConfig
from ..keys import Keys
from ..plans import Command, Kept
from .adapted import adapted
from .discovery import CONFIRM_S, REDIRECTS, Whereabouts
from .located_async import AsyncDirectory, AsyncLocatedConnection, AsyncLocatedSSLConnection, answered
from .reading import Place, Reading
from .replies import (
    REDIS_ERRORS,
    ReplicaBackoff,
    asking_node,
    is_ended,
    is_not_from_primary,
    is_pool_exhausted,
    moved_to,
    newest_of,
    problem_of_server,
    translate,
)
from .url import NO_RETRIES, Mode, asking_options, parse_url, pool_options, server_options, slot_of

AsyncRedisClient: TypeAlias = redis.asyncio.Redis | RedisCluster
"""The clients of redis-py that a store can use."""

T = TypeVar("T")

_MOST_SERVERS: Final = 5
"""So many are tried for one batch of a client that reads at replicas."""

Reader: TypeAlias = Callable[[Mapping[str, Any] | None], T | None]
"""Takes a message of redis-py's PubSub, or None, and returns what it says, or None."""


class AsyncLink:
    """Sends the commands of a store to its primary; for one event loop."""

    def __init__(self, client: AsyncRedisClient, keys: Keys, directory: AsyncDirectory | None = None) -> None:
        self.client: Any = client  # redis-py's types differ between its clients
        self._is_cluster = isinstance(client, RedisCluster)
        self._keys = keys
        self._directory = directory

    async def send(self, commands: Sequence[Command] | Kept[Command]) -> list[Any]:
        """Send commands in one round trip and return their replies, or the errors of single commands.

        Kept ones are made while those before them are on their way. Commands that were redirected did not
        run, and are sent again. Raises the errors of redis-py.
        """
        replies = await self._send(commands)
        if self._directory is None:
            return replies
        for _ in range(REDIRECTS):
            owner = moved_to(replies)
            if owner is None:
                break
            self._directory.where.doubt(owner if owner.host else None)
            replies = await self._send(commands)
        if any(is_not_from_primary(reply) for reply in replies):
            self._directory.where.doubt()
        return [await self._follow(command, reply) for command, reply in zip(commands, replies, strict=True)]

    @property
    def token(self) -> object:
        """Changes when connections are in doubt: whoever holds one then makes a new one."""
        return None if self._directory is None else self._directory.where.token

    async def confirm(self) -> None:
        """Ask the Sentinels, when it is time to, whether the primary has changed; see `token`."""
        if self._directory is not None:
            await self._directory.confirm()

    async def pubsub(self) -> PubSub:
        """Return a new subscriber, which takes a connection of the pool."""
        if self._is_cluster:
            await learn_nodes(self.client)
        made: PubSub = self.client.pubsub()
        return made

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()
        if self._directory is not None:
            await self._directory.aclose()

    async def _send(self, commands: Sequence[Command] | Kept[Command]) -> list[Any]:
        try:
            if isinstance(commands, Kept):
                if not self._is_cluster:
                    return await self._streamed(commands)
                commands = [*commands]
            # In a Cluster, commands that name no key have to reach the node of the registry, too.
            options: dict[str, Any] = {}
            if self._is_cluster:
                await learn_nodes(self.client)
                options["target_nodes"] = self.client.get_node_from_key(self._keys.prefix)
            if len(commands) == 1:
                return [await answered(self.client, commands[0], **options)]
            pipeline = self.client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command, **options)
            return list(await pipeline.execute(raise_on_error=False))
        except (*REDIS_ERRORS, RuntimeError) as error:
            if self._directory is not None and not is_pool_exhausted(error):
                self._directory.where.doubt()
            if is_ended(error):
                raise redis.ConnectionError(str(error)) from error
            raise

    async def _streamed(self, commands: Iterable[Command]) -> list[Any]:
        """Send each command as soon as it is made: the server works on it, and tells others, meanwhile.

        redis-py's pipeline has all commands before it sends the first, and the server all before it answers.
        """
        pool = self.client.connection_pool
        connection = await pool.get_connection()
        try:
            exchange = partial(self._exchange, connection, commands)
            return list(await connection.retry.call_with_retry(exchange, lambda _: connection.disconnect()))
        except BaseException:  # an interruption too: replies that nobody reads are on their way
            await connection.disconnect()
            raise
        finally:
            await pool.release(connection)

    async def _exchange(self, connection: Any, commands: Iterable[Command]) -> list[Any]:
        for command in commands:
            await connection.send_command(*command)
        replies = list[Any]()
        for command in commands:
            try:
                replies.append(await self.client.parse_response(connection, command[0]))
            except redis.ResponseError as error:
                replies.append(error)
        return replies

    async def _follow(self, command: Command, reply: Any) -> Any:
        """Ask the node that the slot is being moved to, if it alone can have the key."""
        owner = asking_node(reply)
        if self._directory is None or owner is None:
            return reply
        async with closing_fully(self._directory.client(owner)) as client:
            pipeline = client.pipeline(transaction=False)
            pipeline.execute_command("ASKING")
            pipeline.execute_command(*command)
            return list(await pipeline.execute(raise_on_error=False))[1]


class AsyncReplicaLink(AsyncLink):
    """Sends reads that may be stale to a replica, while there is one."""

    def __init__(self, client: AsyncRedisClient, keys: Keys, directory: AsyncDirectory | None = None) -> None:
        super().__init__(client, keys, directory)
        self._backoff = ReplicaBackoff()

    async def attempt(self, commands: Sequence[Command]) -> list[Any] | None:
        """Return the replies of a replica; None when the primary has to be asked."""
        if not self._backoff.over(monotonic()):
            return None
        try:
            replies = await self.send(commands)
        except REDIS_ERRORS as error:
            self._backoff.failed(error, monotonic())
            return None
        return replies if self._backoff.trusts(replies, monotonic()) else None


class AsyncReaderLink(AsyncLink):
    """Sends the reads of one client to the server at which it reads, which may be a replica."""

    def __init__(
        self, client: AsyncRedisClient, keys: Keys, directory: AsyncDirectory, where: Reading
    ) -> None:
        super().__init__(client, keys, directory)
        self.where = where

    async def send(self, commands: Sequence[Command] | Kept[Command]) -> list[Any]:
        """Send reads, and return what a server answers that has the client's place in the stream."""
        where = self.where
        newest: Command = (b"XREVRANGE", self._keys.changes, "+", "-", "COUNT", 1)
        for _ in range(_MOST_SERVERS):
            token = where.token
            while token is where.token:
                place = where.place()
                last, *replies = await super().send([newest, *commands])
                problem = problem_of_server([last, *replies])
                if problem is not None:
                    where.doubt()
                    raise problem
                if token is not where.token:  # it may be the answer of a server that was left meanwhile
                    break
                wait_s = where.lacks(place, newest_of(last), monotonic())
                if wait_s is None:
                    return replies
                await sleep(wait_s)
        raise redis.ConnectionError(f"could not stay at {where}")


def open_reader(
    url: str, config: RegistryConfig, keys: Keys, place: Place, spread_s: float
) -> AsyncReaderLink:
    """Return the link of a client that reads at replicas; see Reading. Raises InvalidInput."""
    where = Reading.of(url, config, keys, place, spread_s)
    return AsyncReaderLink(*_located(where, config, keys), where)


def open_links(url: str, config: RegistryConfig, keys: Keys) -> tuple[AsyncLink, AsyncReplicaLink | None]:
    """Return the link to the primary that a URL names, and the one to its replicas if it has any.

    Nothing is connected yet. Raises InvalidInput.
    """
    endpoint, slot = parse_url(url), slot_of(keys.prefix)
    if endpoint.mode is Mode.STANDALONE:
        link = AsyncLink(_pooled(server_options(endpoint, config, redis.asyncio)), keys)
    else:
        link = AsyncLink(*_located(Whereabouts(endpoint, slot, replicas=False), config, keys))
    if endpoint.mode is Mode.STANDALONE and not endpoint.replicas:
        return link, None
    replicas = Whereabouts(endpoint, slot, replicas=True)
    return link, AsyncReplicaLink(*_located(replicas, config, keys))


def _located(
    where: Whereabouts, config: RegistryConfig, keys: Keys
) -> tuple[AsyncRedisClient, Keys, AsyncDirectory]:
    endpoint = where.endpoint
    directory = AsyncDirectory(where, asking_options(endpoint, config), config.call_deadline_s)
    kind = AsyncLocatedConnection if endpoint.tls is None else AsyncLocatedSSLConnection
    options = pool_options(endpoint, config, replicas=where.replicas)
    return _pooled({**options, "connection_class": kind, "directory": directory}), keys, directory


def _pooled(options: dict[str, Any]) -> AsyncRedisClient:
    options = {**options, "connection_class": adapted(options["connection_class"])}
    pool = redis.asyncio.BlockingConnectionPool(retry=Retry(*NO_RETRIES), **options)
    return redis.asyncio.Redis.from_pool(pool)


class AsyncSubscription(Generic[T]):
    """A subscription to a channel, or to all channels that begin with `prefix`; for one task.

    It holds a connection of the pool from its first wait on. `prefix` has no character that is special to a
    glob.
    """

    def __init__(self, link: AsyncLink, read: Reader[T], *, channel: str = "", prefix: str = "") -> None:
        self._link = link  # redis-py ends a subscription whose client is garbage collected
        self._read = read
        self._channel = channel
        self._prefix = prefix
        self._pubsub: Any = None
        self._token: object = None
        self._heard_at = -CONFIRM_S

    async def wait(self, timeout_s: float) -> T | None:
        """Return what the next message says, or None when none comes in time; 0 or less does not wait.

        Raises StoreUnavailable, and StoreRefused for a user without the right to subscribe; the next wait
        tries again.
        """
        until_s = monotonic() + timeout_s
        try:
            if not self._channel or monotonic() >= self._heard_at + CONFIRM_S:
                await self._link.confirm()
            if self._token is not self._link.token:  # its server may no longer be the primary
                await self.aclose()
            if self._pubsub is None:
                await self._subscribe()
            while True:
                # redis-py takes a negative timeout for one without end.
                said = self._read(await self._pubsub.get_message(timeout=max(0.0, timeout_s)))
                now = monotonic()
                timeout_s = until_s - now
                if said:  # whoever published it had asked the Sentinels
                    self._heard_at = now
                if said is not None or timeout_s <= 0:
                    return said
        except (*REDIS_ERRORS, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not is_ended(error):
                raise
            await self.aclose()
            raise translate(error) from error

    async def aclose(self) -> None:
        """End the subscription and give its connection back; a wait after that begins a new one."""
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            with suppress(*REDIS_ERRORS):  # a connection that cannot be closed is gone already
                await close_fully(pubsub)

    async def _subscribe(self) -> None:
        self._token = self._link.token
        self._pubsub = await self._link.pubsub()
        try:
            if self._prefix:
                await self._pubsub.psubscribe(self._prefix + "*")
            else:
                await self._pubsub.subscribe(self._channel)
        except BaseException:  # a cancellation too: half a subscription would never hear anything
            await self.aclose()
            raise
