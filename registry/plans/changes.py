"""The change stream: pages of changes, and pages of undecoded records for readers in bulk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .. import codec
from ..checks import check_int
from ..errors import CorruptData, InvalidInput
from ..keys import Keys
from ..model import Change
from .base import Command, ErrorReply, Plan, Reads, Reply, checked, read, read_all

ORIGIN: Final = "0-0"
"""The id before the first entry of a stream."""

NEWEST: Final = "+"
"""The end of a stream, whatever its id."""

_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_MOST: Final = 1_000_000
_RECORD: Final = b"c"
_PAIR: Final = 2

# redis-py makes a dict of each entry, which takes as long as all the rest. A command whose name is bytes has
# no such treatment: what the server sent is the answer.
_XRANGE: Final = b"XRANGE"
_XREVRANGE: Final = b"XREVRANGE"
_XINFO: Final = b"XINFO"


def order(change_id: str) -> tuple[int, int] | None:
    """Return what ids of the stream are compared by; None for what is no id."""
    if not _ID.fullmatch(change_id):
        return None
    ms, _, sequence = change_id.partition("-")
    return int(ms), int(sequence)


@dataclass(frozen=True, slots=True)
class ChangePage:
    """A part of the change stream."""

    changes: tuple[Change, ...]
    """In order, after the position."""

    position: str
    """The id to ask for next."""

    lost: bool
    """The position is gone (trimmed, flushed, rolled back): changes may be missing, read everything again."""

    complete: bool
    """Nothing was left when the page was read."""

    corrupt: tuple[CorruptData, ...] = ()
    """Entries that are no changes."""


NO_CHANGES: Final = ChangePage((), ORIGIN, lost=False, complete=True)


def changes_since(keys: Keys, position: str, limit: int = 1_000) -> Plan[ChangePage]:
    """Return what was written after `position`, an id of the stream or "0-0" for its beginning.

    The entry at the position is read too: if it is gone, others may be as well. Raises InvalidInput.
    """
    check_int("limit", limit, 1, _MOST)
    _check_id("position", position)
    entries = yield from read("XRANGE", keys.changes, position, NEWEST, "COUNT", limit + 1)
    page = _page(HistoryRange(position, limit=limit), entries)
    return _decoded(keys, page, ORIGIN if page.lost else position)


def _decoded(keys: Keys, page: HistoryPage, unmoved: str) -> ChangePage:
    """Return a page with its changes; its position is `unmoved` when it is empty."""
    changes, corrupt = [], []
    for change_id, record in zip(page.ids, page.records, strict=True):
        try:
            changes.append(codec.decode_change(keys.changes, change_id.decode(), record or b""))
        except CorruptData as error:
            corrupt.append(error)
    last = page.ids[-1].decode() if page.ids else unmoved
    return ChangePage(tuple(changes), last, page.lost, page.complete, tuple(corrupt))


def last_change_id(keys: Keys, until: str = "+") -> Plan[str]:
    """Return the id of the newest change, of those up to an id; "0-0" = none."""
    entries = yield from read("XREVRANGE", keys.changes, until, "-", "COUNT", 1)
    return entries[0][0].decode() if entries else ORIGIN


def newest_changes(keys: Keys, limit: int, before: str = NEWEST) -> Plan[ChangePage]:
    """Return up to `limit` changes before an id, the newest first; `position` is the id of the oldest."""
    until = before if before == NEWEST else f"({before}"
    entries = yield from read(_XREVRANGE, keys.changes, until, "-", "COUNT", limit)
    ids, records = [entry_id for entry_id, _ in entries], [_record(fields) for _, fields in entries]
    return _decoded(keys, HistoryPage(ids, records, lost=False, complete=len(ids) < limit), before)


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """The changes after one id of the stream, up to and including another one or NEWEST."""

    after: str = ORIGIN
    until: str = NEWEST
    limit: int = 10_000


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Entries of the change stream, undecoded; `codec.decode_change` says what a record means."""

    ids: list[bytes]
    """In order, after the id where the range begins."""

    records: list[bytes | None]
    """As long as `ids`; None = the entry has no record: it is foreign."""

    lost: bool
    """The entry at the beginning is gone (trimmed, flushed, rolled back): changes may be missing."""

    complete: bool
    """Nothing was left in the range when the page was read."""


@dataclass(frozen=True, slots=True)
class HistoryBounds:
    """What the change stream holds; all of it "0-0" and 0 when there is none."""

    first_id: str = ORIGIN
    """Of the oldest entry; "0-0" = there is no entry."""

    last_id: str = ORIGIN
    """Of the newest entry; "0-0" = there is no entry."""

    last_generated_id: str = ORIGIN
    """Of the newest entry that was ever written."""

    entries: int = 0
    written: int | None = 0
    """The number of entries ever written; None = the server does not know (before Redis 7)."""


def history(keys: Keys, *ranges: HistoryRange) -> Plan[list[HistoryPage]]:
    """Return a page of each range, read in one round trip.

    The entry at the beginning is read too: if it is gone, others may be as well. Raises InvalidInput.
    """
    commands: list[Command] = []
    for wanted in ranges:
        check_int("limit", wanted.limit, 1, _MOST)
        _check_id("after", wanted.after)
        if wanted.until != NEWEST:
            _check_id("until", wanted.until)
        commands.append((_XRANGE, keys.changes, wanted.after, wanted.until, "COUNT", wanted.limit + 1))
    return list(map(_page, ranges, (yield from read_all(commands))))


def history_bounds(keys: Keys) -> Plan[HistoryBounds]:
    """Return where the stream begins and ends, and how long it is."""
    (reply,) = yield Reads(((_XINFO, "STREAM", keys.changes),))
    if isinstance(reply, ErrorReply) and "no such key" in reply.message:
        return HistoryBounds()
    told = _pairs(checked(keys.changes, reply))
    first, last = told[b"first-entry"], told[b"last-entry"]
    written = told.get(b"entries-added")
    return HistoryBounds(
        first[0].decode() if first else ORIGIN,
        last[0].decode() if last else ORIGIN,
        told[b"last-generated-id"].decode(),
        int(told[b"length"]),
        None if written is None else int(written),
    )


def _check_id(name: str, value: str) -> None:
    if not _ID.fullmatch(value):
        raise InvalidInput(f"{name}: {value!r} is no id of the stream, such as '0-0'")


def _page(wanted: HistoryRange, entries: list[Any]) -> HistoryPage:
    complete = len(entries) <= wanted.limit
    at_place = bool(entries) and entries[0][0].decode() == wanted.after
    after = entries[1:] if at_place else entries[: wanted.limit]
    return HistoryPage(
        [entry_id for entry_id, _ in after],
        [
            fields[1]
            if type(fields) is list and len(fields) == _PAIR and fields[0] == _RECORD
            else _record(fields)
            for _, fields in after
        ],
        lost=wanted.after != ORIGIN and not at_place,
        complete=complete,
    )


def _record(fields: Iterable[bytes] | Mapping[bytes, bytes] | None) -> bytes | None:
    """Return the record of an entry that came as a dict or has unexpected fields."""
    return _pairs(fields or {}).get(_RECORD)


def _pairs(reply: Reply) -> Mapping[bytes, Any]:
    """Return names with their values, which RESP 2 sends in one list."""
    if isinstance(reply, Mapping):
        return reply
    flat = list(reply)
    return dict(zip(flat[::2], flat[1::2], strict=True))
