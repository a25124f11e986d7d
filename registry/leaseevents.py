"""Keyspace events about leases: tell at once of one that somebody deleted, where the server has them on.

They are never needed: off by default, lost without a trace, and late for what ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .connection.subscription import Subscription
from .connection.subscription_async import AsyncSubscription
from .keys import Keys
from .plans.expiry import lease_of

if TYPE_CHECKING:
    from .connection.links_async import AsyncLink
    from .connection.links import Link

_GONE: Final = frozenset((b"del", b"expired", b"evicted", b"rename_from", b"move_from"))
"""Events of a key that is there no more; UNLINK says `del` too. Those of renewals are passed over."""


LeaseEvents: TypeAlias = Subscription[tuple[str, int]]
"""A subscription to the keyspace events of all leases (notify-keyspace-events Kgxe); for one thread.

`wait` returns broker name and id of the next lease that went away.
"""

AsyncLeaseEvents: TypeAlias = AsyncSubscription[tuple[str, int]]
"""A subscription to the keyspace events of all leases; for one task. See LeaseEvents."""


def lease_events(link: Link, keys: Keys) -> LeaseEvents:
    """Return a new subscriber of the events of a registry's leases; nothing is subscribed yet.

    In a Redis Cluster the node that holds a key tells of it. The pattern has the hash tag of the registry, so
    that node is the one that is subscribed to.
    """
    prefix = _channel_prefix(link.client, keys)
    return Subscription(link, partial(_lease_in, prefix), prefix=prefix)


def async_lease_events(link: AsyncLink, keys: Keys) -> AsyncLeaseEvents:
    """Return a new subscriber of the events of a registry's leases; see lease_events."""
    prefix = _channel_prefix(link.client, keys)
    return AsyncSubscription(link, partial(_lease_in, prefix), prefix=prefix)


def _channel_prefix(client: Any, keys: Keys) -> str:
    """Return what the channels of the leases' events begin with; it has no character special to a glob."""
    pool = getattr(client, "connection_pool", None)  # a client of a Cluster has several, and only database 0
    database = pool.connection_kwargs.get("db") if pool is not None else None
    return f"__keyspace@{database or 0}__:{keys.prefix}:lease:"


def _lease_in(prefix: str, message: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """Return the lease that a message of redis-py's PubSub says is gone."""
    if message is None or message["type"] != "pmessage" or message["data"] not in _GONE:
        return None
    return lease_of(message["channel"].decode(errors="replace").removeprefix(prefix))
