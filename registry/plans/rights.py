"""Whether the store lets a user do what an agent does, found out without changing anything."""

from __future__ import annotations

from typing import Final

from ..keys import Keys
from .base import Command, ErrorReply, Plan, Reads

_NO_NUMBER: Final = "none"
_NOT_THERE: Final = ""
_DENIED: Final = ("NOPERM", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN")


def may_register(keys: Keys, broker_name: str, broker_id: int) -> Plan[tuple[ErrorReply, ...]]:
    """Return why the store would not let this user register a broker; nothing = it would.

    Redis looks at permissions before it looks at values: each command has one that cannot be, or names what
    is never there. Raises StoreUnavailable, StoreRefused.
    """
    replies = yield Reads(_harmless(keys, broker_name, broker_id), tolerant=True)
    return tuple(reply for reply in replies if isinstance(reply, ErrorReply) and reply.code in _DENIED)


def _harmless(keys: Keys, broker_name: str, broker_id: int) -> tuple[Command, ...]:
    group, table = keys.broker(broker_name), keys.broker_topics(broker_name)
    lease = keys.lease(broker_name, broker_id)
    return (
        ("HGETALL", group),
        ("EVAL", "return 1", 3, group, table, lease),
        ("HSET", group, "field", "value", "a field without a value"),
        ("HDEL", table, _NOT_THERE),
        ("MSET", keys.topic(_NOT_THERE), "value", keys.topic(_NOT_THERE)),
        ("SET", lease, "value", "PX", _NO_NUMBER),
        ("PEXPIREAT", lease, _NO_NUMBER),
        ("SREM", keys.topics, _NOT_THERE),
        ("HDEL", keys.brokers, _NOT_THERE),
        ("ZADD", keys.deadlines, _NO_NUMBER, "member"),
        ("ZREM", keys.deadlines, _NOT_THERE),
        ("XADD", keys.changes, _NO_NUMBER, "field", "value"),
        ("XTRIM", keys.changes, "MAXLEN", _NO_NUMBER),
        ("SET", keys.sweeper, "value", "PX", _NO_NUMBER),
    )
