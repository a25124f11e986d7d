"""Listening to what is published: a subscription that failed begins anew, however it failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ..concurrency_async import close_fully
from .redispy import REDIS_ERRORS, translate

if TYPE_CHECKING:
    from .links_async import AsyncLink

T = TypeVar("T")

Reader: TypeAlias = Callable[[Mapping[str, Any] | None], T | None]
"""Takes a message of redis-py's PubSub and returns what it says, None when that is nothing."""


class AsyncSubscription(Generic[T]):
    """A subscription to a channel, or to all whose names begin with `prefix`; for one task.

    From its first wait on it holds one of the pool's connections. In `prefix` nothing is special to a glob.
    """

    def __init__(self, link: AsyncLink, read: Reader[T], *, channel: str = "", prefix: str = "") -> None:
        self._link = link  # redis-py cuts a subscription off when its client is collected
        self._read = read
        self._channel = channel
        self._prefix = prefix
        self._pubsub: Any = None
        self._token: object = None

    async def wait(self, timeout_s: float) -> T | None:
        """Return what the next message says, None when none came in time; 0 or less only looks.

        Raises StoreUnavailable, and StoreRefused for a user who may not listen; the next wait tries anew.
        """
        until_s = monotonic() + timeout_s
        try:
            await self._link.confirm()
            if self._token is not self._link.token:  # it may hang on a server that is no primary any more
                await self.aclose()
            if self._pubsub is None:
                await self._subscribe()
            while True:
                # redis-py takes a negative timeout for one without end.
                said = self._read(await self._pubsub.get_message(timeout=max(0.0, timeout_s)))
                timeout_s = until_s - monotonic()
                if said is not None or timeout_s <= 0:
                    return said
        except REDIS_ERRORS as error:
            await self.aclose()
            raise translate(error) from error

    async def aclose(self) -> None:
        """End the subscription and give its connection back; a wait after that begins a new one."""
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            with suppress(*REDIS_ERRORS):  # what cannot even be closed is gone already
                await close_fully(pubsub)

    async def _subscribe(self) -> None:
        self._token = self._link.token
        self._pubsub = await self._link.pubsub()
        try:
            if self._prefix:
                await self._pubsub.psubscribe(self._prefix + "*")
            else:
                await self._pubsub.subscribe(self._channel)
        except BaseException:  # a cancellation too: half a subscription would hear nothing for ever
            await self.aclose()
            raise
