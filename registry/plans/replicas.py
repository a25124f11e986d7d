"""Every replica that a registry knows, the dead ones too, and since when each is what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from .. import codec
from ..errors import CorruptData
from ..keys import Keys
from ..model import EXPIRED, MASTER_ID, Change, ChangeKind, Group, MemberTraits
from .base import Plan, Reads, Reply, checked
from .routes import mget

_PAGE: Final = 1_000
_NO_TRAITS: Final = MemberTraits()

_Member: TypeAlias = tuple[str, int]


class ReplicaState(StrEnum):
    """What a replica is to clients."""

    LIVE = "live"
    """It has a lease."""

    DEAD = "dead"
    """It has none: it was lost, or was unregistered."""

    OUT = "out"
    """It has none, and an operator keeps it out (drain, pause) until its agent is told to resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterEntry:
    """One replica of a broker; times are of the server's clock, in ms since 1970, None = not known."""

    cluster: str
    broker_name: str
    broker_id: int
    state: ReplicaState
    address: str = ""
    """Of the lease, or the last that was told; '' = not known any more."""

    since_ms: int | None = None
    """Since when it is live, or is not, as far as the change stream tells."""

    reason: str = ""
    """Why it is not live: as in Change.reason; '' = not known."""

    lease_ttl_ms: int | None = None
    """Of a live one: how long a heartbeat lasts."""

    lease_left_ms: int | None = None
    """Of a live one: so long until its lease ends, unless it is renewed."""

    topics: int = 0
    """In the table of the broker, which all its replicas share."""

    zone_name: str = ""
    wiped: bool = False


@dataclass(frozen=True, slots=True)
class Roster:
    """What the registry knows."""

    entries: tuple[RosterEntry, ...]
    """By name and id. A broker of which nothing but a name or a table is left has id 0."""

    corrupt: tuple[CorruptData, ...]


def roster(keys: Keys, *, since: bool = True) -> Plan[Roster]:
    """Return every replica that was ever registered and whose broker is not forgotten.

    Reads all groups, and unless `since` is false the change stream, from its end until it has told of every
    replica: it knows since when they are what they are, the reasons, and the addresses of the dead.
    Raises CorruptData when the index of brokers is foreign, StoreUnavailable, StoreRefused.
    """
    (reply,) = yield Reads((("HKEYS", keys.brokers),))
    names = sorted(name.decode(errors="replace") for name in checked(keys.brokers, reply))
    corrupt: list[CorruptData] = []
    known = yield from _known(keys, names, corrupt)
    members = [(name, broker_id) for name, found in known.items() for broker_id in found.ids]
    leases = yield from mget([keys.lease(*member) for member in members])
    moments = yield from _moments(keys, members, corrupt)
    told = yield from _told(keys, set(members) if since else set(), corrupt)
    entries = [
        _entry(known[name], broker_id, lease, told.get((name, broker_id), _NOTHING), moment)
        for (name, broker_id), lease, moment in zip(members, leases, moments, strict=True)
    ]
    return Roster(tuple(entries), tuple(corrupt))


@dataclass(frozen=True, slots=True)
class _Known:
    """What the group of a broker says."""

    group: Group
    fields: Mapping[bytes, bytes]
    topics: int

    @property
    def ids(self) -> tuple[int, ...]:
        """The replicas that there ever were; id 0 where only a name or a table is left."""
        found = filter(None, map(codec.replica_field, self.fields))
        return tuple(sorted({broker_id for _, broker_id in found})) or (MASTER_ID,)

    def field(self, what: str, broker_id: int) -> bytes | None:
        """Return what the group holds of one replica."""
        return self.fields.get(f"{what}:{broker_id}".encode())


@dataclass(frozen=True, slots=True)
class _Told:
    """The newest changes that tell of a replica."""

    last: Change | None = None
    """That it is live, or is not."""

    up: Change | None = None


_NOTHING: Final = _Told()


@dataclass(frozen=True, slots=True)
class _Moment:
    """When a lease ends by the server's clock, in ms; None = no deadline is noted."""

    deadline_ms: int | None
    now_ms: int

    @property
    def left_ms(self) -> int | None:
        """So long until then."""
        return None if self.deadline_ms is None else max(self.deadline_ms - self.now_ms, 0)


def _known(keys: Keys, names: list[str], corrupt: list[CorruptData]) -> Plan[dict[str, _Known]]:
    if not names:
        return {}
    groups = [("HGETALL", keys.broker(name)) for name in names]
    tables = [("HLEN", keys.broker_topics(name)) for name in names]
    replies = yield Reads([*groups, *tables])
    found = {}
    for name, group, table in zip(names, replies, replies[len(names) :], strict=False):
        fields = _or_corrupt(keys.broker(name), group, corrupt) or {}
        topics = _or_corrupt(keys.broker_topics(name), table, corrupt) or 0
        found[name] = _Known(codec.decode_group(name, fields), fields, topics)
    return found


def _or_corrupt(key: str, reply: Reply, corrupt: list[CorruptData]) -> Reply:
    """Return a reply; None for that of a foreign key, which is noted."""
    try:
        return checked(key, reply)
    except CorruptData as error:
        corrupt.append(error)
        return None


def _moments(keys: Keys, members: list[_Member], corrupt: list[CorruptData]) -> Plan[list[_Moment]]:
    """Return when each lease ends, or has ended without that anybody announced it."""
    names = [keys.lease_member(*member) for member in members]
    clock, kind, *scores = yield Reads(
        [("TIME",), ("TYPE", keys.deadlines), *[("ZSCORE", keys.deadlines, name) for name in names]]
    )
    now_ms = int(clock[0]) * 1_000 + int(clock[1]) // 1_000
    if kind not in (b"zset", b"none"):
        corrupt.append(CorruptData(keys.deadlines, f"is a {kind.decode()}, not the leases' deadlines"))
        return [_Moment(None, now_ms) for _ in members]
    return [
        _Moment(None if score is None else int(float(checked(keys.deadlines, score))), now_ms)
        for score in scores
    ]


def _told(keys: Keys, members: set[_Member], corrupt: list[CorruptData]) -> Plan[dict[_Member, _Told]]:
    """Read the change stream from its end until it has told of every replica that it is live."""
    found: dict[_Member, _Told] = {}
    missing, until = set(members), "+"
    while missing:
        (reply,) = yield Reads((("XREVRANGE", keys.changes, until, "-", "COUNT", _PAGE),))
        entries = _or_corrupt(keys.changes, reply, corrupt) or []
        for change_id, fields in entries:
            change = _change(keys, change_id, fields)
            member = (change.broker_name, change.broker_id) if change else None
            if change is None or member not in missing:
                continue
            last = found.get(member, _NOTHING).last or change
            found[member] = _Told(last, change if change.kind is ChangeKind.UP else None)
            if change.kind is ChangeKind.UP:
                missing.remove(member)
        if len(entries) < _PAGE:
            break
        until = f"({entries[-1][0].decode()}"
    return found


def _change(keys: Keys, change_id: bytes, fields: Mapping[bytes, bytes] | None) -> Change | None:
    """Return a change that tells whether a replica is live; None for any other entry."""
    try:
        change = codec.decode_change(keys.changes, change_id.decode(), (fields or {}).get(b"c", b""))
    except CorruptData:  # who lists the changes is told
        return None
    return change if change.kind in (ChangeKind.UP, ChangeKind.DOWN) else None


def _entry(known: _Known, broker_id: int, lease: bytes | None, told: _Told, moment: _Moment) -> RosterEntry:
    group, kept_out = known.group, known.field("out", broker_id)
    held = codec.decode_lease(lease) if lease is not None else None
    entry = RosterEntry(
        cluster=group.cluster,
        broker_name=group.broker_name,
        broker_id=broker_id,
        state=ReplicaState.LIVE,
        topics=known.topics,
        zone_name=group.traits.get(broker_id, _NO_TRAITS).zone_name,
        wiped=group.wiped,
    )
    last, up = told.last, told.up
    if held is not None:
        is_up = last is not None and last is up
        return replace(
            entry,
            address=held[1],
            since_ms=_ms_of(last) if is_up else None,
            lease_ttl_ms=up.lease_ttl_ms if up else None,
            lease_left_ms=moment.left_ms,
        )
    down = last if last is not up else None
    address = kept_out.decode(errors="replace") if kept_out else up.address if up else ""
    return replace(
        entry,
        state=ReplicaState.OUT if kept_out else ReplicaState.DEAD,
        address=address or codec.member_address(known.field("member", broker_id)),
        since_ms=moment.deadline_ms or _ended_ms(down),
        reason=down.reason if down else EXPIRED if moment.deadline_ms else "",
    )


def _ended_ms(down: Change | None) -> int | None:
    return None if down is None else down.lease_ended_ms or _ms_of(down)


def _ms_of(change: Change | None) -> int | None:
    """Return when a change was written."""
    return None if change is None else int(change.change_id.partition("-")[0])
