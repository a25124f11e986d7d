"""Rebuild: mends what verify finds, from the brokers' own tables, without stopping anybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ... import codec, scripts
from ...config import RegistryConfig
from ...errors import CorruptData, InvalidInput
from ...keys import Keys
from ...model import MASTER_ID, Broker, Change, ChangeKind
from ..base import Call, Page, Plan, Reads, Stream, advance, checked, script_reply
from ..expiry import expire
from .checks import Difference, DifferenceKind, field_problem
from .rows import mend_rows
from .walk import verify

_MOVED: Final = "it was written meanwhile; verify again"


def rebuild(config: RegistryConfig) -> Stream[Difference]:
    """Verify, and mend what can be mended; the brokers' own tables are the truth.

    Owners keep their leases and epochs, and what they write meanwhile is not overwritten. What changes for
    readers is announced. Foreign keys and values are left, and reported. Raises NewerSchema.
    """
    walk = verify(config)
    while (page := (yield from advance(walk))) is not None:
        mended = yield from _mend_all(config, page.found)
        yield Page(tuple(mended), page.progress)


def _mend_all(config: RegistryConfig, found: Sequence[Difference]) -> Plan[list[Difference]]:
    rows: dict[str, list[Difference]] = {}
    done: list[Difference] = []
    for difference in found:
        if not difference.mendable:
            done.append(replace(difference, left="it cannot be mended from the brokers' tables"))
        elif difference.kind in _MENDERS:
            done.append((yield from _mend(config, difference)))
        else:  # its row is wrong: those of one broker are mended together
            rows.setdefault(difference.broker_name, []).append(difference)
    for broker_name, of_broker in rows.items():
        done += yield from _mend_rows(config, broker_name, of_broker)
    return done


def _mend_rows(
    config: RegistryConfig, broker_name: str, rows: Sequence[Difference]
) -> Plan[list[Difference]]:
    try:
        left = yield from mend_rows(config, broker_name, [row.topic for row in rows])
    except CorruptData as error:
        return [replace(row, left=str(error)) for row in rows]
    return [_done(row, mended=row.topic not in left) for row in rows]


def _mend(config: RegistryConfig, difference: Difference) -> Plan[Difference]:
    try:
        mended = yield from _MENDERS[difference.kind](config, difference)
    except CorruptData as error:
        return replace(difference, left=str(error))
    return _done(difference, mended=mended)


def _done(difference: Difference, *, mended: bool) -> Difference:
    return replace(difference, mended=mended, left="" if mended else _MOVED)


def _mend_listing(config: RegistryConfig, found: Difference) -> Plan[bool]:
    keys = Keys(config.namespace)
    removes = "1"
    if found.kind in (DifferenceKind.TOPIC_UNLISTED, DifferenceKind.TOPIC_GONE):
        listing, types, name = keys.topics, ("set", "string"), found.topic
        of = [keys.topic(name)] * 2
    elif found.kind is DifferenceKind.NAMESPACE_UNLISTED:
        listing, types, name = keys.namespaces, ("set", "hash"), found.part.decode()
        of, removes = [keys.kv(name)] * 2, "0"  # a namespace stays when its last key goes
    else:
        listing, types, name = keys.brokers, ("hash", "hash"), found.broker_name
        of = [keys.broker(name), keys.broker_topics(name)]
    call = Call(scripts.MEND_LISTING, (listing, keys.schema, *of), (*types, removes, name))
    yield from script_reply(call)
    return True


def _mend_ttl(config: RegistryConfig, found: Difference) -> Plan[bool]:
    keys = Keys(config.namespace)
    named = keys.kind_of(found.key)
    if named is None:
        return False
    kind, names = named
    if kind.name == "lease:<broker>:<id>":
        return (yield from _mend_lease(config, replace(found, broker_name=names[0], broker_id=int(names[1]))))
    ttl_ms = round(config.sweeper_lease_s * 1000) if kind.expires else ""
    yield from script_reply(Call(scripts.MEND_KEY, (found.key, keys.schema), (kind.type_name, ttl_ms)))
    return True


def _mend_schema(config: RegistryConfig, _: Difference) -> Plan[bool]:
    yield from script_reply(Call(scripts.MEND_SCHEMA, (Keys(config.namespace).schema,), ()))
    return True


def _mend_lease(config: RegistryConfig, found: Difference) -> Plan[bool]:
    keys, name, broker_id = Keys(config.namespace), found.broker_name, found.broker_id or 0
    call = Call(
        scripts.MEND_LEASE,
        (keys.broker(name), keys.lease(name, broker_id), keys.deadlines, keys.schema),
        (broker_id, config.lease_ttl_ms, keys.lease_member(name, broker_id)),
    )
    yield from script_reply(call)
    return True


def _mend_dead(config: RegistryConfig, found: Difference) -> Plan[bool]:
    """Announce that a replica is dead, as the sweep would."""
    yield from _mend_lease(config, found)
    yield from expire(config, found.broker_name, found.broker_id or 0)
    return True


def _mend_member(config: RegistryConfig, found: Difference) -> Plan[bool]:
    """Put a live replica into its group, with what its lease says; the rest comes when it registers."""
    keys, name, broker_id = Keys(config.namespace), found.broker_name, found.broker_id or 0
    group_key, lease_key = keys.broker(name), keys.lease(name, broker_id)
    field = f"member:{broker_id}"
    group, lease = yield Reads(
        (("HMGET", group_key, field, f"epoch:{broker_id}", "cluster"), ("GET", lease_key))
    )
    stored, epoch, cluster = checked(group_key, group)
    value = checked(lease_key, lease)
    if stored is not None and not field_problem(name, field.encode(), stored):
        return True
    held = codec.decode_lease(value) if value is not None else None
    if value is None or held is None or str(held[0]).encode() != epoch:
        return (yield from _replace(config, name, field, stored, b""))
    try:
        broker = Broker(name, held[1], broker_id, (cluster or b"").decode() or "DefaultCluster")
    except (InvalidInput, UnicodeDecodeError):
        broker = Broker(name, held[1], broker_id)
    up = Change(
        kind=ChangeKind.UP,
        broker_name=name,
        broker_id=broker_id,
        epoch=held[0],
        cluster=broker.cluster,
        address=broker.address,
    )
    new, record = codec.encode_member(broker), codec.encode_change(up)
    seen = (value, broker_id, epoch)
    return (yield from _replace(config, name, field, stored, new, seen=seen, record=record))


def _mend_field(config: RegistryConfig, found: Difference) -> Plan[bool]:
    """Remove a field that cannot be read: its owner's next heartbeat finds it missing, and registers."""
    name, part = found.broker_name, found.part
    field = part.decode()
    of_replica = codec.replica_field(part)
    if of_replica is not None and of_replica[0] == "member":
        return (yield from _mend_member(config, replace(found, broker_id=of_replica[1])))
    keys = Keys(config.namespace)
    key = keys.broker(name)
    stored, listed = yield Reads((("HGET", key, field), ("HGET", keys.brokers, name)))
    value = checked(key, stored)
    if value is not None and not field_problem(name, part, value):
        return True
    new = b""
    if field == "cluster":
        new = checked(keys.brokers, listed) or b""
        new = b"" if field_problem(name, part, new) else new
    return (yield from _replace(config, name, field, value, new))


def _replace(
    config: RegistryConfig,
    name: str,
    field: str,
    old: bytes | None,
    new: bytes,
    *,
    seen: tuple[bytes, int, bytes] = (b"", MASTER_ID, b""),
    record: bytes = b"",
) -> Plan[bool]:
    """Write a field of a group, or remove it (new = nothing), if it and its replica are still as read.

    `seen` is the lease of that replica, its id, and its epoch; nothing = whatever they are.
    """
    keys = Keys(config.namespace)
    lease, broker_id, epoch = seen
    call = Call(
        scripts.MEND_FIELD,
        (keys.broker(name), keys.changes, keys.schema, keys.lease(name, broker_id), keys.brokers),
        (field, old or b"", new, record, config.feed_bounds, lease, broker_id, epoch, name),
    )
    status, *_ = yield from script_reply(call)
    return bool(status == "ok")


_MENDERS: Final[Mapping[DifferenceKind, Callable[[RegistryConfig, Difference], Plan[bool]]]] = {
    DifferenceKind.NO_TTL: _mend_ttl,
    DifferenceKind.UNWANTED_TTL: _mend_ttl,
    DifferenceKind.SCHEMA: _mend_schema,
    DifferenceKind.TOPIC_UNLISTED: _mend_listing,
    DifferenceKind.TOPIC_GONE: _mend_listing,
    DifferenceKind.BROKER_UNLISTED: _mend_listing,
    DifferenceKind.BROKER_GONE: _mend_listing,
    DifferenceKind.NAMESPACE_UNLISTED: _mend_listing,
    DifferenceKind.FIELD_CORRUPT: _mend_field,
    DifferenceKind.LEASE_WITHOUT_MEMBER: _mend_member,
    DifferenceKind.LEASE_WITHOUT_DEADLINE: _mend_lease,
    DifferenceKind.MEMBER_WITHOUT_DEADLINE: _mend_dead,
    DifferenceKind.DEADLINE_OVERDUE: _mend_dead,
}
