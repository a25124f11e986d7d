"""What located connections rely on in redis-py, which has no hook for them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias

import pytest
import redis
import redis.asyncio

from sharedroutes.registry import EmbeddedServer
from sharedroutes.registry.connection import located, located_async
from sharedroutes.registry.connection.discovery import Whereabouts
from sharedroutes.registry.connection.url import parse_url
from tests.ports import free_port

Ask: TypeAlias = Callable[..., Awaitable[Any]]
"""Sends a command over a pool of one located connection and returns its reply."""

Asking: TypeAlias = Callable[[Whereabouts], AbstractAsyncContextManager[Ask]]


@pytest.fixture
def where(own_server: EmbeddedServer) -> Whereabouts:
    """Two addresses to choose from; a server listens at one of them only."""
    server = own_server.url.removeprefix("redis://").partition("/")[0]
    endpoint = parse_url(f"redis://127.0.0.1:1?replica=127.0.0.1:{free_port()},{server}")
    return Whereabouts(endpoint, 0, replicas=True)


@contextlib.asynccontextmanager
async def by_threads(where: Whereabouts) -> AsyncIterator[Ask]:
    pool = redis.BlockingConnectionPool(
        connection_class=located.LocatedConnection,
        directory=located.Directory(where, {}, 3.0),
        max_connections=1,
    )
    with redis.Redis.from_pool(pool) as client:
        yield partial(asyncio.to_thread, client.execute_command)


@contextlib.asynccontextmanager
async def by_asyncio(where: Whereabouts) -> AsyncIterator[Ask]:
    pool = redis.asyncio.BlockingConnectionPool(
        connection_class=located_async.AsyncLocatedConnection,
        directory=located_async.AsyncDirectory(where, {}, 3.0),
        max_connections=1,
    )
    async with redis.asyncio.Redis.from_pool(pool) as client:
        yield client.execute_command


BOTH = pytest.mark.parametrize("asking", [by_threads, by_asyncio])


@BOTH
async def test_a_connection_goes_where_it_is_sent_while_it_connects(
    asking: Asking, where: Whereabouts
) -> None:
    async with asking(where) as ask:
        for _ in range(10):  # the addresses are tried in any order
            assert await ask("PING")
            where.doubt()


@BOTH
async def test_a_pool_asks_a_connection_to_connect_before_every_use(
    asking: Asking, where: Whereabouts
) -> None:
    async with asking(where) as ask:
        first = await ask("CLIENT", "ID")
        assert await ask("CLIENT", "ID") == first
        where.doubt()
        assert await ask("CLIENT", "ID") != first


class Odd(Whereabouts):
    """Finds something wrong with every server, once it is told to."""

    what = ""

    @property
    def checks_role(self) -> bool:
        """Whether servers are asked for their role."""
        return True

    def odd_role(self, *_: object) -> str:
        """Return what is wrong."""
        return self.what


async def test_a_subscription_that_finds_no_good_server_is_an_error_and_asks_each_once(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(located, "CHECK_AGAIN_S", 0.0)
    monkeypatch.setattr(located_async, "CHECK_AGAIN_S", 0.0)
    server = own_server.url.removeprefix("redis://").partition("/")[0]
    where = Odd(parse_url(f"redis://127.0.0.1:1?replica={server}"), 0, replicas=True)
    with redis.Redis.from_url(own_server.url) as admin:
        pool = redis.BlockingConnectionPool(
            connection_class=located.LocatedConnection, directory=located.Directory(where, {}, 3.0)
        )
        with redis.Redis.from_pool(pool) as client, client.pubsub() as bell:
            bell.subscribe("changes")
            assert bell.get_message(timeout=5.0)
            where.what = "is odd"
            admin.client_kill_filter(_type="pubsub")
            with pytest.raises(redis.ConnectionError, match="is odd"):
                bell.get_message(timeout=5.0)
        async_pool = redis.asyncio.BlockingConnectionPool(
            connection_class=located_async.AsyncLocatedConnection,
            directory=located_async.AsyncDirectory(where, {}, 3.0),
        )
        where.what = ""
        async with redis.asyncio.Redis.from_pool(async_pool) as client, client.pubsub() as bell:
            await bell.subscribe("changes")
            assert await bell.get_message(timeout=5.0)
            where.what = "is odd"
            admin.client_kill_filter(_type="pubsub")
            with pytest.raises(redis.ConnectionError, match="is odd"):
                await bell.get_message(timeout=5.0)


@pytest.mark.parametrize("library", [redis, redis.asyncio])
def test_redis_py_connects_without_arguments_and_encrypts_by_a_kind_of_connection(library: Any) -> None:
    assert [*inspect.signature(library.Connection.connect).parameters] == ["self"]
    assert issubclass(library.SSLConnection, library.Connection)


@pytest.mark.parametrize(
    ("kind", "library"),
    [(located.LocatedSSLConnection, redis), (located_async.AsyncLocatedSSLConnection, redis.asyncio)],
)
def test_a_located_connection_over_tls_locates_first(kind: type, library: Any) -> None:
    order = kind.__mro__
    assert (
        order.index(kind.__bases__[0]) < order.index(library.SSLConnection) < order.index(library.Connection)
    )
