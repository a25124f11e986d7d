"""How the asyncio store reaches its servers: bounded pools whose connections find the right server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, TypeAlias

import redis
import redis.asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry

from ..concurrency_async import close_fully, closing_fully, learn_nodes
from ..config import RegistryConfig
from ..keys import Keys
from ..plans import Command
from .connect import Address, Endpoint, Mode, parse_url
from .locate import CHECK_AGAIN_S, REDIRECTS, Whereabouts
from .options import asking_options, pool_options, retry_arguments, server_options
from .redispy import (
    REDIS_ERRORS,
    Rest,
    asked_of,
    moved_to,
    nobody_knows,
    of_the_pool,
    report_switch,
    slot_of,
    suspicious,
)
from .switchover import ANSWER_S, Opinion, Switchover, believed, epoch_in

AsyncRedisClient: TypeAlias = redis.asyncio.Redis | RedisCluster
"""The client that a store can be made over."""


class _Directory:
    """Finds the servers of one role; for one event loop."""

    def __init__(self, where: Whereabouts, options: dict[str, Any], deadline_s: float) -> None:
        self.where = where
        self.options = options
        self.deadline_s = deadline_s
        self._switchover = Switchover(where.endpoint.nodes if where.may_switch else ())
        self._sentinels: dict[Address, redis.asyncio.Redis] = {}

    async def confirm(self) -> None:
        """Ask the Sentinels now and then whether the primary is still the one; if not, doubt all connections.

        Where none answers nobody can know, and things stay as they are.
        """
        where, current = self.where, self.where.current
        if current is None or not where.may_switch or not self._switchover.due(monotonic()):
            return
        opinions = await self._opinions(with_epochs=False)
        if all(opinion.named == current for opinion in opinions):
            return
        followed = believed(await self._opinions(with_epochs=True), current)
        if followed is not None and where.current == current:  # else somebody was quicker
            report_switch(where, current, followed.named)
            where.doubt(followed.sentinel)

    async def _opinions(self, *, with_epochs: bool) -> list[Opinion]:
        """Return what each Sentinel says that answers."""
        opinions = list[Opinion]()
        for sentinel in self._switchover.to_ask(monotonic()):
            try:
                named = self.where.named_by(await self._told(sentinel, self.where.question))
                epoch = None
                if with_epochs:
                    epoch = epoch_in(await self._told(sentinel, self.where.epoch_question))
                opinions += [Opinion(sentinel, named, epoch)] if named is not None else []
            except REDIS_ERRORS:
                self._switchover.silent(sentinel, monotonic())
        return opinions

    async def _told(self, sentinel: Address, question: Sequence[str]) -> Any:
        """Return the answer of a Sentinel, or the error that it answered with."""
        client = self._sentinels.get(sentinel)
        if client is None:
            options = {**self.options, "socket_timeout": ANSWER_S, "socket_connect_timeout": ANSWER_S}
            client = self._sentinels[sentinel] = self.client(sentinel, options)
        try:
            return await client.execute_command(*question)
        except redis.ResponseError as error:
            return error

    async def aclose(self) -> None:
        """Close the connections to Sentinels."""
        for each in self._sentinels.values():
            await close_fully(each)
        self._sentinels.clear()

    async def locate(self) -> list[Address]:
        """Ask where to connect to; raise an error of redis-py when nobody tells in time."""
        where = self.where
        if not where.question:
            return where.fixed()
        deadline = monotonic() + self.deadline_s
        problem: Exception | None = None
        for asked in where.to_ask():
            try:
                async with closing_fully(self.client(asked)) as client:
                    found = where.answer(await client.execute_command(*where.question), asked)
                if found:
                    return found
            except REDIS_ERRORS as error:
                problem = error
            if monotonic() >= deadline:
                break
        raise nobody_knows(where, problem) from problem

    def client(self, address: Address, options: Mapping[str, Any] | None = None) -> redis.asyncio.Redis:
        """Return a client of one server, which is to be asked where others are."""
        retry = Retry(*retry_arguments())
        return redis.asyncio.Redis(
            host=address.host, port=address.port, retry=retry, **(options or self.options)
        )


class _Located:
    """What makes a connection find its server whenever it connects, and leave one that is in doubt."""

    def __init__(self, *, directory: _Directory, **options: Any) -> None:
        self._directory = directory
        self._token: object = None
        self._check_at = 0.0
        super().__init__(**options)

    async def connect(self: Any) -> None:
        where: Whereabouts = self._directory.where
        await self._directory.confirm()
        if self.is_connected and self._token is where.token and await self._is_good():
            return
        await self.disconnect()
        self._token = where.token
        problem: Exception | None = None
        deadline = monotonic() + self._directory.deadline_s
        for address in await self._directory.locate():
            self.host, self.port = address
            try:
                await super().connect()  # type: ignore[misc]
                if where.needs_readonly:
                    await self.send_command("READONLY")
                    await self.read_response()
                self._check_at = 0.0
                await self._check()
            except REDIS_ERRORS as error:
                await self.disconnect()
                problem = error
            else:
                where.found(address)
                return
            if monotonic() >= deadline:
                break
        raise problem or nobody_knows(where, None)

    async def _is_good(self: Any) -> bool:
        """Check a connection that was idle; the server may have closed it meanwhile."""
        try:
            await self._check()
        except (redis.TimeoutError, TimeoutError):
            raise  # who hangs would take as long again for a new connection
        except REDIS_ERRORS:
            return False
        return True

    async def _check(self: Any) -> None:
        """Raise an error unless the server is what it should be: the primary, or a replica that hears it."""
        if self._directory.where.checks_role and monotonic() >= self._check_at:
            await self.send_command("ROLE")
            odd = self._directory.where.odd_role(await self.read_response())
            if odd:
                await self.disconnect()
                raise redis.ConnectionError(f"{self.host}:{self.port} {odd}")
            self._check_at = monotonic() + CHECK_AGAIN_S


class _LocatedConnection(_Located, redis.asyncio.Connection):
    pass


class _LocatedSSLConnection(_Located, redis.asyncio.SSLConnection):
    pass


class AsyncLink:
    """Sends the commands of a store to its primary; for one event loop."""

    def __init__(self, client: AsyncRedisClient, keys: Keys, directory: _Directory | None = None) -> None:
        self.client: Any = client  # redis-py's types differ between its clients
        self._keys = keys
        self._directory = directory

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip and return their replies, or the errors of single commands.

        Commands that were redirected did not run, and are sent again. Raises the errors of redis-py.
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
        if any(suspicious(reply) for reply in replies):
            self._directory.where.doubt()
        return [await self._follow(command, reply) for command, reply in zip(commands, replies, strict=True)]

    @property
    def token(self) -> object:
        """Another one than before: whoever holds a connection should make a new one."""
        return None if self._directory is None else self._directory.where.token

    async def confirm(self) -> None:
        """Find out now and then whether the primary is still the one; see `token`."""
        if self._directory is not None:
            await self._directory.confirm()

    async def pubsub(self) -> PubSub:
        """Return a new subscriber; its connection is one of the pool's."""
        if isinstance(self.client, RedisCluster):
            await learn_nodes(self.client)
        made: PubSub = self.client.pubsub()
        return made

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()
        if self._directory is not None:
            await self._directory.aclose()

    async def _send(self, commands: Sequence[Command]) -> list[Any]:
        try:
            # What names no key must reach the same node of a Cluster as what does.
            options: dict[str, Any] = {}
            if isinstance(self.client, RedisCluster):
                await learn_nodes(self.client)
                options["target_nodes"] = self.client.get_node_from_key(self._keys.prefix)
            if len(commands) == 1:
                return [await self._one(commands[0], options)]
            pipeline = self.client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command, **options)
            return list(await pipeline.execute(raise_on_error=False))
        except REDIS_ERRORS as error:
            if self._directory is not None and not of_the_pool(error):
                self._directory.where.doubt()
            raise

    async def _one(self, command: Command, options: dict[str, Any]) -> Any:
        try:
            return await self.client.execute_command(*command, **options)
        except redis.ResponseError as error:
            return error

    async def _follow(self, command: Command, reply: Any) -> Any:
        """Ask the node that a slot is on its way to, when it alone can know the key."""
        owner = asked_of(reply)
        if self._directory is None or owner is None:
            return reply
        async with closing_fully(self._directory.client(owner)) as client:
            pipeline = client.pipeline(transaction=False)
            pipeline.execute_command("ASKING")
            pipeline.execute_command(*command)
            return list(await pipeline.execute(raise_on_error=False))[1]


class AsyncReplicaLink(AsyncLink):
    """Sends reads that may be stale to a replica, as long as there is one."""

    def __init__(self, client: AsyncRedisClient, keys: Keys, directory: _Directory | None = None) -> None:
        super().__init__(client, keys, directory)
        self._rest = Rest()

    async def attempt(self, commands: Sequence[Command]) -> list[Any] | None:
        """Return the replies of a replica; None when the primary has to be asked."""
        if not self._rest.over(monotonic()):
            return None
        try:
            replies = await self.send(commands)
        except REDIS_ERRORS as error:
            self._rest.failed(error, monotonic())
            return None
        return replies if self._rest.trusts(replies, monotonic()) else None


def open_links(url: str, config: RegistryConfig, keys: Keys) -> tuple[AsyncLink, AsyncReplicaLink | None]:
    """Return the link to the primary that a URL names, and the one to its replicas if it has any.

    Nothing is connected yet. Raises InvalidInput.
    """
    endpoint = parse_url(url)
    if endpoint.mode is not Mode.STANDALONE:
        primary, replicas = (_located(endpoint, config, keys, replicas=which) for which in (False, True))
        return AsyncLink(*primary), AsyncReplicaLink(*replicas)
    link = AsyncLink(_pooled(server_options(endpoint, config, redis.asyncio)), keys)
    if not endpoint.replicas:
        return link, None
    return link, AsyncReplicaLink(*_located(endpoint, config, keys, replicas=True))


def _located(
    endpoint: Endpoint, config: RegistryConfig, keys: Keys, *, replicas: bool
) -> tuple[AsyncRedisClient, Keys, _Directory]:
    where = Whereabouts(endpoint, slot_of(keys.prefix), replicas=replicas)
    directory = _Directory(where, asking_options(endpoint, config), config.call_deadline_s)
    kind = _LocatedConnection if endpoint.tls is None else _LocatedSSLConnection
    options = pool_options(endpoint, config, replicas=replicas)
    return _pooled({**options, "connection_class": kind, "directory": directory}), keys, directory


def _pooled(options: dict[str, Any]) -> AsyncRedisClient:
    pool = redis.asyncio.BlockingConnectionPool(retry=Retry(*retry_arguments()), **options)
    return redis.asyncio.Redis.from_pool(pool)
