"""Listings: topics by kind and cluster, the whole table, clusters, groups, owners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Final

from .. import codec
from ..errors import CorruptData
from ..keys import Keys
from ..model import BrokerData, ClusterInfo, DataVersion, QueueData, Registration, TopicKind
from .base import Plan, Reads, checked, read, read_all
from .routes import Listing, Lookup, brokers, distinct, groups, lookup, mget

_SCAN_COUNT: Final = 1_000
_UNIT: Final = 1
_UNIT_SUB: Final = 2


def _is_kind(kind: TopicKind, rows: Sequence[QueueData]) -> bool:
    if kind is TopicKind.ALL:
        return bool(rows)
    flags = reduce(or_, (row.topic_sys_flag for row in rows), 0)
    if kind is TopicKind.UNIT:
        return bool(flags & _UNIT)
    return bool(flags & _UNIT_SUB) and (kind is TopicKind.UNIT_SUB or not flags & _UNIT)


def topics(
    keys: Keys, cluster: str | None = None, kind: TopicKind = TopicKind.ALL
) -> Plan[Listing[list[str]]]:
    """Return the topics that a live broker holds, sorted; of one cluster, of one kind.

    RocketMQ: GET_ALL_TOPIC_LIST_FROM_NAMESERVER, GET_TOPICS_BY_CLUSTER, GET_UNIT_TOPIC_LIST,
    GET_HAS_UNIT_SUB_TOPIC_LIST, GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, which look at one broker's flags only.
    """
    listing = yield from brokers(keys)
    alive = {broker.broker_name for broker in listing.found if cluster in (None, broker.cluster)}
    corrupt, found = list(listing.corrupt), set[str]()
    cursor = 0
    while True:
        cursor, values = yield from _topic_page(keys, cursor)
        for name, value in values.items():
            if value is not None:
                rows, bad = codec.decode_index(keys.topic(name), value)
                corrupt += [bad] if bad else []
                if _is_kind(kind, [row for row in rows if row.broker_name in alive]):
                    found.add(name)
        if cursor == 0:
            return Listing(sorted(found), tuple(corrupt))


def _topic_page(keys: Keys, cursor: int) -> Plan[tuple[int, dict[str, bytes | None]]]:
    """Return the next cursor, 0 at the end, and some of the topics with their route indexes."""
    following, members = yield from read("SSCAN", keys.topics, cursor, "COUNT", _SCAN_COUNT)
    names = sorted({member.decode() for member in members if codec.is_text(member)})  # else none of ours
    values = yield from mget([keys.topic(name) for name in names])
    return following, dict(zip(names, values, strict=True))


def whole_table(keys: Keys) -> Plan[Lookup]:
    """Read all topics and all brokers, page by page; `missing` stays empty.

    It is no snapshot of one instant: for one, take a position of the change stream before, and apply the
    changes after it.
    """
    rows: dict[str, tuple[QueueData, ...]] = {}
    corrupt: list[CorruptData] = []
    cursor = 0
    while True:
        cursor, values = yield from _topic_page(keys, cursor)
        new = {name: value for name, value in values.items() if name not in rows}
        for name, value in new.items():
            if value is not None:
                rows[name], bad = codec.decode_index(keys.topic(name), value)
                corrupt += [bad] if bad else []
        absent = [name for name, value in new.items() if value is None]
        if absent:  # removed since the scan, or of another type
            corrupt += (yield from lookup(keys, absent)).corrupt
        if cursor == 0:
            break
    listed = {name.decode() for name in (yield from read("HKEYS", keys.brokers)) if codec.is_text(name)}
    named = {row.broker_name for same in distinct(rows) for row in same}
    found = yield from groups(keys, sorted(listed | named))
    return replace(found, rows=rows, corrupt=(*corrupt, *found.corrupt))


def cluster_info(keys: Keys) -> Plan[Listing[ClusterInfo]]:
    """Return the live brokers by name and by cluster (RocketMQ: GET_BROKER_CLUSTER_INFO)."""
    listing = yield from brokers(keys)
    clusters: dict[str, list[str]] = {}
    for broker in listing.found:
        clusters.setdefault(broker.cluster, []).append(broker.broker_name)
    by_name = {broker.broker_name: broker for broker in listing.found}
    by_cluster = {cluster: tuple(names) for cluster, names in sorted(clusters.items())}
    return Listing(ClusterInfo(by_name, by_cluster), listing.corrupt)


def system_topics(keys: Keys) -> Plan[Listing[list[str]]]:
    """Return the names of all clusters and brokers: each broker has topics of these names.

    RocketMQ: GET_SYSTEM_TOPIC_LIST_FROM_NS.
    """
    listing = yield from cluster_info(keys)
    return Listing(sorted({*listing.found.clusters, *listing.found.brokers}), listing.corrupt)


def member_group(keys: Keys, broker_name: str) -> Plan[BrokerData | None]:
    """Return the live replicas of a broker, without promotion, or None (GET_BROKER_MEMBER_GROUP)."""
    found: Lookup = yield from groups(keys, (broker_name,))
    if found.corrupt:
        raise found.corrupt[0]
    return found.alive.get(broker_name)


def owner(keys: Keys, broker_name: str, broker_id: int) -> Plan[Registration | None]:
    """Return the registration that holds a (broker, id) at the moment, without its topics; None = nobody.

    For a caller that acts in the owner's name without having registered it, such as a name server front.
    """
    group_key, lease_key = keys.broker(broker_name), keys.lease(broker_name, broker_id)
    fields = (f"epoch:{broker_id}", f"member:{broker_id}", "cluster", "token")
    group, value = yield from read_all((("HMGET", group_key, *fields), ("GET", lease_key)))
    epoch, member, cluster, token = group
    if value is None or member is None or cluster is None:
        return None
    held = codec.decode_lease(value)
    if held is None:
        raise CorruptData(lease_key, f"{value[:80]!r} is no lease")
    if str(held[0]).encode() != epoch:  # a lease of an owner that has been superseded, for a moment
        return None
    broker = codec.decode_broker(group_key, broker_name, broker_id, cluster.decode(errors="replace"), member)
    servers = broker.filter_servers or ()
    table_token = (token or b"").decode(errors="replace")
    return Registration(broker, held[0], table_token, {}, complete=False, filter_servers=servers)


def query_data_version(
    keys: Keys, broker_name: str, broker_id: int, version: DataVersion
) -> Plan[tuple[bool, DataVersion | None]]:
    """Return whether a version is not the registered one, and that one (RocketMQ: QUERY_DATA_VERSION).

    A broker that is not registered, or not alive, has changed: it must register. RocketMQ takes this for
    a heartbeat too; here a front renews the lease besides.
    """
    key, lease_key = keys.broker(broker_name), keys.lease(broker_name, broker_id)
    known, lease = yield Reads((("HGET", key, f"version:{broker_id}"), ("GET", lease_key)))
    value = checked(key, known) if isinstance(lease, bytes) else None  # what is no string is no lease
    stored = None if value is None else codec.decode_data_version(key, value)
    return stored != version, stored
