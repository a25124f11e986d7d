"""Connections of asyncio write what redis-py writes, packed by hiredis, and lose no cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

from sharedroutes.registry import AsyncRouteStore
from sharedroutes.registry.connection.adapted import adapted
from sharedroutes.registry.connection.links_async import open_links

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


def test_many_commands_are_packed_in_pieces_one_after_the_other() -> None:
    packed = list[int]()

    def commands() -> Iterator[tuple[str, str]]:
        for number in range(10):
            packed.append(number)
            yield "ECHO", str(number) * 60_000

    pieces = adapted(redis.asyncio.Connection)().pack_commands(commands())
    first = next(pieces)
    assert packed == [0, 1]
    rest = [*pieces]
    theirs = b"".join(redis.asyncio.Connection().pack_commands(commands()))
    assert first + b"".join(rest) == theirs
    assert len(rest) == 4


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
