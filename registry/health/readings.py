"""What a health report reads: a few round trips, whatever the size of the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar

from .. import codec
from ..config import RegistryConfig
from ..keys import Keys
from ..plans import Command, ErrorReply, Plan, Reads, Reply
from ..plans.base import clock_us
from ..plans.expiry import late_ms

T = TypeVar("T")

_SETTINGS: Final = ("save", "notify-keyspace-events", "min-replicas-to-write", "client-output-buffer-limit")
_SENTINELS: Final = "__sentinel__:hello"
"""The Sentinels that watch a server listen to this channel of it."""

_BROKERS: Final = 100
_TOPICS: Final = 200
_NAMESPACES: Final = 50
_FIELDS: Final = 100
"""How many brokers, topics, namespaces of the key-value store, and fields of one key are looked at."""

_Answers = dict[str, Any]


class ServerFacts(TypedDict):
    """What is known of the server; null = it did not say. `max_bytes`: 0 = no limit."""

    kind: str | None
    version: str | None
    mode: str | None
    role: str | None
    replicas: int | None
    persistence: str | None
    eviction_policy: str | None
    used_bytes: int | None
    max_bytes: int | None
    notifications: str | None


class RegistryFacts(TypedDict):
    """What is known of the registry; null = the server did not say, or there is none.

    `schema`: empty = nobody has registered yet; `due_leases`: ended and not announced yet; `sweeper`: empty =
    nobody looks for leases that have ended; `memory_bytes`: estimated, by kind of key.
    """

    schema: str | None
    brokers: int | None
    topics: int | None
    namespaces: int | None
    live_leases: int | None
    due_leases: int | None
    sweeper: str | None
    sweeper_left_s: float | None
    feed_entries: int | None
    feed_age_s: float | None
    feed_idle_s: float | None
    memory_bytes: dict[str, int]


class NotTold(Exception):
    """A finding needs an answer that the server did not give."""


class Readings:
    """What the server answered, by name; an answer that it did not give raises NotTold when it is used."""

    def __init__(self, config: RegistryConfig, answers: Mapping[str, Any]) -> None:
        self.config = config
        self._answers = answers

    def __getitem__(self, name: str) -> Any:
        value = self._answers[name]
        if not isinstance(value, ErrorReply):
            return value
        raise NotTold(value.reason)

    def info(self, name: str, default: Any = None) -> Any:
        """Return what INFO says of something, or the default."""
        info = self["info"]
        if name not in info and default is None:
            raise NotTold(f"INFO does not tell {name}")
        return info.get(name, default)

    @property
    def kind_and_version(self) -> tuple[str, str]:
        """Which server it is, and its own version."""
        valkey = self.info("valkey_version", "")  # it also tells the version of Redis that it resembles
        return ("Valkey", str(valkey)) if valkey else ("Redis", str(self.info("redis_version")))

    @property
    def mode(self) -> str:
        """standalone, sentinel-managed, cluster, or sentinel for one that keeps no data."""
        found = str(self.info("server_mode", "") or self.info("redis_mode"))
        is_watched = bool(self.known(lambda told: told["sentinels"]))
        return "sentinel-managed" if found == "standalone" and is_watched else found

    @property
    def role(self) -> str:
        """master or replica."""
        found = self.info("role")
        return "replica" if found == "slave" else str(found)

    @property
    def persistence(self) -> str:
        """What keeps the data over a restart: RDB, AOF, both or none."""
        aof = self.info("aof_enabled") == 1
        rdb = self.known(lambda told: told["save"]) if aof else self["save"]
        return " and ".join([*(["RDB"] if rdb else []), *(["AOF"] if aof else [])]) or "none"

    def known(self, fact: Callable[[Readings], T]) -> T | None:
        """Return a fact, or None when the server did not tell it."""
        try:
            return fact(self)
        except NotTold:
            return None

    def age_s(self, name: str) -> float | None:
        """Return how long ago an entry of the feed was written; None = there is none."""
        then_ms = self[name]
        return None if then_ms is None else self["now_us"] / 1e6 - then_ms / 1000

    def facts(self) -> tuple[ServerFacts, RegistryFacts]:
        """Return what is known of the server and of the registry."""
        return self._server(), self._registry()

    def _server(self) -> ServerFacts:
        return {
            "kind": self.known(lambda told: told.kind_and_version[0]),
            "version": self.known(lambda told: told.kind_and_version[1]),
            "mode": self.known(lambda told: told.mode),
            "role": self.known(lambda told: told.role),
            "replicas": self.known(lambda told: int(told.info("connected_slaves"))),
            "persistence": self.known(lambda told: told.persistence),
            "eviction_policy": self.known(lambda told: str(told.info("maxmemory_policy"))),
            "used_bytes": self.known(lambda told: int(told.info("used_memory"))),
            "max_bytes": self.known(lambda told: int(told.info("maxmemory"))),
            "notifications": self.known(lambda told: str(told["notify-keyspace-events"])),
        }

    def _registry(self) -> RegistryFacts:
        memory = {kind: size for kind, size in self["memory"].items() if not isinstance(size, ErrorReply)}
        return {
            "schema": self.known(lambda told: str(told["schema"] or "")),
            "brokers": self.known(lambda told: int(told["brokers"])),
            "topics": self.known(lambda told: int(told["topics"])),
            "namespaces": self.known(lambda told: int(told["namespaces"])),
            "live_leases": self.known(lambda told: int(told["live"])),
            "due_leases": self.known(lambda told: int(told["due"])),
            "sweeper": self.known(lambda told: str(told["sweeper"] or "")),
            "sweeper_left_s": self.known(lambda told: max(0, told["sweeper_left_ms"]) / 1000),
            "feed_entries": self.known(lambda told: int(told["feed_entries"])),
            "feed_age_s": self.known(lambda told: told.age_s("feed_first_ms")),
            "feed_idle_s": self.known(lambda told: told.age_s("feed_last_ms")),
            "memory_bytes": memory,
        }


def read(config: RegistryConfig, first_us: int | ErrorReply) -> Plan[Readings]:
    """Read all that a report needs: six round trips, and another for members without a deadline."""
    keys = Keys(config.namespace)
    server = yield from _server()
    table = yield from _table(keys, server["now_us"], late_ms(config))
    sampled = yield from _census(keys)
    return Readings(config, {"first_us": first_us, **server, **table, **sampled})


def _server() -> Plan[_Answers]:
    """Read what the server says of itself."""
    settings: list[Command] = [("CONFIG", "GET", name) for name in _SETTINGS]
    commands: list[Command] = [("INFO",), ("TIME",), ("PUBSUB", "NUMSUB", _SENTINELS), *settings]
    info, time, sentinels, *values = yield Reads(commands, tolerant=True)
    return {
        "info": info,
        "now_us": time if isinstance(time, ErrorReply) else clock_us(time),
        "sentinels": sentinels if isinstance(sentinels, ErrorReply) else int(sentinels[1]),
        **{name: _setting(reply) for name, reply in zip(_SETTINGS, values, strict=True)},
        "busy": any(isinstance(reply, ErrorReply) and reply.code == "BUSY" for reply in (info, time)),
    }


def _setting(reply: Reply) -> str | ErrorReply:
    if isinstance(reply, ErrorReply):
        return reply
    values = list(reply.values()) if isinstance(reply, Mapping) else reply[1::2]  # as the protocol has it
    return values[0].decode(errors="replace") if values else ErrorReply("", "the server has no such setting")


def _table(keys: Keys, now_us: int | ErrorReply, late_ms: int) -> Plan[_Answers]:
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
    leases: _Answers = {"live": now_us, "due": now_us, "overdue": now_us}  # unknown without a clock
    if not isinstance(now_us, ErrorReply):
        now_ms = now_us // 1000
        commands["live"] = ("ZCOUNT", keys.deadlines, f"({now_ms}", "+inf")
        commands["due"] = ("ZCOUNT", keys.deadlines, "-inf", now_ms)
        commands["overdue"] = ("ZCOUNT", keys.deadlines, "-inf", now_ms - late_ms)
    replies = yield Reads([*commands.values()], tolerant=True)
    both = zip(commands.values(), replies, strict=True)
    errors = [(command, reply) for command, reply in both if isinstance(reply, ErrorReply)]
    return {
        **leases,
        **{name: _plain(reply) for name, reply in zip(commands, replies, strict=True)},
        "foreign": [*dict.fromkeys(str(command[1]) for command, e in errors if e.code == "WRONGTYPE")],
        "failed": [
            f"{command[0]!s} {command[1]!s}: {error.code} {error.message}"
            for command, error in errors
            if error.code not in ("WRONGTYPE", "NOPERM", "BUSY")
        ],
    }


def _plain(reply: Reply) -> Any:
    """Return text as text, and of entries of the stream the time of the first in ms."""
    if isinstance(reply, bytes):
        return reply.decode(errors="replace")
    if isinstance(reply, list):
        return int(reply[0][0].partition(b"-")[0]) if reply else None
    return reply


def _census(keys: Keys) -> Plan[_Answers]:
    """Look at up to 100 brokers, their tables and leases, and at 200 topics, all drawn at random.

    Estimates the memory by kind of key, and tells the members that were seen and have no deadline.
    """
    first: list[Command] = [
        ("HRANDFIELD", keys.brokers, _BROKERS),
        ("SRANDMEMBER", keys.topics, _TOPICS),
        ("SRANDMEMBER", keys.namespaces, _NAMESPACES),
    ]
    drawn, topics, namespaces = yield Reads(first, tolerant=True)
    brokers, indexes = _names(drawn), [keys.topic(name) for name in _names(topics)]
    groups = [keys.broker(name) for name in brokers]
    replies = yield from _ask([*(("HKEYS", key) for key in groups), *(("GET", key) for key in indexes)])
    members = _members(brokers, replies)
    samples = {
        "route index": indexes,
        "groups": groups,
        "leases": [keys.lease(*member) for member in members],
        "key-value": [keys.kv(name) for name in _names(namespaces)],
        "feed": [],
    }
    rows = sum(index.count(b"\n") + 1 for index in replies[len(groups) :] if isinstance(index, bytes))
    tables = [keys.broker_topics(name) for name in brokers]
    memory = yield from _memory(keys, samples, tables, rows / max(1, len(indexes)))
    lost = drawn if isinstance(drawn, ErrorReply) else (yield from _without_deadline(keys, members))
    seen = lost if isinstance(lost, ErrorReply) else len(members)
    return {"memory": memory, "members_seen": seen, "without_deadline": lost}


def _memory(
    keys: Keys, samples: Mapping[str, Sequence[str]], tables: Sequence[str], rows_each: float
) -> Plan[dict[str, int | ErrorReply]]:
    """Estimate the bytes of each kind of key: of its listing, and of as many keys as the listing says."""
    counts: list[Command] = [
        ("SCARD", keys.topics),
        ("HLEN", keys.brokers),
        ("ZCARD", keys.deadlines),
        ("SCARD", keys.namespaces),
        ("XLEN", keys.changes),
    ]
    sampled = [_usage(key) for some in (*samples.values(), tables) for key in some]
    lengths: list[Command] = [("HLEN", key) for key in tables]
    replies = iter((yield from _ask([*counts, *(_usage(str(key)) for _, key in counts), *sampled, *lengths])))
    totals, listings = ([next(replies) for _ in counts] for _ in range(2))
    found = {
        kind: _estimate(total, [next(replies) for _ in some], listing)
        for (kind, some), total, listing in zip(samples.items(), totals, listings, strict=True)
    }
    # One table may be far longer than another: they have as many entries as the route index has rows.
    rows = totals[0] if isinstance(totals[0], ErrorReply) else totals[0] * rows_each
    tables_found = _estimate(rows, [next(replies) for _ in tables], 0, [*replies])
    return {"broker tables": tables_found, **found}


def _usage(key: str) -> Command:
    return ("MEMORY", "USAGE", key, "SAMPLES", _FIELDS)


def _ask(commands: Sequence[Command]) -> Plan[list[Reply]]:
    """Send commands, if there are any."""
    return (yield Reads(commands, tolerant=True)) if commands else []


def _names(reply: Reply) -> list[str]:
    """Return the names that an answer lists; none if it is an error, which the counts tell of."""
    return [] if isinstance(reply, ErrorReply) else [item.decode(errors="replace") for item in reply]


def _members(brokers: Sequence[str], groups: Sequence[Reply]) -> list[tuple[str, int]]:
    return [
        (name, broker_id)
        for name, reply in zip(brokers, groups, strict=False)
        if not isinstance(reply, ErrorReply)
        for broker_id in codec.replica_ids(reply, "member")
    ]


def _estimate(
    total: Reply, sizes: Sequence[Reply], listing: Reply, entries: Sequence[Reply] | None = None
) -> int | ErrorReply:
    """Return the bytes of `total` keys, or entries of keys, by the mean of some, and of their listing.

    `entries` are the numbers of entries of the keys with those sizes; None = one each.
    """
    seen = [1] * len(sizes) if entries is None else entries
    refused = (reply for reply in (total, *sizes, listing, *seen) if isinstance(reply, ErrorReply))
    refusal = next(refused, None)
    if refusal is not None:
        return refusal
    mean = sum(size or 0 for size in sizes) / max(1, sum(seen))
    return round(int(total) * mean) + int(listing or 0)


def _without_deadline(keys: Keys, members: Sequence[tuple[str, int]]) -> Plan[list[str] | ErrorReply]:
    """Return the members for which no deadline is noted, as the sweep knows them."""
    if not members:
        return []
    names = [keys.lease_member(*member) for member in members]
    (scores,) = yield from _ask([("ZMSCORE", keys.deadlines, *names)])
    if isinstance(scores, ErrorReply):
        return scores
    suspects = [member for member, score in zip(members, scores, strict=True) if score is None]
    # An owner may have unregistered meanwhile: then it is no member any more.
    still = yield from _ask([("HEXISTS", keys.broker(name), f"member:{number}") for name, number in suspects])
    both = zip(suspects, still, strict=True)
    return [keys.lease_member(*member) for member, there in both if there == 1]
