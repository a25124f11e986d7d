"""What a registry needs of memory, and whether its members have deadlines: by a look at some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from .. import codec
from ..health.report import Sampled, Unknown
from ..keys import Keys
from .base import Command, ErrorReply, Plan, Reads, Reply

_BROKERS: Final = 100
_TOPICS: Final = 200
_NAMESPACES: Final = 50
_FIELDS: Final = 100
"""How many brokers, topics, namespaces of the key-value store, and fields of one key are looked at."""

Member: TypeAlias = tuple[str, int]
"""Broker name and id."""


@dataclass(frozen=True, slots=True)
class Census:
    """What was found."""

    memory: Mapping[str, tuple[Sampled, ...] | Unknown]
    """By kind of key."""

    members_seen: int | Unknown
    without_deadline: tuple[str, ...]
    """Of the members that were seen, `broker:id` of those for which no deadline is noted."""


def unknown(reply: ErrorReply) -> Unknown:
    """Return why the server gave no answer."""
    return Unknown("no permission" if reply.code == "NOPERM" else f"{reply.code} {reply.message}")


def census(keys: Keys) -> Plan[Census]:
    """Look at up to 100 brokers and 200 topics, drawn at random, and at the tables of who has those topics.

    Four round trips, and one more when a member without a deadline is found.
    Raises StoreUnavailable, StoreRefused.
    """
    drawn = yield from _draw(keys)
    groups = [keys.broker(name) for name in drawn.brokers]
    indexes = [keys.topic(name) for name in drawn.topics]
    replies = yield from _ask([*(("HKEYS", key) for key in groups), *(("GET", key) for key in indexes)])
    members = _members(drawn.brokers, replies)
    rows = _rows(replies[len(groups) :])
    tables = [keys.broker_topics(name) for name in list(dict.fromkeys(rows))[:_BROKERS]]
    samples = {
        "route index": indexes,
        "groups": groups,
        "leases": [keys.lease(*member) for member in members],
        "key-value": [keys.kv(name) for name in drawn.namespaces],
        "feed": [],
    }
    wanted = [_usage(key) for some in (*samples.values(), tables) for key in some]
    sizes = iter((yield from _ask([*wanted, *(("HLEN", key) for key in tables)])))
    memory = {
        kind: _both(
            _sampled(drawn.totals.get(kind, 0), [next(sizes) for _ in some]),
            _sampled(1, [drawn.indexes.get(kind)]),
        )
        for kind, some in samples.items()
    }
    memory["broker tables"] = _of_tables(drawn, len(rows), [*sizes])
    if drawn.refused is not None:
        return Census(memory, drawn.refused, ())
    lost = yield from _without_deadline(keys, members)
    if isinstance(lost, Unknown):
        return Census(memory, lost, ())
    return Census(memory, len(members), lost)


def _members(brokers: Sequence[str], replies: Sequence[Reply]) -> list[Member]:
    return [
        (name, found[1])
        for name, reply in zip(brokers, replies, strict=False)
        for found in map(codec.replica_field, _items(reply))
        if found is not None and found[0] == "member"
    ]


def _rows(indexes: Sequence[Reply]) -> list[str]:
    """Return the broker of each row of some route indexes: who has many topics stands there often."""
    return [
        row.partition(b" ")[0].decode(errors="replace")
        for index in indexes
        if isinstance(index, bytes)
        for row in index.split(b"\n")
    ]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Random names, how many keys there are of each kind, and the sizes of the indexes."""

    brokers: Sequence[str]
    topics: Sequence[str]
    namespaces: Sequence[str]
    totals: Mapping[str, Reply]
    indexes: Mapping[str, Reply]
    refused: Unknown | None
    """Why there are no brokers to look at."""


def _draw(keys: Keys) -> Plan[_Drawn]:
    counts: dict[str, Command] = {
        "route index": ("SCARD", keys.topics),
        "groups": ("HLEN", keys.brokers),
        "leases": ("ZCARD", keys.deadlines),
        "key-value": ("SCARD", keys.namespaces),
    }
    indexes = {
        "route index": _usage(keys.topics),
        "groups": _usage(keys.brokers),
        "leases": _usage(keys.deadlines),
        "key-value": _usage(keys.namespaces),
        "feed": _usage(keys.changes),
    }
    names: list[Command] = [
        ("HRANDFIELD", keys.brokers, _BROKERS),
        ("SRANDMEMBER", keys.topics, _TOPICS),
        ("SRANDMEMBER", keys.namespaces, _NAMESPACES),
    ]
    replies = iter((yield Reads([*counts.values(), *indexes.values(), *names], tolerant=True)))
    totals = {kind: next(replies) for kind in counts}
    sizes = {kind: next(replies) for kind in indexes}
    brokers, topics, namespaces = replies
    refused = unknown(brokers) if isinstance(brokers, ErrorReply) else None
    return _Drawn(_names(brokers), _names(topics), _names(namespaces), totals, sizes, refused)


def _usage(key: str) -> Command:
    return ("MEMORY", "USAGE", key, "SAMPLES", _FIELDS)


def _ask(commands: Sequence[Command]) -> Plan[list[Reply]]:
    """Send commands, if there are any."""
    return (yield Reads(commands, tolerant=True)) if commands else []


def _items(reply: Reply) -> Sequence[bytes]:
    """Return the items of an answer; none if it is an error, which the counts tell of."""
    return () if isinstance(reply, ErrorReply) else reply


def _names(reply: Reply) -> list[str]:
    return [item.decode(errors="replace") for item in _items(reply)]


def _sampled(total: Reply, sizes: Sequence[Reply]) -> Sampled | Unknown:
    """Return a sample of keys; one that is gone by now counts as empty."""
    refused = _refusal((total, *sizes))
    return refused or Sampled(total, len(sizes), sum(size or 0 for size in sizes))


def _of_tables(drawn: _Drawn, rows: int, replies: Sequence[Reply]) -> tuple[Sampled, ...] | Unknown:
    """Return a sample of the entries of brokers' tables: there are as many as rows in the route index.

    `replies` are the sizes of some tables, and then the numbers of their entries.
    """
    topics = drawn.totals["route index"]
    refused = _refusal((topics, *replies))
    if refused is not None:
        return refused
    half = len(replies) // 2
    entries = round(topics * rows / len(drawn.topics)) if drawn.topics else 0
    return (Sampled(entries, sum(replies[half:]), sum(size or 0 for size in replies[:half])),)


def _refusal(replies: Sequence[Reply]) -> Unknown | None:
    return next((unknown(reply) for reply in replies if isinstance(reply, ErrorReply)), None)


def _both(first: Sampled | Unknown, second: Sampled | Unknown) -> tuple[Sampled, ...] | Unknown:
    if isinstance(first, Unknown):
        return first
    return second if isinstance(second, Unknown) else (first, second)


def _without_deadline(keys: Keys, members: Sequence[Member]) -> Plan[tuple[str, ...] | Unknown]:
    """Return the members for which no deadline is noted, as the sweep knows them."""
    if not members:
        return ()
    names = [keys.lease_member(*member) for member in members]
    (scores,) = yield Reads([("ZMSCORE", keys.deadlines, *names)], tolerant=True)
    if isinstance(scores, ErrorReply):
        return unknown(scores)
    suspects = [member for member, score in zip(members, scores, strict=True) if score is None]
    # An owner may have unregistered meanwhile: then it is no member any more.
    still = yield from _ask([("HEXISTS", keys.broker(name), f"member:{number}") for name, number in suspects])
    return tuple(
        keys.lease_member(*member) for member, there in zip(suspects, still, strict=True) if there == 1
    )
