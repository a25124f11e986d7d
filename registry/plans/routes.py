"""The operations that only read: routes, listings, the change stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final, Generic, TypeVar

from .. import codec
from ..checks import check_int, several
from ..errors import CorruptData, InvalidInput
from ..keys import Keys
from ..model import BrokerData, Change, Group, QueueData
from .base import Command, Plan, Reads, checked
from .view import Lookup, distinct, live_broker

T = TypeVar("T")

# Replies above about 1 MB get slower (measured); a row of the index is 20 to 40 bytes.
_MGET_KEYS: Final = 1_000
_BROKER_NAME: Final = attrgetter("broker_name")
_CHANGE_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
ORIGIN: Final = "0-0"
"""The id before the first entry of a stream."""


def lookup(
    keys: Keys,
    topics: Sequence[str],
    known: Mapping[str, Group] | None = None,
    anew: Iterable[str] = (),
) -> Plan[Lookup]:
    """Read many topics and the leases of their brokers.

    One round trip when all their groups are in `known`; up to two more for those that are not, and for the
    groups called `anew`, which are read whether or not a topic names them.
    Raises StoreUnavailable, StoreRefused.
    """
    topics = several(topics)
    known = known or {}
    prefix = keys.topic("")
    topic_keys = [prefix + topic for topic in topics]
    leases = [(group, broker_id) for group in known.values() for broker_id in group.broker_ids]
    values = yield from mget(
        [*topic_keys, *(keys.lease(group.broker_name, broker_id) for group, broker_id in leases)]
    )
    rows: dict[str, tuple[QueueData, ...]] = {}
    corrupt: list[CorruptData] = []
    absent: list[str] = []
    for topic, key, value in zip(topics, topic_keys, values, strict=False):
        if value is None:
            absent.append(topic)
            continue
        rows[topic], bad = codec.decode_index(key, value)
        if bad is not None:
            corrupt.append(bad)
    alive = _alive(keys, leases, values[len(topics) :], corrupt)
    named = set(map(_BROKER_NAME, chain.from_iterable(distinct(rows))))
    strangers = sorted((named | {*anew}) - known.keys())
    missing, found = yield from _look_closer(keys, absent, strangers, corrupt)
    more_leases = [(group, broker_id) for group in found.values() for broker_id in group.broker_ids]
    if more_leases:
        values = yield from mget(
            [keys.lease(group.broker_name, broker_id) for group, broker_id in more_leases]
        )
        alive |= _alive(keys, more_leases, values, corrupt)
    return Lookup(rows, missing, {**known, **found}, alive, tuple(corrupt))


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """What stands in the table, and the keys that could not be listed."""

    found: list[T]
    corrupt: tuple[CorruptData, ...]


def brokers(keys: Keys) -> Plan[Listing[BrokerData]]:
    """Return the live brokers, sorted by name (RocketMQ: GET_BROKER_CLUSTER_INFO).

    Raises CorruptData when the index of brokers is foreign, StoreUnavailable, StoreRefused.
    """
    (reply,) = yield Reads((("HKEYS", keys.brokers),))
    found = yield from groups(keys, [name.decode(errors="replace") for name in checked(keys.brokers, reply)])
    return Listing([found.alive[name] for name in sorted(found.alive)], found.corrupt)


def groups(keys: Keys, names: Iterable[str]) -> Plan[Lookup]:
    """Read the groups called so, and their leases. Raises StoreUnavailable, StoreRefused."""
    corrupt: list[CorruptData] = []
    _, found = yield from _look_closer(keys, [], names, corrupt)
    leases = [(group, broker_id) for group in found.values() for broker_id in group.broker_ids]
    values = yield from mget([keys.lease(group.broker_name, broker_id) for group, broker_id in leases])
    alive = _alive(keys, leases, values, corrupt)
    return Lookup(groups=found, alive=alive, corrupt=tuple(corrupt))


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A part of the change stream."""

    changes: tuple[Change, ...]
    """In order, without the one at the position that was asked for."""

    position: str
    """The id to ask for next."""

    lost: bool
    """The position is gone (trimmed, flushed, rolled back): changes may be missing, read everything again."""

    complete: bool
    """Nothing was left when the page was read."""

    corrupt: tuple[CorruptData, ...] = ()
    """Entries that are no changes."""


def changes_since(keys: Keys, position: str, limit: int = 1_000) -> Plan[ChangePage]:
    """Return what was written after `position`, an id of the stream or "0-0" for its beginning.

    The entry at the position is read too: if it is gone, so may be others.
    Raises InvalidInput, StoreUnavailable, StoreRefused, and CorruptData when the stream's key is foreign.
    """
    check_int("limit", limit, 1, 1_000_000)
    if not _CHANGE_ID.fullmatch(position):
        raise InvalidInput(f"position: {position!r} is no id of the stream, such as '0-0'")
    (reply,) = yield Reads((("XRANGE", keys.changes, position, "+", "COUNT", limit + 1),))
    entries = [(change_id.decode(), fields) for change_id, fields in checked(keys.changes, reply)]
    complete = len(entries) <= limit
    lost = position != ORIGIN and (not entries or entries[0][0] != position)
    after = [entry for entry in entries if entry[0] != position][:limit]
    changes, corrupt = [], []
    for change_id, fields in after:
        try:
            changes.append(codec.decode_change(keys.changes, change_id, (fields or {}).get(b"c", b"")))
        except CorruptData as error:
            corrupt.append(error)
    unmoved = ORIGIN if lost else position
    return ChangePage(tuple(changes), after[-1][0] if after else unmoved, lost, complete, tuple(corrupt))


def last_change_id(keys: Keys, until: str = "+") -> Plan[str]:
    """Return the id of the newest change, of those up to an id; "0-0" = none. Raises as changes_since."""
    (reply,) = yield Reads((("XREVRANGE", keys.changes, until, "-", "COUNT", 1),))
    entries = checked(keys.changes, reply)
    return entries[0][0].decode() if entries else ORIGIN


def mget(wanted: Sequence[str]) -> Plan[list[bytes | None]]:
    """Read many strings in one round trip; None for a key that is absent, or of another type."""
    if not wanted:
        return []
    commands: list[Command] = [
        ("MGET", *wanted[i : i + _MGET_KEYS]) for i in range(0, len(wanted), _MGET_KEYS)
    ]
    replies = yield Reads(commands)
    if len(replies) == 1:
        return list(checked(wanted[0], replies[0]))
    return [value for reply in replies for value in checked(wanted[0], reply)]


def _look_closer(
    keys: Keys, absent: Iterable[str], names: Iterable[str], corrupt: list[CorruptData]
) -> Plan[tuple[tuple[str, ...], dict[str, Group]]]:
    """Tell topics that nobody holds from keys of another type, and read the groups called `names`."""
    absent, names = tuple(absent), tuple(names)
    if not absent and not names:
        return (), {}
    types: list[Command] = [("TYPE", keys.topic(topic)) for topic in absent]
    hashes: list[Command] = [("HGETALL", keys.broker(name)) for name in names]
    replies = yield Reads([*types, *hashes])
    missing = []
    for topic, kind in zip(absent, replies, strict=False):
        if kind in (b"none", b"string"):  # a string: written since
            missing.append(topic)
        else:
            corrupt.append(CorruptData(keys.topic(topic), f"is a {kind.decode()}, not a route index"))
    groups = {}
    for name, reply in zip(names, replies[len(absent) :], strict=True):
        try:
            fields = checked(keys.broker(name), reply)
        except CorruptData as error:
            corrupt.append(error)
        else:
            groups[name] = codec.decode_group(name, fields)
    return tuple(missing), groups


def _alive(
    keys: Keys,
    leases: Sequence[tuple[Group, int]],
    values: Sequence[bytes | None],
    corrupt: list[CorruptData],
) -> dict[str, BrokerData]:
    """Return the brokers with a live lease, with the addresses that stand in the leases."""
    addresses: dict[str, dict[int, str]] = {}
    groups: dict[str, Group] = {}
    for (group, broker_id), value in zip(leases, values, strict=True):
        if value is None:
            continue
        lease = codec.decode_lease(value)
        if lease is None:
            key = keys.lease(group.broker_name, broker_id)
            corrupt.append(CorruptData(key, f"{value[:80]!r} is no lease"))
            continue
        addresses.setdefault(group.broker_name, {})[broker_id] = lease[1]
        groups[group.broker_name] = group
    return {name: live_broker(groups[name], members) for name, members in addresses.items()}
