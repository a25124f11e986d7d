"""What a health report reads: a few round trips, whatever the size of the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from .. import codec
from ..config import RegistryConfig
from ..keys import Keys
from ..plans import Command, ErrorReply, Plan, Reads, Reply
from ..plans.base import clock_us
from ..plans.expiry import late_ms
from .report import RegistryFacts, ServerFacts

T = TypeVar("T")

MEMORY_KINDS: Final = ("broker tables", "feed", "groups", "key-value", "leases", "route index")
"""The kinds of keys whose memory is estimated."""

_SETTINGS: Final = ("save", "notify-keyspace-events", "min-replicas-to-write", "client-output-buffer-limit")
_SENTINELS: Final = "__sentinel__:hello"
"""The Sentinels that watch a server listen to this channel of it."""

_BROKERS: Final = 100
_TOPICS: Final = 200
_NAMESPACES: Final = 50
_FIELDS: Final = 100
"""How many brokers, topics, namespaces of the key-value store, and fields of one key are looked at."""

_Answers = dict[str, Any]


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
        is_watched = bool(self._get("sentinels"))
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
        rdb = self._get("save") if aof else self["save"]
        return " and ".join([*(["RDB"] if rdb else []), *(["AOF"] if aof else [])]) or "none"

    def server_facts(self) -> ServerFacts:
        """Return what is known of the server."""
        return ServerFacts(
            kind=_known(lambda: self.kind_and_version[0]),
            version=_known(lambda: self.kind_and_version[1]),
            mode=_known(lambda: self.mode),
            role=_known(lambda: self.role),
            replicas=_known(lambda: int(self.info("connected_slaves"))),
            persistence=_known(lambda: self.persistence),
            eviction_policy=_known(lambda: str(self.info("maxmemory_policy"))),
            used_bytes=_known(lambda: int(self.info("used_memory"))),
            max_bytes=_known(lambda: int(self.info("maxmemory"))),
            notifications=self._get("notify-keyspace-events"),
        )

    def registry_facts(self) -> RegistryFacts:
        """Return what is known of the registry."""
        memory = {kind: self._get(f"memory: {kind}") for kind in MEMORY_KINDS}
        return RegistryFacts(
            brokers=self._get("brokers"),
            topics=self._get("topics"),
            namespaces=self._get("namespaces"),
            feed_entries=self._get("feed_entries"),
            schema=_known(lambda: self["schema"] or ""),
            live_leases=self._get("live"),
            due_leases=self._get("due"),
            sweeper=_known(lambda: self["sweeper"] or ""),
            sweeper_left_s=_known(lambda: max(0, self["sweeper_left_ms"]) / 1000),
            feed_age_s=_known(lambda: self._age_s("feed_first_ms")),
            feed_idle_s=_known(lambda: self._age_s("feed_last_ms")),
            memory_bytes={kind: size for kind, size in memory.items() if size is not None},
        )

    def _get(self, name: str) -> Any:
        """Return an answer, or None for one that was not given."""
        return _known(lambda: self[name])

    def _age_s(self, name: str) -> float | None:
        then_ms = self[name]
        return None if then_ms is None else self["now_us"] / 1e6 - then_ms / 1000


def _known(fact: Callable[[], T]) -> T | None:
    """Return a fact, or None when the server did not tell it."""
    try:
        return fact()
    except NotTold:
        return None


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
    """Look at up to 100 brokers and 200 topics, drawn at random, and at the tables of who has those topics.

    Estimates the memory by kind of key, and tells the members that were seen and have no deadline.
    """
    counts = {"route index": "SCARD", "groups": "HLEN", "leases": "ZCARD", "key-value": "SCARD"}
    listings = {
        "route index": keys.topics,
        "groups": keys.brokers,
        "leases": keys.deadlines,
        "key-value": keys.namespaces,
        "feed": keys.changes,
    }
    first: list[Command] = [
        ("HRANDFIELD", keys.brokers, _BROKERS),
        ("SRANDMEMBER", keys.topics, _TOPICS),
        ("SRANDMEMBER", keys.namespaces, _NAMESPACES),
        *((command, listings[kind]) for kind, command in counts.items()),
        *map(_usage, listings.values()),
    ]
    drawn, topics, namespaces, *rest = yield from _ask(first)
    totals = dict(zip(counts, rest, strict=False))
    brokers, indexes = _names(drawn), [keys.topic(name) for name in _names(topics)]
    groups = [keys.broker(name) for name in brokers]
    replies = yield from _ask([*(("HKEYS", key) for key in groups), *(("GET", key) for key in indexes)])
    members = _members(brokers, replies)
    rows = _rows(replies[len(groups) :])
    tables = [keys.broker_topics(name) for name in list(dict.fromkeys(rows))[:_BROKERS]]
    samples = {
        "route index": indexes,
        "groups": groups,
        "leases": [keys.lease(*member) for member in members],
        "key-value": [keys.kv(name) for name in _names(namespaces)],
        "feed": [],
    }
    wanted = [_usage(key) for some in (*samples.values(), tables) for key in some]
    sizes = iter((yield from _ask([*wanted, *(("HLEN", key) for key in tables)])))
    memory: _Answers = {}
    for (kind, some), own in zip(samples.items(), rest[len(counts) :], strict=True):
        memory[f"memory: {kind}"] = _estimate(totals.get(kind, 0), [next(sizes) for _ in some], own)
    share = len(rows) / len(indexes) if indexes else 0
    memory["memory: broker tables"] = _of_tables(totals["route index"], share, [*sizes])
    lost = drawn if isinstance(drawn, ErrorReply) else (yield from _without_deadline(keys, members))
    seen = lost if isinstance(lost, ErrorReply) else len(members)
    return {**memory, "members_seen": seen, "without_deadline": lost}


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


def _rows(indexes: Sequence[Reply]) -> list[str]:
    """Return the broker of each row of some route indexes: who has many topics stands there often."""
    return [
        row.partition(b" ")[0].decode(errors="replace")
        for index in indexes
        if isinstance(index, bytes)
        for row in index.split(b"\n")
    ]


def _estimate(total: Reply, sizes: Sequence[Reply], own: Reply) -> int | ErrorReply:
    """Return the bytes of all keys of a kind, by the mean of some, and of their listing."""
    refused = _refusal((total, *sizes, own))
    if refused is not None:
        return refused
    mean = sum(size or 0 for size in sizes) / len(sizes) if sizes else 0
    return round(int(total) * mean) + int(own or 0)


def _of_tables(topics: Reply, rows_each: float, replies: Sequence[Reply]) -> int | ErrorReply:
    """Return the bytes of brokers' tables, which have as many entries as the route index has rows.

    `replies` are the sizes of some tables, and then the numbers of their entries.
    """
    refused = _refusal((topics, *replies))
    if refused is not None:
        return refused
    half = len(replies) // 2
    entries = sum(replies[half:])
    size = sum(size or 0 for size in replies[:half])
    return round(int(topics) * rows_each * size / entries) if entries else 0


def _refusal(replies: Sequence[Reply]) -> ErrorReply | None:
    return next((reply for reply in replies if isinstance(reply, ErrorReply)), None)


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
