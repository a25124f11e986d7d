"""The whole table in one view: for a consumer that keeps a copy of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .. import codec
from ..errors import CorruptData
from ..keys import Keys
from ..model import BrokerData, Group, QueueData
from .base import Plan, Reads, checked
from .routes import groups, lookup, mget
from .view import Lookup, distinct

_AT_ONCE: Final = 1_000


def whole_table(keys: Keys) -> Plan[Lookup]:
    """Read all topics and all brokers, page by page; `missing` stays empty.

    It is no snapshot of one instant: who needs one takes a position of the change stream before, and applies
    the changes after it. Raises CorruptData when the index of topics or of brokers is foreign,
    StoreUnavailable, StoreRefused.
    """
    rows: dict[str, tuple[QueueData, ...]] = {}
    corrupt: list[CorruptData] = []
    cursor = 0
    while True:
        (page,) = yield Reads((("SSCAN", keys.topics, cursor, "COUNT", _AT_ONCE),))
        cursor, members = checked(keys.topics, page)
        names = {member.decode() for member in members if codec.is_text(member)}  # else none of ours
        yield from _read_rows(keys, sorted(names - rows.keys()), rows, corrupt)
        if cursor == 0:
            break
    (reply,) = yield Reads((("HKEYS", keys.brokers),))
    listed = {name.decode() for name in checked(keys.brokers, reply) if codec.is_text(name)}
    named = {row.broker_name for same in distinct(rows) for row in same}
    found, alive = yield from _read_brokers(keys, sorted(listed | named), corrupt)
    return Lookup(rows=rows, groups=found, alive=alive, corrupt=tuple(corrupt))


def _read_rows(
    keys: Keys,
    names: Sequence[str],
    rows: dict[str, tuple[QueueData, ...]],
    corrupt: list[CorruptData],
) -> Plan[None]:
    values = yield from mget([keys.topic(name) for name in names])
    absent = []
    for name, value in zip(names, values, strict=True):
        if value is None:
            absent.append(name)
            continue
        rows[name], bad = codec.decode_index(keys.topic(name), value)
        corrupt += [bad] if bad else []
    if absent:  # removed since the scan, or of another type
        corrupt += (yield from lookup(keys, absent)).corrupt


def _read_brokers(
    keys: Keys, names: Sequence[str], corrupt: list[CorruptData]
) -> Plan[tuple[dict[str, Group], dict[str, BrokerData]]]:
    found: dict[str, Group] = {}
    alive: dict[str, BrokerData] = {}
    for i in range(0, len(names), _AT_ONCE):
        some = yield from groups(keys, names[i : i + _AT_ONCE])
        found |= some.groups
        alive |= some.alive
        corrupt += some.corrupt
    return found, alive
