"""Forgetting a broker that will not come back."""

from __future__ import annotations

from typing import Final

from .. import codec, scripts
from ..checks import check_broker_name
from ..config import RegistryConfig
from ..errors import BrokerOwned, NotFound, StoreUnavailable
from ..keys import Keys
from ..model import MASTER_ID, Broker, Change, ChangeKind, Registration
from .base import Call, Plan, Reads, checked, script_reply
from .difference import Difference
from .leases import fenced
from .operators import check_schema
from .repair.checks import field_problem
from .table import SUCCESSOR, Write, claim, put, read_table

NOBODY: Final = "nobody.invalid:1"
"""The address of who writes a table without being its broker (RFC 2606: no host is called so)."""

_TRIES: Final = 10
_ADVICE: Final = "wait until it is unregistered, or its lease ends"


def forget(config: RegistryConfig, broker_name: str) -> Plan[int]:
    """Remove a broker that will not come back, with its topics; return how many topics it had.

    The routes go first, in chunks, the group last: after a crash between them, forget it again. An owner that
    was thought dead is fenced by it. RocketMQ forgets a broker as soon as it is silent.
    Rows of topics that its own table does not have are found in no other way than by looking at all topics:
    they stay, and `rebuild` removes them.
    Raises NotFound, BrokerOwned while a replica is alive, StaleEpoch when it registers meanwhile, CorruptData
    (`rebuild` mends most of it), InvalidInput, NewerSchema, StoreRefused, StoreUnavailable.
    """
    check_broker_name(broker_name)
    keys = Keys(config.namespace)
    yield from check_schema(keys)
    topics = 0
    for _ in range(_TRIES):
        ids = yield from replica_ids(keys, broker_name)
        if ids is None:
            raise NotFound(f"{broker_name}: no broker of this name was ever registered")
        live = yield from live_replicas(keys, broker_name, ids)
        if live:
            raise BrokerOwned(broker_name, *live[0], advice=_ADVICE)
        ids = tuple(sorted({*ids, MASTER_ID}))
        cluster = yield from stored_cluster(keys, broker_name)
        write = Write(config, keys, Broker(broker_name, NOBODY, cluster=cluster))
        epoch = yield from claim(write, SUCCESSOR, _ADVICE)
        token, stored = yield from read_table(write)
        topics = max(topics, len(stored))
        nothing = Registration(write.broker, epoch, token, {})
        leases = [keys.lease(broker_name, broker_id) for broker_id in ids]
        done = yield from put(write, nothing, Difference(removed=sorted(stored)), seniors=leases)
        if done.status == "ok" and (yield from _end(write, epoch, done.token, ids)):
            return topics
    raise StoreUnavailable(f"{keys.broker(broker_name)}: changes faster than it can be forgotten; try again")


def replica_ids(keys: Keys, broker_name: str) -> Plan[tuple[int, ...] | None]:
    """Return the ids of all replicas that a broker ever had; None when nothing is known of the broker."""
    group_key, table_key = keys.broker(broker_name), keys.broker_topics(broker_name)
    group, table, listed = yield Reads(
        (("HKEYS", group_key), ("EXISTS", table_key), ("HEXISTS", keys.brokers, broker_name))
    )
    fields = checked(group_key, group)
    if not fields and not checked(table_key, table) and not checked(keys.brokers, listed):
        return None
    return tuple(sorted({found[1] for found in map(codec.replica_field, fields) if found is not None}))


def stored_cluster(keys: Keys, broker_name: str) -> Plan[str]:
    """Return the cluster that a broker's group names, or else the index of brokers, or else "unknown"."""
    group_key = keys.broker(broker_name)
    replies = yield Reads((("HGET", group_key, "cluster"), ("HGET", keys.brokers, broker_name)))
    for key, reply in zip((group_key, keys.brokers), replies, strict=True):
        cluster = checked(key, reply)
        if cluster and not field_problem(broker_name, b"cluster", cluster):
            return str(cluster.decode())
    return "unknown"


def live_replicas(keys: Keys, broker_name: str, ids: tuple[int, ...]) -> Plan[list[tuple[int, str, int]]]:
    """Return id, address and milliseconds left of those replicas that have a lease."""
    if not ids:
        return []
    names = [keys.lease(broker_name, broker_id) for broker_id in ids]
    replies = yield Reads([command for key in names for command in (("GET", key), ("PTTL", key))])
    found = []
    for broker_id, key, value, left_ms in zip(ids, names, replies[::2], replies[1::2], strict=True):
        lease = checked(key, value)
        if lease is not None:
            held = codec.decode_lease(lease)
            found.append((broker_id, held[1] if held else "somebody", max(int(left_ms), 0)))
    return found


def _end(write: Write, epoch: int, token: str, ids: tuple[int, ...]) -> Plan[bool]:
    """Remove the group and what is left of the table; False when the group has changed."""
    keys, name = write.keys, write.broker.broker_name
    record = Change(kind=ChangeKind.DOWN, broker_name=name, epoch=epoch, reason="forgotten")
    members = [word for broker_id in ids for word in (broker_id, keys.lease_member(name, broker_id))]
    call = Call(
        scripts.FORGET,
        (
            write.broker_key,
            keys.broker_topics(name),
            keys.brokers,
            keys.deadlines,
            keys.changes,
            keys.schema,
            *(write.lease_key(broker_id) for broker_id in ids),
        ),
        (name, epoch, token, codec.encode_change(record), write.config.feed_bounds, *members),
    )
    status, *rest = yield from script_reply(call)
    if status == "fenced":
        raise fenced(write.broker, epoch, rest[0])
    return bool(status == "ok")
