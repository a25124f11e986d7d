"""What each role may do in Redis: the rules of its ACL user, and nothing more than it needs."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from .checks import check_int
from .config import RegistryConfig
from .errors import InvalidInput
from .keys import Keys


class Role(StrEnum):
    """What a user of the store does; each role may also do what the ones before it may."""

    READER = "reader"
    """Looks up and lists, and follows the feed: clients."""

    HINTER = "hinter"
    """Also announces which brokers it cannot reach: clients with hints. Needs Redis 7 or Valkey."""

    AGENT = "agent"
    """Also registers brokers, renews their leases and sweeps."""

    FRONT = "front"
    """Also changes what no broker owns: the key-value store. For imports, and the name server front."""

    ADMIN = "admin"
    """Also looks at the whole of the registry and at the server, and mends the registry."""


PASSWORD_PLACEHOLDER: Final = "#SHA256-OF-THE-PASSWORD"  # noqa: S105
"""Redis refuses it, so that it never becomes a password that everybody knows."""

_LAST_DATABASE: Final = 2**31 - 1
_USER: Final = re.compile(r"[^\s\x00-\x1f\x7f'\"\\]{1,128}")
_PASSWORD: Final = re.compile(r"#[0-9a-f]{64}|>[^\s\x00-\x1f\x7f'\"\\]+")

_CONNECTION: Final = ("ping", "role")
"""What connections send by themselves: ROLE to a replica. AUTH and HELLO need no right."""

_CLUSTER: Final = ("asking", "cluster|slots", "readonly", "cluster|shards", "command")
"""What finds the node that owns the registry and reads from its replicas; the last two are for redis-py's own
RedisCluster, when the caller brings one."""

_READS: Final = (
    *("get", "mget", "time", "type"),
    *("hexists", "hget", "hgetall", "hkeys", "hlen", "hmget", "hscan"),
    *("sismember", "smembers", "sscan"),
    *("subscribe", "unsubscribe"),
    *("xinfo|stream", "xrange", "xrevrange"),
    *("zrangebyscore", "zscore"),
)
_HINTS: Final = ("eval", "evalsha", "pexpire", "zadd", "zrem", "zremrangebyscore")
# What all scripts need, so that none ends half-way: Redis cannot tell one script from another.
_WRITES: Final = (
    *("eval", "evalsha"),
    *("del", "exists", "mset", "persist", "pexpire", "pexpireat", "pttl", "set"),
    *("hdel", "hset"),
    *("psubscribe", "publish", "punsubscribe"),
    *("sadd", "srem"),
    *("xadd", "xlen", "xtrim"),
    *("zadd", "zrem", "zremrangebyscore"),
)
_ADMINISTRATION: Final = (
    *("config|get", "info", "memory|usage", "pubsub|numsub", "scan"),
    *("hrandfield", "scard", "smismember", "srandmember"),
    *("zcard", "zcount", "zmscore", "zscan"),
)
_COMMANDS: Final = {
    Role.READER: (*_CONNECTION, *_READS),
    Role.HINTER: (*_CONNECTION, *_READS, *_HINTS),
    Role.AGENT: (*_CONNECTION, *_READS, *_WRITES),
    Role.FRONT: (*_CONNECTION, *_READS, *_WRITES),
    Role.ADMIN: (*_CONNECTION, *_READS, *_WRITES, *_ADMINISTRATION),
}


def commands_of(role: Role) -> frozenset[str]:
    """Return the commands of a role as ACL rules name them, without those for a Cluster."""
    return frozenset(_COMMANDS[role])


def acl_rules(
    namespace: str,
    role: Role,
    *,
    user: str | None = None,
    password: str = PASSWORD_PLACEHOLDER,
    database: int = 0,
    read_only_patterns: bool = True,
    cluster: bool = False,
) -> str:
    """Return the ACL SETUSER line of a user for one role in one registry; it replaces the user's old rules.

    `password` is a rule of Redis: `#<SHA-256 in hex>` or `>password`. `database` is the one of the registry:
    the channels of keyspace events, which a sweeper may listen to, carry its number. `read_only_patterns`
    needs Redis 7 or Valkey: without them there is no hinter, and an agent may not even read the key-value
    store. With `cluster` the user may also ask where in a Redis Cluster the registry is. Raises InvalidInput.
    """
    keys = Keys(RegistryConfig(namespace=namespace).namespace)
    check_int("database", database, 0, _LAST_DATABASE)
    if user is None:
        user = f"{namespace.replace(':', '-')}-{role}"  # in a URL a colon ends the name
    if not _USER.fullmatch(user):
        raise InvalidInput(f"user: {user!r} is empty or long, or holds white space, quotes or a backslash")
    if password != PASSWORD_PLACEHOLDER and not _PASSWORD.fullmatch(password):
        raise InvalidInput("password: expected #<SHA-256 in hex>, or >password without spaces and quotes")
    if role is Role.HINTER and not read_only_patterns:
        raise InvalidInput("role: a hinter needs the key patterns of Redis 7: else it could change every key")
    more = (*(_CLUSTER if cluster else ()), *(("select",) if database else ()))
    commands = sorted({*_COMMANDS[role], *more})
    rules = (
        "reset",
        "resetchannels",  # before Redis 7, reset gives all channels
        "on",
        password,
        *_patterns(keys, role, read_only="%R~" if read_only_patterns else "~"),
        *_channels(keys, role, database),
        "-@all",
        *(f"+{command}" for command in commands),
    )
    return f"ACL SETUSER {user} {' '.join(rules)}"


def _channels(keys: Keys, role: Role, database: int) -> tuple[str, ...]:
    """Return the channels of the doorbell and, for roles that sweep, of the keyspace events of leases."""
    events = f"&__keyspace@{database}__:{keys.prefix}:lease:*"
    return (f"&{keys.changes}", *((events,) if role not in (Role.READER, Role.HINTER) else ()))


def _patterns(keys: Keys, role: Role, *, read_only: str) -> tuple[str, ...]:
    """Return the keys a role may touch; no character of a namespace means anything in a pattern."""
    everything = f"{keys.prefix}:*"
    if role is Role.READER:
        return (f"{read_only}{everything}",)
    if role is Role.HINTER:
        return (f"~{keys.hints}", f"{read_only}{everything}")
    if role is not Role.AGENT:
        return (f"~{everything}",)
    written = (
        keys.topic("*"),
        keys.broker("*"),
        f"{keys.prefix}:lease:*",
        keys.brokers,
        keys.topics,
        keys.deadlines,
        keys.changes,
        keys.sweeper,
        keys.schema,
        keys.hints,
    )
    may_read = (keys.kv("*"), keys.namespaces) if read_only != "~" else ()  # an agent itself never does
    return (*(f"~{key}" for key in written), *(f"{read_only}{key}" for key in may_read))
