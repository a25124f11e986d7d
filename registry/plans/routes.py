"""Lookups: rows of the route index and live brokers, read together and joined into routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

from .. import codec
from ..checks import several
from ..errors import CorruptData
from ..keys import Keys
from ..model import MASTER_ID, BrokerData, Group, MemberTraits, Perm, QueueData, TopicRoute
from .base import Command, Plan, Reads, checked, read, unless_foreign

T = TypeVar("T")

# Replies above about 1 MB get slower (measured); a row of the index is 20 to 40 bytes.
_MGET_KEYS: Final = 1_000
_GROUPS: Final = 1_000
_BROKER_NAME: Final = attrgetter("broker_name")
_NO_WRITE: Final = ~int(Perm.WRITE)
_NO_TRAITS: Final = MemberTraits()

_SYNC_MEMBER_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics of RocketMQ in whose routes a broker must see the real master."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What one look at the table found; all of it read after the call began."""

    rows: dict[str, tuple[QueueData, ...]] = field(default_factory=dict)
    """The queue data of every topic that was found, of live and of dead brokers, as the brokers set them."""

    missing: tuple[str, ...] = ()
    """Topics that nobody holds."""

    groups: dict[str, Group] = field(default_factory=dict)
    """Every broker that the rows name and that was ever registered."""

    alive: dict[str, BrokerData] = field(default_factory=dict)
    """The brokers with a live lease, and only the replicas that have one."""

    corrupt: tuple[CorruptData, ...] = ()
    """Keys that hold something foreign; the rest is served."""

    def routes(self) -> dict[str, TopicRoute]:
        """Return the routes of the topics with at least one live broker."""
        live = {id(rows): _Live.of(rows, self.alive) for rows in distinct(self.rows)}
        return {
            topic: found.route(topic) for topic, rows in self.rows.items() if (found := live[id(rows)]).rows
        }


def lookup(
    keys: Keys, topics: Sequence[str], known: Mapping[str, Group] | None = None, anew: Iterable[str] = ()
) -> Plan[Lookup]:
    """Read many topics and the leases of their brokers.

    One round trip when all their groups are in `known`; up to two more for those that are not, and for the
    groups called `anew`, which are read whether or not a topic names them.
    """
    topics = several(topics)
    known = known or {}
    prefix = keys.topic("")
    topic_keys = [prefix + topic for topic in topics]
    leases = _leases(known)
    values = yield from mget([*topic_keys, *(keys.lease(group.broker_name, of) for group, of in leases)])
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
    alive |= yield from _read_alive(keys, found, corrupt)
    return Lookup(rows, missing, {**known, **found}, alive, tuple(corrupt))


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """What stands in the table, and the keys that could not be listed."""

    found: T
    corrupt: tuple[CorruptData, ...]


def broker_names(keys: Keys) -> Plan[list[str]]:
    """Return the names in the index of brokers, alive or not, sorted."""
    names = yield from read("HKEYS", keys.brokers)
    return sorted(name.decode(errors="replace") for name in names)


def brokers(keys: Keys) -> Plan[Listing[list[BrokerData]]]:
    """Return the live brokers, sorted by name (RocketMQ: GET_BROKER_CLUSTER_INFO)."""
    found = yield from groups(keys, (yield from broker_names(keys)))
    return Listing([found.alive[name] for name in sorted(found.alive)], found.corrupt)


def groups(keys: Keys, names: Iterable[str]) -> Plan[Lookup]:
    """Read the groups of these names, and their leases, a thousand at a time."""
    names, found, alive = tuple(names), dict[str, Group](), dict[str, BrokerData]()
    corrupt: list[CorruptData] = []
    for start in range(0, len(names), _GROUPS):
        _, some = yield from _look_closer(keys, (), names[start : start + _GROUPS], corrupt)
        alive |= yield from _read_alive(keys, some, corrupt)
        found |= some
    return Lookup(groups=found, alive=alive, corrupt=tuple(corrupt))


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
    """Tell topics that nobody holds from keys of another type, and read the groups of these names."""
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
        fields = unless_foreign(keys.broker(name), reply, corrupt)
        if fields is not None:
            groups[name] = codec.decode_group(name, fields)
    return tuple(missing), groups


def _leases(groups: Mapping[str, Group]) -> list[tuple[Group, int]]:
    return [(group, broker_id) for group in groups.values() for broker_id in group.broker_ids]


def _read_alive(
    keys: Keys, groups: Mapping[str, Group], corrupt: list[CorruptData]
) -> Plan[dict[str, BrokerData]]:
    leases = _leases(groups)
    values = yield from mget([keys.lease(group.broker_name, broker_id) for group, broker_id in leases])
    return _alive(keys, leases, values, corrupt)


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


def route_of(topic: str, rows: tuple[QueueData, ...], alive: Mapping[str, BrokerData]) -> TopicRoute:
    """Join the rows of a topic with the live brokers (RocketMQ: pickupTopicRouteData).

    A broker whose write permission was wiped is not writable. A slave that stands in for a lost master has
    the id of the master, 0, and is not writable either.
    """
    return _Live.of(rows, alive).route(topic)


def live_broker(group: Group, addresses: Mapping[int, str]) -> BrokerData:
    """Return a group with the addresses of its live replicas; the lowest id speaks for the group."""
    if not group.traits:
        return BrokerData(group.cluster, group.broker_name, addresses, wiped=group.wiped)
    first = group.traits.get(min(addresses), _NO_TRAITS)
    return BrokerData(
        group.cluster,
        group.broker_name,
        addresses,
        first.zone_name,
        first.enable_acting_master,
        group.wiped,
        {
            address: traits.filter_servers
            for broker_id, address in addresses.items()
            if (traits := group.traits.get(broker_id)) and traits.filter_servers
        },
    )


def distinct(rows: Mapping[str, tuple[QueueData, ...]]) -> Iterable[tuple[QueueData, ...]]:
    """Return each tuple once: the codec gives topics of one shape the same one."""
    return {id(found): found for found in rows.values()}.values()


class _Live(NamedTuple):
    """What all topics with the same rows have in common."""

    rows: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    promoted: tuple[BrokerData, ...]
    """The brokers with a stand-in as master where that one is lost."""

    @classmethod
    def of(cls, rows: tuple[QueueData, ...], alive: Mapping[str, BrokerData]) -> _Live:
        try:
            brokers = tuple([alive[row.broker_name] for row in rows])
        except KeyError:  # some broker is dead: rare, so the usual case pays nothing for it
            rows = tuple([row for row in rows if row.broker_name in alive])
            brokers = tuple([alive[row.broker_name] for row in rows])
        if not any(broker.wiped or broker.headless for broker in brokers):
            return cls(rows, brokers, brokers)
        return cls(
            tuple(map(_without_write, rows, brokers)), brokers, tuple(map(_with_acting_master, brokers))
        )

    def route(self, topic: str) -> TopicRoute:
        same = self.promoted is self.brokers or topic.startswith(_SYNC_MEMBER_PREFIX)
        return TopicRoute(topic, self.rows, self.brokers if same else self.promoted)


def _without_write(row: QueueData, broker: BrokerData) -> QueueData:
    return replace(row, perm=row.perm & _NO_WRITE) if broker.wiped or broker.headless else row


def _with_acting_master(broker: BrokerData) -> BrokerData:
    """Return a group in which the lowest id has become id 0, if it has no master."""
    if not broker.headless:
        return broker
    acting = broker.min_broker_id
    slaves = {member: address for member, address in broker.broker_addrs.items() if member != acting}
    return replace(broker, broker_addrs={MASTER_ID: broker.broker_addrs[acting], **slaves}, acting_id=acting)
