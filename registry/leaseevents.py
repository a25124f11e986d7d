"""Keyspace events about leases: tell at once of one that somebody deleted, where the server has them on.

They are never needed: off by default, lost without a trace, and late for what ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, Final

from .connection.aiolinks import AsyncLink
from .connection.links import Link
from .connection.redispy import REDIS_ERRORS, translate
from .keys import Keys
from .plans.expiry import lease_of

__all__ = ["AsyncLeaseEvents", "LeaseEvents"]

_GONE: Final = frozenset((b"del", b"expired", b"evicted", b"rename_from", b"move_from"))
"""Events of a key that is there no more; UNLINK says `del` too. Those of renewals are passed over."""


class LeaseEvents:
    """A subscription to the keyspace events of all leases (notify-keyspace-events Kgxe); for one thread.

    In a Redis Cluster the node that holds a key tells of it. The pattern has the hash tag of the registry, so
    that node is the one that is subscribed to.
    """

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link  # redis-py cuts a subscription off when its client is collected
        self._prefix = _channel_prefix(link.client, keys)
        self._pubsub: Any = None

    def wait(self, timeout_s: float) -> tuple[str, int] | None:
        """Return broker name and id of the next lease that went away, None when none did.

        Raises StoreUnavailable, and StoreRefused for a user who may not listen to this.
        """
        until_s = monotonic() + timeout_s
        try:
            if self._pubsub is None:
                self._pubsub = self._link.pubsub()
                self._pubsub.psubscribe(self._prefix + "*")
            while True:
                lease = _lease_in(self._pubsub.get_message(timeout=timeout_s), self._prefix)
                timeout_s = until_s - monotonic()
                if lease is not None or timeout_s <= 0:
                    return lease
        except REDIS_ERRORS as error:
            raise translate(error) from error

    def close(self) -> None:
        """End the subscription."""
        if self._pubsub is not None:
            self._pubsub.close()


class AsyncLeaseEvents:
    """A subscription to the keyspace events of all leases; for one task. See LeaseEvents."""

    def __init__(self, link: AsyncLink, keys: Keys) -> None:
        self._link = link  # redis-py cuts a subscription off when its client is collected
        self._prefix = _channel_prefix(link.client, keys)
        self._pubsub: Any = None

    async def wait(self, timeout_s: float) -> tuple[str, int] | None:
        """Return broker name and id of the next lease that went away, None when none did.

        Raises StoreUnavailable, and StoreRefused for a user who may not listen to this.
        """
        until_s = monotonic() + timeout_s
        try:
            if self._pubsub is None:
                self._pubsub = await self._link.pubsub()
                await self._pubsub.psubscribe(self._prefix + "*")
            while True:
                lease = _lease_in(await self._pubsub.get_message(timeout=timeout_s), self._prefix)
                timeout_s = until_s - monotonic()
                if lease is not None or timeout_s <= 0:
                    return lease
        except REDIS_ERRORS as error:
            raise translate(error) from error

    async def aclose(self) -> None:
        """End the subscription."""
        if self._pubsub is not None:
            await self._pubsub.aclose()


def _channel_prefix(client: Any, keys: Keys) -> str:
    """Return what the channels of the leases' events begin with; it has no character special to a glob."""
    pool = getattr(client, "connection_pool", None)  # a client of a Cluster has several, and only database 0
    database = pool.connection_kwargs.get("db") if pool is not None else None
    return f"__keyspace@{database or 0}__:{keys.prefix}:lease:"


def _lease_in(message: Mapping[str, Any] | None, prefix: str) -> tuple[str, int] | None:
    """Return the lease that a message of redis-py's PubSub says is gone."""
    if message is None or message["type"] != "pmessage" or message["data"] not in _GONE:
        return None
    return lease_of(message["channel"].decode(errors="replace").removeprefix(prefix))
