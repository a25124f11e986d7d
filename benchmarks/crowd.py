"""A process full of clients: `python -m benchmarks.crowd URL KIND COUNT TOPIC,TOPIC,... RECONNECT_S`.

COUNT clients in one event loop, with 10 of the topics each: AsyncRouteClients (KIND `routes`), or what one
would write first (KIND `polling`, which does not look at RECONNECT_S). It says `ready` when all of them know
their topics; for each line on standard input it answers how many are in touch with the store.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

import redis.asyncio

from sharedroutes.client import AsyncRouteClient, ClientConfig

from .kit.workload import hash_key

ROUTES: Final = "routes"
POLLING: Final = "polling"

_POLL_S: Final = 1.0
_TOPICS_OF_CLIENT: Final = 10


class _Client(Protocol):
    def in_touch(self) -> bool: ...


class _Routes:
    """A route client, whose settings are the default ones but for what the benchmark says."""

    def __init__(self, client: AsyncRouteClient) -> None:
        self._client = client

    def in_touch(self) -> bool:
        return self._client.health().source == "live"


class _Polling:
    """Reads a hash a topic every second, and tries again after a second."""

    def __init__(self, url: str, topics: Sequence[str]) -> None:
        self._client: Any = redis.asyncio.Redis.from_url(url)
        self._topics = topics
        self._table: dict[str, dict[bytes, bytes]] = {}
        self._in_touch = False
        self._task = asyncio.create_task(self._follow())

    def in_touch(self) -> bool:
        return self._in_touch

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        await self._client.aclose()

    async def _follow(self) -> None:
        await asyncio.sleep(random.uniform(0, _POLL_S))
        while True:
            try:
                pipeline = self._client.pipeline(transaction=False)
                for topic in self._topics:
                    pipeline.hgetall(hash_key(topic))
                self._table.update(zip(self._topics, await pipeline.execute(), strict=True))
                self._in_touch = True
            except (redis.RedisError, OSError):
                self._in_touch = False
            await asyncio.sleep(_POLL_S)


async def main(url: str, kind: str, count: int, topics: Sequence[str], reconnect_s: float) -> None:
    """Run the clients until the standard input ends; raises StoreUnavailable when the start fails."""
    config = ClientConfig(reconnect_s=reconnect_s)
    async with AsyncExitStack() as stack:
        clients: list[_Client] = []
        for _ in range(count):
            own = random.sample(topics, min(_TOPICS_OF_CLIENT, len(topics)))
            made = _routes(stack, url, own, config) if kind == ROUTES else _polling(stack, url, own)
            clients.append(await made)
        while _in_touch(clients) < count:  # noqa: ASYNC110 - a client has no event for it
            await asyncio.sleep(0.05)
        _say("ready")
        while await asyncio.to_thread(sys.stdin.readline):
            _say(_in_touch(clients))


async def _routes(stack: AsyncExitStack, url: str, topics: Sequence[str], config: ClientConfig) -> _Client:
    client = await stack.enter_async_context(AsyncRouteClient.from_url(url, config))
    if len(await client.get(topics)) != len(topics):
        raise RuntimeError("a topic of the benchmark has no route")
    return _Routes(client)


async def _polling(stack: AsyncExitStack, url: str, topics: Sequence[str]) -> _Client:
    client = _Polling(url, topics)
    stack.push_async_callback(client.aclose)
    return client


def _in_touch(clients: Sequence[_Client]) -> int:
    return sum(client.in_touch() for client in clients)


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, where, what, how_many, names, reconnect = sys.argv
    asyncio.run(main(where, what, int(how_many), names.split(","), float(reconnect)))
