"""Tells standbys of the end of their owner, and slaves of their master, by the doorbell of the changes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from ..registry import AsyncRouteStore
from ..registry.change_stream.stream import BellState, Do, Step

if TYPE_CHECKING:
    from ..registry.change_stream.follower_async import AsyncStreamReader

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_SILENT_S: Final = 60.0
"""After so long a silence slaves look."""

_MISSING_S: Final = 5.0
"""So often they do without a doorbell; standbys look once a second all the while."""

DOWN: Final = b'"kind":"down"'
UP: Final = b'"kind":"up"'


def may_concern(message: bytes | None, broker_name: str, kinds: tuple[bytes, ...]) -> bool:
    """Whether a message of the doorbell may be about a change of one of these kinds in the broker's group.

    The record is not parsed: a registry has many changes, and a look in vain costs one small call. An empty
    message says that the subscription has begun: what rang before was not heard. None = nothing was heard,
    for whatever reason: only who waits for UP, too, looks then, since standbys look once a second anyway.
    """
    if not message:
        return message is not None or UP in kinds
    return any(kind in message for kind in kinds) and broker_name.encode() in message


class Bells:
    """One subscription for all standbys and slaves over one store, for as long as there are any.

    It holds a connection of the store's pool, which all agents of a process share, and decides for the
    reader of the stream, which only listens here.
    """

    def __init__(self) -> None:
        self.bell = BellState(_LOG.debug, "standbys look once a second, slaves every 5 s")
        self._told: dict[object, tuple[str, tuple[bytes, ...], Callable[[], None]]] = {}
        self._silent_at: float | None = None
        self._reader: AsyncStreamReader | None = None

    def join(
        self,
        store: AsyncRouteStore,
        who: object,
        broker_name: str,
        tell: Callable[[], None],
        kinds: tuple[bytes, ...] = (DOWN,),
    ) -> None:
        """Call `tell` whenever something was heard that may concern the broker, until `leave`."""
        self._told[who] = broker_name, kinds, tell
        if self._reader is None:
            from ..registry.change_stream.follower_async import AsyncStreamReader  # noqa: PLC0415 - few need it

            self._reader = AsyncStreamReader(store, self, "sharedroutes: bell")
            self._reader.start()
        else:  # the owner may have left since it was last asked for
            tell()

    async def leave(self, who: object) -> None:
        """Call nothing for this one any more."""
        self._told.pop(who, None)
        if not self._told and self._reader is not None:
            reader, self._reader = self._reader, None
            await reader.stop()

    def next_step(self, now: float) -> Step:
        """Listen; tell now and then that nothing is heard."""
        if self._silent_at is not None and now >= self._silent_at:
            self._ring(None)
        if self._silent_at is None:
            self._silent_at = now + (_MISSING_S if self.bell.is_missing else _SILENT_S)
        return Step(Do.HEAR, wait_s=self._silent_at - now)

    def heard(self, message: bytes, _now: float) -> None:
        """Tell those whom a message may concern."""
        self.bell.rang()
        self._ring(message)

    def bell_failed(self, error: Exception, now: float) -> None:
        """Listen again soon: that tells of what rang meanwhile."""
        if not self.bell.is_missing:
            self._silent_at = None
        self.bell.failed(error, now)

    failed = bell_failed

    def _ring(self, message: bytes | None) -> None:
        self._silent_at = None
        for broker_name, kinds, tell in [*self._told.values()]:
            if may_concern(message, broker_name, kinds):
                tell()


_BELLS: Final = WeakKeyDictionary[AsyncRouteStore, Bells]()


def bells_of(store: AsyncRouteStore) -> Bells:
    """Return the one of this store."""
    if store not in _BELLS:
        _BELLS[store] = Bells()
    return _BELLS[store]
