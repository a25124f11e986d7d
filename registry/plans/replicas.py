"""Tables and replicas of all brokers, alive or dead, as the store has them: for rosters and bulk readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from .. import codec
from ..checks import check_broker_name
from ..errors import CorruptData, InvalidInput
from ..keys import Keys
from ..model import EXPIRED, MASTER_ID, Change, ChangeKind, Group, MemberTraits
from .base import Command, Plan, Reads, checked, clock_us, read, unless_foreign
from .changes import NEWEST, newest_changes
from .expiry import whole_ms
from .routes import Listing, broker_names, mget

_AT_ONCE: Final = 1_000
_NO_TRAITS: Final = MemberTraits()

_Member: TypeAlias = tuple[str, int]

RawTable: TypeAlias = Mapping[bytes, bytes]
"""Names of topics to their configurations, as they stand in the store."""


def table_sizes(keys: Keys) -> Plan[Listing[list[tuple[str, int]]]]:
    """Return each listed broker, by name, with the number of topics in its table.

    A table of another type has 0; reading it raises CorruptData.
    """
    names: list[str] = []
    corrupt: list[CorruptData] = []
    for raw in (yield from read("HKEYS", keys.brokers)):
        name = raw.decode(errors="backslashreplace")
        try:
            check_broker_name(name if codec.is_text(raw) else None)
            names.append(name)
        except InvalidInput:
            corrupt.append(CorruptData(keys.brokers, f"lists {name[:80]!r}, which is no name of a broker"))
    names.sort()
    found: list[tuple[str, int]] = []
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        replies = yield Reads([("HLEN", keys.broker_topics(name)) for name in some])
        for name, reply in zip(some, replies, strict=True):
            found.append((name, unless_foreign(keys.broker_topics(name), reply) or 0))
    return Listing(found, tuple(corrupt))


def tables(keys: Keys, names: Sequence[str]) -> Plan[list[RawTable | CorruptData]]:
    """Return the whole tables of some brokers, in one round trip: for small ones, a few at a time."""
    names_of_keys = [keys.broker_topics(name) for name in names]
    replies = yield Reads([("HGETALL", key) for key in names_of_keys])
    found: list[RawTable | CorruptData] = []
    for key, reply in zip(names_of_keys, replies, strict=True):
        try:
            found.append(checked(key, reply))
        except CorruptData as error:
            found.append(error)
    return found


def table_page(keys: Keys, name: str, cursor: int, count: int) -> Plan[tuple[int, RawTable]]:
    """Return the next cursor, 0 at the end, and about `count` topics of a table.

    A topic may come twice, and one that comes or goes meanwhile may be missing.
    """
    following, page = yield from read("HSCAN", keys.broker_topics(name), cursor, "COUNT", count)
    return int(following), page


class ReplicaState(StrEnum):
    """What a replica is to clients."""

    LIVE = "live"
    """It has a lease."""

    DEAD = "dead"
    """It has none: it was lost, or was unregistered."""

    OUT = "out"
    """It has none, and an operator keeps it out (drain, pause) until its agent is told to resume."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica that a broker has, or had; times are of the server's clock, None = not known."""

    broker_name: str
    broker_id: int
    cluster: str
    wiped: bool
    zone_name: str
    member: bytes | None
    """What it said of itself, encoded; None = it has left, or was never there."""

    epoch: int | None
    """Of its owner; None = what stands there is no epoch."""

    lease: bytes | None
    """None = it is not alive."""

    ends_ms: int | None
    """When its lease ends, or has ended and nobody announced it."""

    left_ms: int | None
    """Until its lease ends; None = it is not alive, or the end is not known."""

    kept_out: str
    """The address that an operator keeps out; empty = none."""

    is_joint: bool
    """Whether the epoch is the one that fronts share: no agent owns it."""

    is_vouched: bool
    """Whether fronts vouch for it, beside an agent or alone."""

    # Only the roster says these.
    topics: int = 0
    """In the table of the broker, which all its replicas share."""

    address: str = ""
    """Of the lease, or the last that is known; empty = none is."""

    since_ms: int | None = None
    """Since when it is live, or is not, as far as the change stream tells."""

    reason: str = ""
    """Why it is not live: as in Change.reason; empty = not known."""

    lease_ttl_ms: int | None = None
    """Of a live one: how long a heartbeat lasts."""

    @property
    def state(self) -> ReplicaState:
        """What it is to clients."""
        if self.lease is not None and codec.decode_lease(self.lease) is not None:
            return ReplicaState.LIVE
        return ReplicaState.OUT if self.kept_out else ReplicaState.DEAD


def replicas(keys: Keys, names: Sequence[str], *, bare: bool = False) -> Plan[Listing[list[Replica]]]:
    """Return the replicas of some brokers, by name and id; for a few hundred brokers at a time.

    With `bare`, a broker of which nothing but a name or a table is left has one, of id 0.
    """
    replies = yield Reads([("HGETALL", keys.broker(name)) for name in names])
    corrupt: list[CorruptData] = []
    found: list[tuple[Group, int, Mapping[bytes, bytes]]] = []
    for name, reply in zip(names, replies, strict=True):
        fields: Mapping[bytes, bytes] = unless_foreign(keys.broker(name), reply, corrupt) or {}
        group = codec.decode_group(name, fields)
        ids = codec.replica_ids(fields) or ((MASTER_ID,) if bare else ())
        found += [(group, broker_id, fields) for broker_id in ids]
    named = [(group.broker_name, broker_id) for group, broker_id, _ in found]
    leases = yield from mget([keys.lease(*of) for of in named])
    ends: list[Command] = [("ZSCORE", keys.deadlines, keys.lease_member(*of)) for of in named]
    *scores, clock = yield Reads([*ends, ("TIME",)])
    now_ms = clock_us(checked(keys.deadlines, clock)) // 1_000
    listed = []
    for of, lease, score in zip(found, leases, scores, strict=True):
        listed.append(_replica(*of, lease, whole_ms(unless_foreign(keys.deadlines, score)), now_ms))
    return Listing(listed, tuple(corrupt))


def _replica(
    group: Group,
    broker_id: int,
    fields: Mapping[bytes, bytes],
    lease: bytes | None,
    ends_ms: int | None,
    now_ms: int,
) -> Replica:
    member, epoch, kept_out, joint, vouched = (
        fields.get(f"{what}:{broker_id}".encode()) for what in ("member", "epoch", "out", "joint", "vouched")
    )
    return Replica(
        broker_name=group.broker_name,
        broker_id=broker_id,
        cluster=group.cluster,
        wiped=group.wiped,
        zone_name=group.traits.get(broker_id, _NO_TRAITS).zone_name,
        member=member,
        epoch=codec.number((epoch or b"").decode(errors="replace")),
        lease=lease,
        ends_ms=ends_ms,
        left_ms=None if lease is None or ends_ms is None else max(0, ends_ms - now_ms),
        kept_out=(kept_out or b"").decode(errors="replace"),
        is_joint=epoch is not None and joint in (epoch, epoch + b" claimed"),
        is_vouched=vouched is not None,
    )


def roster(keys: Keys, *, since: bool = True) -> Plan[Listing[list[Replica]]]:
    """Return every replica that was ever registered and whose broker is not forgotten, by name and id.

    Reads all groups, and unless `since` is false the change stream, from its end until it has told of every
    replica: it knows since when they are what they are, the reasons, and the addresses of the dead.
    """
    names = yield from broker_names(keys)
    if not names:
        return Listing([], ())
    listing = yield from replicas(keys, names, bare=True)
    corrupt = [*listing.corrupt]
    lengths: list[Command] = [("HLEN", keys.broker_topics(name)) for name in names]
    *counts, kind = yield Reads([*lengths, ("TYPE", keys.deadlines)])
    if kind not in (b"zset", b"none"):
        corrupt.append(CorruptData(keys.deadlines, f"is a {kind.decode()}, not the leases' deadlines"))
    both = zip(names, counts, strict=True)
    topics = {name: unless_foreign(keys.broker_topics(name), count, corrupt) or 0 for name, count in both}
    members = [(found.broker_name, found.broker_id) for found in listing.found]
    told = yield from _told(keys, set(members) if since else set(), corrupt)
    entries = [
        _entry(found, topics[found.broker_name], told.get(member, ()))
        for found, member in zip(listing.found, members, strict=True)
    ]
    return Listing(entries, tuple(corrupt))


def _told(keys: Keys, members: set[_Member], corrupt: list[CorruptData]) -> Plan[dict[_Member, list[Change]]]:
    """Read the change stream from its end; return what it tells of each replica, down to its newest UP."""
    found: dict[_Member, list[Change]] = {member: [] for member in members}
    missing, before = set(members), NEWEST
    while missing:
        try:
            page = yield from newest_changes(keys, _AT_ONCE, before)
        except CorruptData as error:
            corrupt.append(error)
            break
        for change in page.changes:  # who lists the changes is told of what is none
            member = (change.broker_name, change.broker_id)
            if change.kind in (ChangeKind.UP, ChangeKind.DOWN) and member in missing:
                found[member].append(change)
                if change.kind is ChangeKind.UP:
                    missing.remove(member)
        if page.complete:
            break
        before = page.position
    return found


def _entry(found: Replica, topics: int, told: Sequence[Change]) -> Replica:
    """Return a replica with what the change stream tells of it."""
    last = told[0] if told else None
    up = told[-1] if told and told[-1].kind is ChangeKind.UP else None
    held = codec.decode_lease(found.lease) if found.lease is not None else None
    if held is not None:
        since_ms = _ms_of(last) if last is up else None
        lease_ttl_ms = up.lease_ttl_ms if up else None
        return replace(found, topics=topics, address=held[1], since_ms=since_ms, lease_ttl_ms=lease_ttl_ms)
    down = last if last is not up else None
    address = found.kept_out or (up.address if up else "")
    ended_ms = found.ends_ms or (down.lease_ended_ms if down else None)
    return replace(
        found,
        topics=topics,
        left_ms=None,
        address=address or codec.member_address(found.member),
        since_ms=ended_ms or _ms_of(down),
        reason=down.reason if down else EXPIRED if found.ends_ms else "",
    )


def _ms_of(change: Change | None) -> int | None:
    """Return when a change was written."""
    return None if change is None else int(change.change_id.partition("-")[0])
