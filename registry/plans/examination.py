"""What a health report reads: a few round trips, whatever the size of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..config import RegistryConfig
from ..health.findings import examine
from ..health.report import HealthReport, Readings, Unknown
from ..health.server import SETTINGS
from ..health.table import late_ms
from ..keys import Keys
from .base import Command, ErrorReply, Plan, Reads, Reply
from .census import census, unknown

CLOCK_PAUSE_S: Final = 0.05
"""Between `server_time` and `health`: long enough for any clock to move."""

_SENTINELS: Final = "__sentinel__:hello"


def server_time() -> Plan[int | Unknown]:
    """Return the server's clock in microseconds since 1970. Raises StoreUnavailable, StoreRefused."""
    (reply,) = yield Reads((("TIME",),), tolerant=True)
    return _clock_us(reply)


def health(config: RegistryConfig, first_us: int | Unknown) -> Plan[HealthReport]:
    """Report on a registry and its server; `first_us` is what `server_time` said CLOCK_PAUSE_S earlier.

    What the user has no permission for is left out, and named. Seven round trips, and an eighth when
    members without a deadline are found. Raises StoreUnavailable, StoreRefused.
    """
    keys = Keys(config.namespace)
    server = yield from _server()
    table = yield from _table(keys, server["now_us"], late_ms(config))
    found = yield from census(keys)
    return examine(
        Readings(
            **server,
            **table,
            first_us=first_us,
            members_seen=found.members_seen,
            without_deadline=found.without_deadline,
            memory=found.memory,
        ),
        config,
    )


def _clock_us(reply: Reply) -> int | Unknown:
    return unknown(reply) if isinstance(reply, ErrorReply) else int(reply[0]) * 1_000_000 + int(reply[1])


def _server() -> Plan[dict[str, Any]]:
    """Read what the server says of itself."""
    settings: list[Command] = [("CONFIG", "GET", name) for name in SETTINGS]
    commands: list[Command] = [("INFO",), ("TIME",), ("PUBSUB", "NUMSUB", _SENTINELS), *settings]
    info, time, sentinels, *values = yield Reads(commands, tolerant=True)
    return {
        "info": unknown(info) if isinstance(info, ErrorReply) else info,
        "now_us": _clock_us(time),
        "sentinels": unknown(sentinels) if isinstance(sentinels, ErrorReply) else int(sentinels[1]),
        "settings": {name: _setting(reply) for name, reply in zip(SETTINGS, values, strict=True)},
        "busy": any(isinstance(reply, ErrorReply) and reply.code == "BUSY" for reply in (info, time)),
    }


def _setting(reply: Reply) -> str | Unknown:
    if isinstance(reply, ErrorReply):
        return unknown(reply)
    values = list(reply.values()) if isinstance(reply, Mapping) else reply[1::2]  # as the protocol has it
    return values[0].decode(errors="replace") if values else Unknown("the server has no such setting")


def _table(keys: Keys, now_us: int | Unknown, late_ms: int) -> Plan[dict[str, Any]]:
    """Read how much there is of everything, and which keys cannot be read."""
    commands: dict[str, Command] = {
        "schema": ("GET", keys.schema),
        "sweeper": ("GET", keys.sweeper),
        "sweeper_left_ms": ("PTTL", keys.sweeper),
        "brokers": ("HLEN", keys.brokers),
        "topics": ("SCARD", keys.topics),
        "namespaces": ("SCARD", keys.namespaces),
        "feed_entries": ("XLEN", keys.changes),
        "feed_first_ms": ("XRANGE", keys.changes, "-", "+", "COUNT", 1),
        "feed_last_ms": ("XREVRANGE", keys.changes, "+", "-", "COUNT", 1),
    }
    leases: dict[str, Any] = {"live": now_us, "due": now_us, "overdue": now_us}
    if not isinstance(now_us, Unknown):
        now_ms = now_us // 1000
        commands["live"] = ("ZCOUNT", keys.deadlines, f"({now_ms}", "+inf")
        commands["due"] = ("ZCOUNT", keys.deadlines, "-inf", now_ms)
        commands["overdue"] = ("ZCOUNT", keys.deadlines, "-inf", now_ms - late_ms)
    replies = yield Reads([*commands.values()], tolerant=True)
    errors = [
        (str(command[0]), str(command[1]), reply)
        for command, reply in zip(commands.values(), replies, strict=True)
        if isinstance(reply, ErrorReply)
    ]
    foreign = dict.fromkeys(key for _, key, error in errors if error.code == "WRONGTYPE")
    return {
        **leases,
        **{name: _plain(reply) for name, reply in zip(commands, replies, strict=True)},
        "foreign": tuple(foreign),
        "failed": tuple(
            f"{name} {key}: {error.code} {error.message}"
            for name, key, error in errors
            if error.code not in ("WRONGTYPE", "NOPERM", "BUSY")
        ),
    }


def _plain(reply: Reply) -> Any:
    """Return text as text, and of entries of the stream the time of the first in ms."""
    if isinstance(reply, ErrorReply):
        return unknown(reply)
    if isinstance(reply, bytes):
        return reply.decode(errors="replace")
    if isinstance(reply, list):
        return int(reply[0][0].partition(b"-")[0]) if reply else None
    return reply
