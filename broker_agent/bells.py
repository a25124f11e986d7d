"""Tells standbys of the end of their owner, and slaves of their master, by the doorbell of the changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from ..registry import AsyncRouteStore, RegistryError
from ..registry.concurrency_async import end

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_WAIT_S: Final = 60.0
_RETRY_S: Final = 5.0
"""After a failure; standbys look once a second all the while."""

_DOWN: Final = b'"kind":"down"'
_UP: Final = b'"kind":"up"'

About: TypeAlias = Callable[[bytes | None, str], bool]
"""Whether a message may be about the broker of that name; None = nothing was heard, for whatever reason."""


def tells_of_a_master(message: bytes | None, broker_name: str) -> bool:
    """Whether the group of the broker may have another master by now: a long silence may be a deaf ear."""
    if not message:
        return True
    return (_DOWN in message or _UP in message) and broker_name.encode() in message


def tells_of_an_end(message: bytes | None, broker_name: str) -> bool:
    """Whether a message of the doorbell may mean that a lease of the broker has ended.

    The record is not parsed: a registry has many changes, and a look in vain costs one small call. An empty
    message says that the subscription has begun: what rang before was not heard.
    """
    if message is None:
        return False
    return not message or (_DOWN in message and broker_name.encode() in message)


class Bells:
    """One subscription for all standbys and slaves over one store, for as long as there are any.

    It holds a connection of the store's pool, which all agents of a process share.
    """

    def __init__(self) -> None:
        self._told: dict[object, tuple[About, str, Callable[[], None]]] = {}
        self._listening: asyncio.Task[None] | None = None

    def join(
        self,
        store: AsyncRouteStore,
        who: object,
        broker_name: str,
        tell: Callable[[], None],
        about: About = tells_of_an_end,
    ) -> None:
        """Call `tell` whenever something was heard `about` the broker, until `leave`."""
        self._told[who] = about, broker_name, tell
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(store), name="sharedroutes: bell")
        else:  # the owner may have left since it was last asked for
            tell()

    async def leave(self, who: object) -> None:
        """Tell this one no more."""
        self._told.pop(who, None)
        if not self._told and self._listening is not None:
            listening, self._listening = self._listening, None
            await end(listening)

    async def _listen(self, store: AsyncRouteStore) -> None:
        while True:
            try:
                async with aclosing(store.doorbell()) as doorbell:
                    while True:
                        self._ring(await doorbell.wait(_WAIT_S))
            except RegistryError as error:
                _LOG.debug("no doorbell: standbys look once a second, slaves every 5 s: %s", error)
                self._ring(None)
            await asyncio.sleep(_RETRY_S)

    def _ring(self, message: bytes | None) -> None:
        for about, broker_name, tell in [*self._told.values()]:
            if about(message, broker_name):
                tell()


_BELLS: Final = WeakKeyDictionary[AsyncRouteStore, Bells]()


def bells_of(store: AsyncRouteStore) -> Bells:
    """Return the one of this store."""
    if store not in _BELLS:
        _BELLS[store] = Bells()
    return _BELLS[store]
