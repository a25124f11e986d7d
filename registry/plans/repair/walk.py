"""Verify: a walk through all keys of a registry that finds what differs from its design."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ... import scripts
from ...checks import check_broker_name, check_name
from ...codec import broker_id_of, is_text, replica_ids
from ...config import RegistryConfig
from ...errors import CorruptData, InvalidInput
from ...keys import KeyKind, Keys
from ..base import Call, Page, Plan, Progress, Reads, Stream, checked, script_reply
from ..expiry import late_ms, lease_of
from ..operators import check_schema
from ..replicas import table_sizes
from ..routes import mget
from . import checks
from .checks import FOREIGN, Check, Difference, DifferenceKind, ask, confirm, suspects
from .rows import index_checks, table_checks

T = TypeVar("T")

_AT_ONCE: Final = 1_000
_GLOB: Final = re.compile(r"([\\*?\[\]^-])")

_Named = tuple[KeyKind, tuple[str, ...], str]
"""The kind of a key, the names in it, and the key."""


def verify(config: RegistryConfig) -> Stream[Difference]:
    """Find what is wrong in a registry, online: what is written meanwhile is no difference.

    All keys in the registry's namespace are walked through, page by page; other keys of the server are passed
    over. What looks wrong is looked at again, in one atomic step. Raises NewerSchema.
    """
    keys = Keys(config.namespace)
    yield from check_schema(keys)
    count = _Count((yield from _estimate(keys)))
    schema = yield from confirm((yield from suspects([checks.schema_check(keys)])))
    yield count.page(schema, 0)
    yield from _walk_keys(keys, count)
    yield from _walk_topics(keys, count)
    yield from _walk_brokers(keys, count)
    yield from _walk_deadlines(keys, count, late_ms(config))


class _Count:
    """How far the walk has come."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0

    def page(self, found: Iterable[Difference], done: int) -> Page[Difference]:
        """Return a page after `done` more keys or entries."""
        self._done += done
        return Page(tuple(found), Progress(self._done, max(self._total, self._done)))


def _estimate(keys: Keys) -> Plan[int]:
    try:
        tables = [size for _, size in (yield from table_sizes(keys)).found]
    except CorruptData:  # an index of brokers of another type lists nobody
        tables = []
    sizes = yield from ask([("SCARD", keys.topics), ("ZCARD", keys.deadlines), ("SCARD", keys.namespaces)])
    topics, deadlines, namespaces = (0 if size is FOREIGN else size for size in sizes)
    # Topics, brokers and deadlines are walked through twice: as keys, and as what the listings say.
    return sum(tables) + 3 * len(tables) + 2 * topics + 2 * deadlines + int(namespaces)


def _walk_keys(keys: Keys, count: _Count) -> Stream[Difference]:
    """Look at every key, and by its kind at what it holds."""
    cursor: Any = 0
    pattern = _GLOB.sub(r"\\\1", keys.prefix) + ":*"
    while True:
        # TIME keeps it a pipeline, whose replies are the same for a Cluster's client and any other.
        reply, _ = yield Reads((("SCAN", cursor, "MATCH", pattern, "COUNT", _AT_ONCE), ("TIME",)))
        cursor, names = checked(keys.prefix, reply)
        found, usual = yield from _kinds(keys, names)
        found += yield from confirm((yield from _checks(keys, usual)))
        yield count.page(found, len(names))
        for kind, named, key in usual:
            if kind.name == "broker:<broker>:topics":
                yield from _walk_table(keys, count, named[0], key)
        if int(cursor) == 0:
            return


def _kinds(keys: Keys, names: Sequence[bytes]) -> Plan[tuple[list[Difference], list[_Named]]]:
    """Tell the keys of other kinds, types and lifetimes from those that are as they should be."""
    found: list[Difference] = []
    known: list[_Named] = []
    for name in dict.fromkeys(names):
        text = name.decode(errors="backslashreplace")
        kind = keys.kind_of(text) if text.encode() == name else None
        if kind is None or not _legal(kind):
            what = "the registry has no such key; move it away"
            found.append(Difference(DifferenceKind.UNKNOWN_KEY, text, what, mendable=False))
        else:
            known.append((*kind, text))
    if not known:
        return found, []
    arguments = [word for kind, *_ in known for word in (kind.type_name, "1" if kind.expires else "0")]
    _, *odd = yield from script_reply(Call(scripts.ODD_KEYS, [key for *_, key in known], arguments))
    foreign = set()
    for number, type_name, left_ms in zip(odd[::3], odd[1::3], odd[2::3], strict=True):
        difference = _odd(known[number - 1], type_name, left_ms)
        found.append(difference)
        if difference.kind is DifferenceKind.WRONG_TYPE:
            foreign.add(number - 1)
    return found, [named for number, named in enumerate(known) if number not in foreign]


def _legal(kind: tuple[KeyKind, tuple[str, ...]]) -> bool:
    """Whether the names in a key can be those of topics and brokers."""
    of, names = kind
    try:
        if "<topic>" in of.name:
            check_name("topicName", names[0])
        elif "<broker>" in of.name:
            check_broker_name(names[0])
    except InvalidInput:
        return False
    return "<id>" not in of.name or broker_id_of(names[1]) is not None


def _odd(named: _Named, type_name: str, left_ms: int) -> Difference:
    kind, _, key = named
    if type_name != kind.type_name:
        text = f"is a {type_name}, not a {kind.type_name}; move it away"
        return Difference(DifferenceKind.WRONG_TYPE, key, text, mendable=False)
    if kind.expires:
        return Difference(DifferenceKind.NO_TTL, key, "never ends")
    return Difference(DifferenceKind.UNWANTED_TTL, key, f"vanishes in {left_ms} ms")


def _checks(keys: Keys, named: Sequence[_Named]) -> Plan[list[Check]]:
    """Return what to look at again, of some keys."""
    by_kind: dict[str, list[tuple[str, ...]]] = {}
    for kind, names, _ in named:
        by_kind.setdefault(kind.name, []).append(names)
    topics = [topic for (topic,) in by_kind.get("topic:<topic>", ())]
    indexes = (yield from index_checks(keys, topics)) if topics else []
    groups = [name for (name,) in by_kind.get("broker:<broker>", ())]
    singles = [checks.group_check(keys, name) for name in groups]
    singles += yield from _member_checks(keys, groups)
    singles += [checks.table_group_check(keys, name) for (name,) in by_kind.get("broker:<broker>:topics", ())]
    singles += [
        checks.lease_check(keys, name, int(number)) for name, number in by_kind.get("lease:<broker>:<id>", ())
    ]
    singles += [checks.namespace_check(keys, name) for (name,) in by_kind.get("kv:<namespace>", ())]
    return [*indexes, *(yield from suspects(singles))]


def _member_checks(keys: Keys, names: Sequence[str]) -> Plan[list[Check]]:
    replies = yield from ask([("HKEYS", keys.broker(name)) for name in names])
    return [
        checks.member_check(keys, name, broker_id)
        for name, fields in zip(names, replies, strict=True)
        if fields is not FOREIGN
        for broker_id in replica_ids(fields, "member")
    ]


def _scan(
    command: str, key: str, count: _Count, look: Callable[[Any], Plan[list[Difference]]]
) -> Stream[Difference]:
    """Look at what a key holds, page by page; one of another type is reported elsewhere."""
    cursor = 0
    while True:
        (reply,) = yield from ask([(command, key, cursor, "COUNT", _AT_ONCE)])
        if reply is FOREIGN:
            return
        cursor, entries = reply
        yield count.page((yield from look(entries)), len(entries))
        if cursor == 0:
            return


def _walk_table(keys: Keys, count: _Count, broker_name: str, key: str) -> Stream[Difference]:
    def look(entries: Mapping[bytes, bytes]) -> Plan[list[Difference]]:
        return (yield from confirm((yield from table_checks(keys, broker_name, entries))))

    return _scan("HSCAN", key, count, look)


def _walk_topics(keys: Keys, count: _Count) -> Stream[Difference]:
    def look(members: Iterable[bytes]) -> Plan[list[Difference]]:
        names, garbage = _named(members, bytes.decode)
        values = yield from mget([keys.topic(name) for name in names])
        gone = [name for name, value in zip(names, values, strict=True) if value is None]
        found = yield from confirm([checks.topic_listed(keys, name) for name in gone])
        text = "the set of topics has {!r}, which is no name; remove it"
        return found + _garbage(DifferenceKind.TOPIC_GONE, keys.topics, text, garbage)

    return _scan("SSCAN", keys.topics, count, look)


def _walk_brokers(keys: Keys, count: _Count) -> Stream[Difference]:
    def look(members: Iterable[bytes]) -> Plan[list[Difference]]:
        names, garbage = _named(members, bytes.decode)
        found = yield from confirm(
            (yield from suspects([checks.broker_listed(keys, name) for name in names]))
        )
        text = "the index of brokers has {!r}, which is no name; remove it"
        return found + _garbage(DifferenceKind.BROKER_GONE, keys.brokers, text, garbage)

    return _scan("HSCAN", keys.brokers, count, look)


def _walk_deadlines(keys: Keys, count: _Count, bound_ms: int) -> Stream[Difference]:
    def look(members: Iterable[tuple[bytes, float]]) -> Plan[list[Difference]]:
        leases, garbage = _named(dict(members), lambda member: lease_of(member.decode()))
        first = yield from suspects([checks.deadline_check(keys, *lease, bound_ms) for lease in leases])
        found = yield from confirm(first)
        text = "has {!r}, which is no broker:id; remove it"
        return found + _garbage(DifferenceKind.DEADLINE_CORRUPT, keys.deadlines, text, garbage)

    return _scan("ZSCAN", keys.deadlines, count, look)


def _named(members: Iterable[bytes], name_of: Callable[[bytes], T | None]) -> tuple[list[T], list[bytes]]:
    """Return what members name, and those that name nothing."""
    found: list[T] = []
    garbage: list[bytes] = []
    for member in dict.fromkeys(members):
        name = name_of(member) if is_text(member) else None
        if name is None:
            garbage.append(member)
        else:
            found.append(name)
    return found, garbage


def _garbage(kind: DifferenceKind, key: str, text: str, parts: Iterable[bytes]) -> list[Difference]:
    return [Difference(kind, key, text.format(part[:80]), part=part, mendable=False) for part in parts]
