"""Connections that find their server whenever they connect, by asking Sentinels or nodes of a Cluster.

They override `connect` of redis-py's connections. Its pools call that before every use of a connection,
connected or not, so it is the place to leave a server that is in doubt and to find the right one. redis-py
has no hook for this; tests/registry/test_located.py fails when it changes what is relied on here.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry

from ..concurrency_async import close_fully, closing_fully
from ..plans import Command
from .adapted import adapted
from .discovery import ANSWER_S, CHECK_AGAIN_S, Opinion, Switchover, Whereabouts, believed, epoch_in
from .replies import REDIS_ERRORS, not_found, report_switch
from .url import NO_RETRIES, Address


async def answered(client: Any, command: Command, **options: Any) -> Any:
    """Return the reply to a command, or the error that the server answered with."""
    try:
        return await client.execute_command(*command, **options)
    except redis.ResponseError as error:
        return error


class AsyncDirectory:
    """Finds the servers of one role; for one event loop."""

    def __init__(self, where: Whereabouts, options: dict[str, Any], deadline_s: float) -> None:
        self.where = where
        self.deadline_s = deadline_s
        self._options = options
        self._switchover = Switchover(where.endpoint.nodes)
        self._sentinels: dict[Address, redis.asyncio.Redis] = {}

    def client(self, address: Address, **options: Any) -> redis.asyncio.Redis:
        """Return a new client of one server, to ask it where others are."""
        options = {**self._options, **options, "retry": Retry(*NO_RETRIES)}
        client = redis.asyncio.Redis(host=address.host, port=address.port, **options)
        pool: Any = client.connection_pool
        pool.connection_class = adapted(pool.connection_class)
        return client

    async def locate(self) -> list[Address]:
        """Return the addresses to connect to; raise an error of redis-py when no server names any in time."""
        where = self.where
        if not where.questions:
            return where.in_order(where.fixed(), monotonic())
        deadline = monotonic() + self.deadline_s
        problem: Exception | None = None
        for asked in where.to_ask():
            try:
                async with closing_fully(self.client(asked)) as client:
                    found = list[Address]()
                    for question in where.questions:
                        found += where.answer(await client.execute_command(*question), asked)
                if found:
                    return where.in_order(found, monotonic())
            except REDIS_ERRORS as error:
                problem = error
            if monotonic() >= deadline:
                break
        raise not_found(where, problem) from problem

    async def confirm(self) -> None:
        """Ask the Sentinels, when it is time to, whether the primary is still the one; if not, doubt it.

        While no Sentinel answers, the connections stay as they are.
        """
        where, current = self.where, self.where.current
        if current is None or not where.may_switch or not self._switchover.due(monotonic()):
            return
        opinions = await self._opinions(with_epochs=False)
        if all(opinion.named == current for opinion in opinions):
            return
        followed = believed(await self._opinions(with_epochs=True), current)
        if followed is not None and where.current == current:  # else another caller was quicker
            report_switch(where, current, followed.named)
            where.doubt(followed.sentinel)

    async def aclose(self) -> None:
        """Close the connections to Sentinels."""
        for each in self._sentinels.values():
            await close_fully(each)
        self._sentinels.clear()

    async def _opinions(self, *, with_epochs: bool) -> list[Opinion]:
        """Return what each Sentinel says that answers."""
        opinions = list[Opinion]()
        for sentinel in self._switchover.to_ask(monotonic()):
            try:
                named = self.where.named_by(await self._ask(sentinel, self.where.primary_question))
                epoch = None
                if with_epochs:
                    epoch = epoch_in(await self._ask(sentinel, self.where.epoch_question))
                opinions += [Opinion(sentinel, named, epoch)] if named is not None else []
            except REDIS_ERRORS:
                self._switchover.silent(sentinel, monotonic())
        return opinions

    async def _ask(self, sentinel: Address, question: Command) -> Any:
        """Return the answer of a Sentinel, or the error that it answered with."""
        client = self._sentinels.get(sentinel)
        if client is None:
            client = self.client(sentinel, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S)
            self._sentinels[sentinel] = client
        return await answered(client, question)


class AsyncLocatedConnection(redis.asyncio.Connection):
    """A connection that finds its server whenever it connects, and leaves one that is in doubt."""

    def __init__(self, *, directory: AsyncDirectory, **options: Any) -> None:
        self._directory = directory
        self._token: object = None
        self._check_at = 0.0
        self._is_connecting = False
        super().__init__(**options)

    async def connect(self) -> None:
        """Connect to the right server, unless that is so; raise an error of redis-py."""
        if self._is_connecting:  # redis-py calls back: it subscribes again as soon as there is a connection
            await self._check()
            return
        self._is_connecting = True
        try:
            await self._find()
        finally:
            self._is_connecting = False

    async def _find(self) -> None:
        where = self._directory.where
        await self._directory.confirm()
        if self.is_connected and self._token is where.token and await self._is_good():
            return
        await self.disconnect()
        self._token = where.token
        problem: Exception | None = None
        deadline = monotonic() + self._directory.deadline_s
        for address in await self._directory.locate():
            try:
                await self._connect_to(address)
            except REDIS_ERRORS as error:
                await self.disconnect()
                problem = error
            else:
                if where.found(address):
                    self._token = where.token
                return
            if monotonic() >= deadline:
                break
        raise problem or not_found(where, None)

    async def _connect_to(self, address: Address) -> None:
        self.host, self.port = address
        await super().connect()
        if self._directory.where.needs_readonly:
            await self.send_command("READONLY")
            await self.read_response()
        self._check_at = 0.0
        await self._check()

    async def _is_good(self) -> bool:
        """Check a connection that was idle; the server may have closed it meanwhile."""
        try:
            await self._check()
        except (redis.TimeoutError, TimeoutError):
            raise  # a server that hangs would take as long again for a new connection
        except REDIS_ERRORS:
            return False
        return True

    async def _check(self) -> None:
        """Raise an error unless the server is what it should be: the primary, or a replica that hears it."""
        if self._directory.where.checks_role and monotonic() >= self._check_at:
            await self.send_command("ROLE")
            role = await self.read_response()
            odd = self._directory.where.odd_role(role, Address(self.host, self.port), monotonic())
            if odd:
                await self.disconnect()
                raise redis.ConnectionError(f"{self.host}:{self.port} {odd}")
            self._check_at = monotonic() + CHECK_AGAIN_S


class AsyncLocatedSSLConnection(AsyncLocatedConnection, redis.asyncio.SSLConnection):
    """The same over TLS."""
