"""Connections of asyncio write what redis-py writes, packed by hiredis, and lose no cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from sharedroutes.registry import AsyncRouteStore
from sharedroutes.registry.connection import links
from sharedroutes.registry.connection.adapted import adapted
from sharedroutes.registry.connection.links_async import AsyncLink, open_links
from sharedroutes.registry.keys import Keys
from sharedroutes.registry.plans import Command, Kept
from tests.support import wait_until

KEYS = Keys("sharedroutes")
LARGE = KEYS.kv("large")


@asynccontextmanager
async def link_to(url: str, **options: Any) -> AsyncIterator[AsyncLink]:
    """Return the link of a client of a caller's own, whose connections are adapted."""
    client = redis.asyncio.Redis.from_url(url, **options)
    pool: Any = client.connection_pool
    pool.connection_class = adapted(pool.connection_class)
    async with client:
        yield AsyncLink(client, KEYS)


def large(number: int) -> Command:
    """Return a command that is sent by itself."""
    return "HSET", LARGE, number, "x" * 20_000


KINDS: dict[Any, dict[str, Any]] = {
    redis.asyncio.Connection: {},
    redis.asyncio.SSLConnection: {},
    redis.asyncio.UnixDomainSocketConnection: {"path": "/nowhere"},
}
COMMANDS: tuple[tuple[Any, ...], ...] = (
    ("PING",),
    ("CONFIG GET", "save"),
    (b"EVALSHA", "0" * 40, 2, "{ns}:täglich", b"\x00\r\n", -7, 1.5, "", "x" * 20_000),
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_packed_is_what_redis_py_packs(kind: Any) -> None:
    ours, theirs = adapted(kind)(**KINDS[kind]), kind(**KINDS[kind])
    for command in COMMANDS:
        assert b"".join(ours.pack_command(*command)) == b"".join(theirs.pack_command(*command))
    assert b"".join(ours.pack_commands(COMMANDS)) == b"".join(theirs.pack_commands(COMMANDS))


def test_connections_of_threads_stay_as_they_are() -> None:
    assert adapted(redis.Connection) is redis.Connection


async def test_a_store_sends_what_was_packed_so(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncRouteStore.from_url(redis_url) as store:
        link, _ = open_links(redis_url, store.config, store.keys)
        kind = link.client.connection_pool.connection_class
        assert kind.__module__ == adapted.__module__
        own, sent = kind.pack_command, list[object]()

        def pack(connection: redis.asyncio.Connection, *command: object) -> list[bytes]:
            sent.append(command[0])
            return list(own(connection, *command))

        monkeypatch.setattr(kind, "pack_command", pack)
        await store.topics()
        await link.aclose()
    assert sent


def each_when_the_last_is_written(admin: redis.Redis, text_bytes: int) -> Iterator[Command]:
    """Yield ten commands, each when the server has those before it."""
    for number in range(10):
        wait_until(lambda: admin.hlen(LARGE) == number, description="those before are written")  # noqa: B023
        yield "HSET", LARGE, number, "x" * text_bytes


@pytest.mark.parametrize("text_bytes", [1, 20_000])
async def test_the_server_has_the_first_command_before_the_second_is_made(
    redis_url: str, admin: redis.Redis, text_bytes: int
) -> None:
    async with link_to(redis_url) as link:
        assert await link.send(Kept(each_when_the_last_is_written(admin, text_bytes))) == [1] * 10


@pytest.mark.parametrize("text_bytes", [1, 20_000])
def test_the_server_has_the_first_command_of_a_thread_before_the_second_is_made(
    redis_url: str, admin: redis.Redis, text_bytes: int
) -> None:
    with closing(redis.Redis.from_url(redis_url)) as client:
        commands = Kept(each_when_the_last_is_written(admin, text_bytes))
        assert links.Link(client, KEYS).send(commands) == [1] * 10


async def test_what_was_lost_with_its_connection_is_sent_again_and_the_rest_after_it(
    redis_url: str, admin: redis.Redis
) -> None:
    async with link_to(redis_url, retry=Retry(NoBackoff(), 1)) as link:
        assert await link.send([("PING",)]) == [True]
        made = list[int]()

        def commands() -> Iterator[Command]:
            for number in range(10):
                made.append(number)
                if number == 5:
                    admin.client_kill_filter(_type="normal", skipme=True)
                yield large(number)

        assert len(await link.send(Kept(commands()))) == admin.hlen(LARGE) == 10
        assert made == [*range(10)]


async def test_a_connection_that_was_cancelled_between_two_commands_is_not_used_again(redis_url: str) -> None:
    async with link_to(redis_url, max_connections=1) as link:

        def commands() -> Iterator[Command]:
            for number in range(10):
                if number == 5:
                    sending.cancel()
                yield large(number)

        sending = asyncio.create_task(link.send(Kept(commands())))
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert await link.send([("ECHO", "again"), ("ECHO", "and again")]) == [b"again", b"and again"]


def test_a_connection_that_was_interrupted_between_two_commands_is_not_used_again(redis_url: str) -> None:
    def commands() -> Iterator[Command]:
        for number in range(10):
            if number == 5:
                raise KeyboardInterrupt
            yield large(number)

    with closing(redis.Redis.from_url(redis_url, max_connections=1)) as client:
        link = links.Link(client, KEYS)
        with pytest.raises(KeyboardInterrupt):
            link.send(Kept(commands()))
        assert link.send([("ECHO", "again"), ("ECHO", "and again")]) == [b"again", b"and again"]


async def test_an_error_of_one_command_is_its_reply(redis_url: str) -> None:
    async with link_to(redis_url) as link:
        first, wrong, last = await link.send(Kept([("ECHO", "a"), ("HGET", "a"), ("ECHO", "b")]))
        assert (first, last) == (b"a", b"b")
        assert isinstance(wrong, redis.ResponseError)


async def test_a_call_that_is_cancelled_does_not_go_on(redis_url: str) -> None:
    async with AsyncRouteStore.from_url(redis_url) as store:
        for turns in range(60):  # of the event loop; among them all at which redis-py sends
            task = asyncio.create_task(store.topics())
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await task
        assert await store.topics() == []
