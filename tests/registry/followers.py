"""Followers of both kinds in one form, and what becomes of what they tell."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, Self, TypeAlias, cast

import redis

from sharedroutes.registry import Change, Idle, Reset
from sharedroutes.registry.change_stream.core import FollowHealth
from sharedroutes.registry.change_stream.follower import Follower
from sharedroutes.registry.change_stream.follower_async import AsyncFollower
from sharedroutes.registry.concurrency_async import end
from tests.fix_redis import AsyncFromSync, Store
from tests.support import await_until

AnyFollower: TypeAlias = AsyncFollower
"""What tests see: the asyncio follower, or the one for threads in the same form."""

_END: Final = object()

_ANNOUNCE: Final = """
for i = 1, ARGV[2] do
  local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  local id = redis.call('XADD', KEYS[1], '*', 'c', ARGV[1])
  redis.call('PUBLISH', KEYS[1], (last[1] and last[1][1] or '0-0') .. ' ' .. id .. ' ' .. ARGV[1])
end
return redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1][1]
"""
_RECORD: Final = b'{"kind":"up","broker":"other","id":0,"epoch":1,"address":"10.0.0.9:10911"}'


class _InThreads:
    """A Follower in the form of AsyncFollower: what may wait runs in a thread."""

    def __init__(self, blocking: Follower) -> None:
        self.blocking = blocking

    async def __aenter__(self) -> Self:
        self.blocking.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self) -> None:
        self.blocking.start()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.blocking.close)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await asyncio.to_thread(next, self.blocking, _END)
        if item is _END:
            raise StopAsyncIteration
        return item

    def health(self) -> FollowHealth:
        return self.blocking.health()


def follow(store: Store, position: str | None = None, **options: Any) -> AnyFollower:
    """Return a follower of the kind that the store has."""
    made: object = store
    if isinstance(made, AsyncFromSync):
        return cast("AnyFollower", _InThreads(made._blocking.follow(position, **options)))
    return store.follow(position, **options)


class Told:
    """All that a follower has told so far; every change is checked to come after the one before it."""

    def __init__(self, follower: AnyFollower) -> None:
        self.follower = follower
        self.resets: list[Reset] = []
        self.ids: list[str] = []
        """The ids of the changes since the last reset."""

        self.changes: list[Change] = []
        self.idles = 0

    @property
    def position(self) -> str | None:
        return self.ids[-1] if self.ids else self.resets[-1].position if self.resets else None

    async def listen(self) -> None:
        async for item in self.follower:
            self.take(item)

    def take(self, item: Reset | Change | Idle) -> None:
        if isinstance(item, Reset):
            self.resets.append(item)
            self.ids = []
        elif isinstance(item, Idle):
            self.idles += 1
        else:
            self.changes.append(item)
            self.ids.append(item.change_id)

    async def until(self, change_id: str, *, timeout_s: float = 10.0) -> None:
        """Wait until the follower has told of this change, itself or by a reset."""
        await await_until(
            lambda: self.position == change_id, timeout_s=timeout_s, description=f"{change_id} is told"
        )

    async def until_resets(self, count: int) -> Reset:
        """Wait until there were so many resets; return the last one."""
        await await_until(lambda: len(self.resets) >= count, description=f"{count} resets are told")
        assert len(self.resets) == count
        return self.resets[-1]


@contextlib.asynccontextmanager
async def listening(store: Store, position: str | None = None, **options: Any) -> AsyncIterator[Told]:
    """Follow and listen in the background; the first contact has been made, and the doorbell hangs."""
    async with watching(follow(store, position, **options)) as told:
        if position is None:
            await told.until_resets(1)
        await await_until(lambda: told.follower.health().age_s is not None, description="the first contact")
        yield told


@contextlib.asynccontextmanager
async def watching(follower: AnyFollower) -> AsyncIterator[Told]:
    """Listen to a follower in the background; a fault of the listener is a fault of the test."""
    told = Told(follower)
    async with follower:
        task = asyncio.create_task(told.listen())
        try:
            yield told
        finally:
            await follower.aclose()
            if isinstance(follower, AsyncFollower):
                await end(task)
            await asyncio.wait_for(asyncio.shield(task), 5)


def tell(admin: redis.Redis, key: str, count: int = 1, *, record: bytes = _RECORD) -> str:
    """Write so many changes and ring the doorbell for each; return the id of the last."""
    change_id: Any = admin.eval(_ANNOUNCE, 1, key, record, count)
    return str(change_id.decode())


def tell_silently(admin: redis.Redis, key: str, *, record: bytes = _RECORD) -> str:
    """Write a change without ringing the doorbell; return its id."""
    change_id: Any = admin.xadd(key, {"c": record})
    return str(change_id.decode())
