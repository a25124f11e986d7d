"""Keyspace events about leases: tell at once of one that somebody deleted, where the server has them on.

They are never needed: off by default, lost without a trace, and late for what ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .keys import Keys
from .plans.expiry import lease_of

_GONE: Final = frozenset((b"del", b"expired", b"evicted", b"rename_from", b"move_from"))
"""Events of a key that is there no more; UNLINK says `del` too. Those of renewals are passed over."""


def lease_channels(client: Any, keys: Keys) -> str:
    """Return what the channels of the leases' events begin with; it has no character special to a glob.

    In a Redis Cluster the node that holds a key tells of it. The prefix has the hash tag of the registry, so
    that node is the one that is subscribed to.
    """
    pool = getattr(client, "connection_pool", None)  # a client of a Cluster has several, and only database 0
    database = pool.connection_kwargs.get("db") if pool is not None else None
    return f"__keyspace@{database or 0}__:{keys.prefix}:lease:"


def lease_gone(prefix: str, message: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """Return the lease that a message of redis-py's PubSub says is gone."""
    if message is None or message["type"] != "pmessage" or message["data"] not in _GONE:
        return None
    return lease_of(message["channel"].decode(errors="replace").removeprefix(prefix))
