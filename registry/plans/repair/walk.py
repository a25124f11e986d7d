"""Verify and rebuild: a walk through all keys of a registry that finds, and mends, what is wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Any, Final, TypeAlias

from ... import scripts
from ...checks import check_broker_name, check_name
from ...codec import broker_id_of, is_text, replica_ids
from ...config import RegistryConfig
from ...errors import CorruptData, InvalidInput
from ...keys import KeyKind, Keys
from ..base import Call, Page, Plan, Progress, Reads, Stream, advance, check_schema, checked, script_reply
from ..expiry import expire, lease_of
from ..replicas import table_sizes
from .checks import Checks
from .differences import FOREIGN, Check, Difference, DifferenceKind, RowCure, ask, run
from .rows import index_checks, look_at_table, mend_rows

_AT_ONCE: Final = 1_000
_GLOB: Final = re.compile(r"([\\*?\[\]^-])")

_LEASE: Final = "lease:<broker>:<id>"
_ENDED: Final = (DifferenceKind.MEMBER_WITHOUT_DEADLINE, DifferenceKind.DEADLINE_OVERDUE)
_MOVED: Final = "it was written meanwhile; verify again"

_Named: TypeAlias = tuple[KeyKind, tuple[str, ...], str]
"""The kind of a key, the names in it, and the key."""


def verify(config: RegistryConfig) -> Stream[Difference]:
    """Find what is wrong in a registry, online: what is written meanwhile is no difference.

    All keys in the registry's namespace are walked through, page by page; other keys of the server are passed
    over. What is checked together is read in one atomic step. Raises NewerSchema.
    """
    return _Walk(config).run()


def rebuild(config: RegistryConfig) -> Stream[Difference]:
    """Verify, and mend what can be mended; the brokers' own tables are the truth.

    Owners keep their leases and epochs, and what they write meanwhile is not overwritten. What changes for
    readers is announced. Foreign keys and values are left, and reported. Raises NewerSchema.
    """
    walk = verify(config)
    while (page := (yield from advance(walk))) is not None:
        done: list[Difference] = []
        rows: dict[str, list[Difference]] = {}
        for found in page.found:
            if isinstance(found.cure, RowCure):  # those of one broker are mended together
                rows.setdefault(found.broker_name, []).append(found)
            else:
                done.append((yield from _mend(config, found)))
        for broker_name, of_broker in rows.items():
            done += yield from _mend_rows(config, broker_name, of_broker)
        yield Page(tuple(done), page.progress)


def _mend(config: RegistryConfig, found: Difference) -> Plan[Difference]:
    if not isinstance(found.cure, Call):
        return replace(found, left="it cannot be mended from the brokers' tables")
    try:
        status, *_ = yield from script_reply(found.cure)
        if found.kind in _ENDED:  # announce it, as the sweep would
            yield from expire(config, found.broker_name, found.broker_id or 0)
    except CorruptData as error:
        return replace(found, left=str(error))
    return _done(found, mended=status == "ok")


def _mend_rows(
    config: RegistryConfig, broker_name: str, rows: Sequence[Difference]
) -> Plan[list[Difference]]:
    try:
        left = yield from mend_rows(config, broker_name, rows)
    except CorruptData as error:
        return [replace(row, left=str(error)) for row in rows]
    return [_done(row, mended=row.topic not in left) for row in rows]


def _done(found: Difference, *, mended: bool) -> Difference:
    return replace(found, mended=mended, left="" if mended else _MOVED)


class _Walk:
    """One walk through a registry, and how far it has come."""

    def __init__(self, config: RegistryConfig) -> None:
        self._keys = Keys(config.namespace)
        self._checks = Checks(config)
        self._total = 0
        self._done = 0

    def run(self) -> Stream[Difference]:
        """Look at the schema, at all keys, and at what the listings say."""
        keys, checks, kinds = self._keys, self._checks, DifferenceKind
        yield from check_schema(keys)
        self._total = yield from _estimate(keys)
        yield self._page((yield from run([checks.schema()])), 0)
        yield from self._walk_keys()
        yield from self._walk_listing("SSCAN", keys.topics, kinds.TOPIC_GONE, _name_in, checks.topic_listed)
        yield from self._walk_listing(
            "HSCAN", keys.brokers, kinds.BROKER_GONE, _name_in, checks.broker_listed
        )
        garbage = kinds.DEADLINE_CORRUPT
        yield from self._walk_listing("ZSCAN", keys.deadlines, garbage, _lease_in, checks.deadline)

    def _page(self, found: Iterable[Difference], done: int) -> Page[Difference]:
        """Return a page after `done` more keys or entries."""
        self._done += done
        return Page(tuple(found), Progress(self._done, max(self._total, self._done)))

    def _walk_keys(self) -> Stream[Difference]:
        """Look at every key, and by its kind at what it holds."""
        cursor: Any = 0
        pattern = _GLOB.sub(r"\\\1", self._keys.prefix) + ":*"
        while True:
            # TIME keeps it a pipeline, whose replies are the same for a Cluster's client and any other.
            reply, _ = yield Reads((("SCAN", cursor, "MATCH", pattern, "COUNT", _AT_ONCE), ("TIME",)))
            cursor, names = checked(self._keys.prefix, reply)
            found, usual = yield from self._kinds(names)
            found += yield from run((yield from self._checks_of(usual)))
            yield self._page(found, len(names))
            for kind, named, key in usual:
                if kind.name == "broker:<broker>:topics":
                    yield from self._scan("HSCAN", key, partial(look_at_table, self._keys, named[0]))
            if int(cursor) == 0:
                return

    def _kinds(self, names: Sequence[bytes]) -> Plan[tuple[list[Difference], list[_Named]]]:
        """Tell the keys of other kinds, types and lifetimes from those that are as they should be."""
        found: list[Difference] = []
        known: list[_Named] = []
        for name in dict.fromkeys(names):
            text = name.decode(errors="backslashreplace")
            kind = self._keys.kind_of(text) if text.encode() == name else None
            if kind is None or not _legal(kind):
                what = "the registry has no such key; move it away"
                found.append(Difference(DifferenceKind.UNKNOWN_KEY, text, what))
            else:
                known.append((*kind, text))
        if not known:
            return found, []
        arguments = [word for kind, *_ in known for word in (kind.type_name, "1" if kind.expires else "0")]
        _, *odd = yield from script_reply(Call(scripts.ODD_KEYS, [key for *_, key in known], arguments))
        foreign = set()
        for number, type_name, left_ms in zip(odd[::3], odd[1::3], odd[2::3], strict=True):
            difference = self._odd(known[number - 1], type_name, left_ms)
            found.append(difference)
            if difference.kind is DifferenceKind.WRONG_TYPE:
                foreign.add(number - 1)
        return found, [named for number, named in enumerate(known) if number not in foreign]

    def _odd(self, named: _Named, type_name: str, left_ms: int) -> Difference:
        kind, names, key = named
        if type_name != kind.type_name:
            text = f"is a {type_name}, not a {kind.type_name}; move it away"
            return Difference(DifferenceKind.WRONG_TYPE, key, text)
        if kind.name == _LEASE:
            cure = self._checks.mend_lease(names[0], int(names[1]))
        else:
            cure = self._checks.mend_ttl(kind, key)
        if kind.expires:
            return Difference(DifferenceKind.NO_TTL, key, "never ends", cure=cure)
        return Difference(DifferenceKind.UNWANTED_TTL, key, f"vanishes in {left_ms} ms", cure=cure)

    def _checks_of(self, named: Sequence[_Named]) -> Plan[list[Check]]:
        """Return the checks of what some keys hold."""
        checks, by_kind = self._checks, defaultdict[str, list[tuple[str, ...]]](list)
        for kind, names, _ in named:
            by_kind[kind.name].append(names)
        indexes = yield from index_checks(self._keys, [topic for (topic,) in by_kind["topic:<topic>"]])
        groups = [name for (name,) in by_kind["broker:<broker>"]]
        fields = yield from ask([("HKEYS", self._keys.broker(name)) for name in groups])
        members = [
            (name, broker_id)
            for name, of_group in zip(groups, fields, strict=True)
            if of_group is not FOREIGN
            for broker_id in replica_ids(of_group, "member")
        ]
        return [
            *indexes,
            *map(checks.group, groups),
            *starmap(checks.member, members),
            *(checks.table_group(name) for (name,) in by_kind["broker:<broker>:topics"]),
            *(checks.lease(name, int(number)) for name, number in by_kind[_LEASE]),
            *(checks.namespace(name) for (name,) in by_kind["kv:<namespace>"]),
        ]

    def _scan(
        self, command: str, key: str, look: Callable[[Any], Plan[list[Difference]]]
    ) -> Stream[Difference]:
        """Look at what a key holds, page by page; one of another type is reported elsewhere."""
        cursor = 0
        while True:
            (reply,) = yield from ask([(command, key, cursor, "COUNT", _AT_ONCE)])
            if reply is FOREIGN:
                return
            cursor, entries = reply
            yield self._page((yield from look(entries)), len(entries))
            if cursor == 0:
                return

    def _walk_listing(
        self,
        command: str,
        key: str,
        garbage: DifferenceKind,
        names_in: Callable[[bytes], tuple[Any, ...] | None],
        check: Callable[..., Check],
    ) -> Stream[Difference]:
        """Look at what a listing names, and report the members that name nothing."""

        def look(entries: Iterable[Any]) -> Plan[list[Difference]]:
            members = {
                member: names_in(member) for member in (dict(entries) if command == "ZSCAN" else entries)
            }
            what = "broker:id" if command == "ZSCAN" else "name"
            text = f"has {{!r}}, which is no {what}; remove it"
            bad = [member[:80] for member, names in members.items() if names is None]
            found = yield from run(check(*names) for names in members.values() if names is not None)
            return [*found, *(Difference(garbage, key, text.format(member)) for member in bad)]

        return self._scan(command, key, look)


def _estimate(keys: Keys) -> Plan[int]:
    try:
        tables = [size for _, size in (yield from table_sizes(keys)).found]
    except CorruptData:  # an index of brokers of another type lists nobody
        tables = []
    sizes = yield from ask([("SCARD", keys.topics), ("ZCARD", keys.deadlines), ("SCARD", keys.namespaces)])
    topics, deadlines, namespaces = (0 if size is FOREIGN else size for size in sizes)
    # Topics, brokers and deadlines are walked through twice: as keys, and as what the listings say.
    return sum(tables) + 3 * len(tables) + 2 * topics + 2 * deadlines + int(namespaces)


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


def _name_in(member: bytes) -> tuple[str] | None:
    return (member.decode(),) if is_text(member) else None


def _lease_in(member: bytes) -> tuple[str, int] | None:
    return lease_of(member.decode()) if is_text(member) else None
