"""Tells standbys that the owner of their broker has left, by the doorbell of the registry's changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final
from weakref import WeakKeyDictionary

from ..registry import AsyncRouteStore, RegistryError
from ..registry.aiotasks import end

__all__ = ["Bells", "bells_of", "tells_of_an_end"]

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_WAIT_S: Final = 60.0
_RETRY_S: Final = 5.0
"""After a failure; standbys look once a second all the while."""

_DOWN: Final = b'"kind":"down"'


def tells_of_an_end(message: bytes, broker_name: str) -> bool:
    """Whether a message of the doorbell may mean that a lease of the broker has ended.

    The record is not parsed: a registry has many changes, and a look in vain costs one small call. An empty
    message says that the subscription has begun: what rang before was not heard.
    """
    return not message or (_DOWN in message and broker_name.encode() in message)


class Bells:
    """One subscription for all standbys over one store, for as long as there are any.

    It holds a connection of the store's pool, which all agents of a process share.
    """

    def __init__(self) -> None:
        self._told: dict[object, tuple[str, Callable[[], None]]] = {}
        self._listening: asyncio.Task[None] | None = None

    def join(self, store: AsyncRouteStore, who: object, broker_name: str, tell: Callable[[], None]) -> None:
        """Call `tell` whenever the owner of the broker has perhaps left, until `leave`."""
        self._told[who] = broker_name, tell
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
                _LOG.debug("no doorbell, standbys look once a second: %s", error)
            await asyncio.sleep(_RETRY_S)

    def _ring(self, message: bytes | None) -> None:
        for broker_name, tell in [*self._told.values()]:
            if message is not None and tells_of_an_end(message, broker_name):
                tell()


_BELLS: Final = WeakKeyDictionary[AsyncRouteStore, Bells]()


def bells_of(store: AsyncRouteStore) -> Bells:
    """Return the one of this store."""
    if store not in _BELLS:
        _BELLS[store] = Bells()
    return _BELLS[store]
