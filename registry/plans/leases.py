"""A replica's lease: an epoch is claimed, the lease given last, renewed by heartbeats, ended by its owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import BrokerOwned, BrokerWithdrawn, CorruptData, SeenLease
from ..keys import Keys
from ..model import MASTER_ID, Broker, ChangeKind, LeaseStatus, Registration
from .base import Call, Plan, Reply, read_reply, script_reply
from .table import NO_VERSION, Write, fenced, looked_for

SUCCESSOR: Final = "0"
"""Only a higher state version, from another address, takes a live lease over."""

RESTARTED: Final = "1"
"""A process of the same address takes a live lease over, too."""

ANYBODY: Final = "2"
"""Anybody takes a live lease over: an operator insists."""

_TO_A_BROKER: Final = (
    "give this broker another name or id, wait until the lease ends, or register with a higher state version"
)


def claim(
    write: Write,
    take_over: str,
    advice: str = _TO_A_BROKER,
    *,
    admit: bool = True,
    instead_of: SeenLease | None = None,
    joint: bool = False,
) -> Plan[int]:
    """Issue a new epoch, which fences every earlier owner; raise BrokerOwned, with that advice.

    The lease `instead_of` is taken over, unless it was renewed since it was seen. With `admit`, a broker that
    an operator keeps out is admitted as soon as it gets its lease; otherwise BrokerWithdrawn is raised.
    `joint`: a front claims it, and all fronts share the epoch.
    """
    broker, keys = write.broker, write.keys
    arguments = _claim_arguments(write, take_over, instead_of, admit=admit, joint=joint)
    call = Call(scripts.CLAIM, (*write.lease_keys[:2], keys.brokers, keys.schema, write.table_key), arguments)
    status, *rest = yield from script_reply(call)
    if status == "out":
        raise BrokerWithdrawn(broker.broker_name, broker.broker_id, broker.address)
    if status == "owned":
        address, left_ms, version, *_ = rest
        of, seen = (broker.broker_name, broker.broker_id), _seen_lease(*rest)
        raise BrokerOwned(*of, address, int(left_ms), int(version), advice=advice, lease=seen)
    return int(rest[0])


def _claim_arguments(
    write: Write, take_over: str, instead_of: SeenLease | None, *, admit: bool, joint: bool
) -> tuple[str | int | bytes, ...]:
    broker = write.broker
    return (
        broker.broker_id,
        broker.broker_name,
        broker.cluster,
        broker.address,
        take_over,
        write.version.state_version,
        "1" if admit else "0",
        codec.encode_lease(instead_of.epoch, instead_of.address) if instead_of else "",
        instead_of.ends_ms if instead_of else 0,
        "1" if joint else "0",
    )


def _seen_lease(
    address: str, _remaining_ms: str, _state_version: str, epoch: str, ends_ms: str, version: str
) -> SeenLease:
    try:
        known = codec.decode_data_version("", version.encode())
    except CorruptData:  # none, or nobody's
        return SeenLease(int(epoch), address, int(ends_ms))
    return SeenLease(int(epoch), address, int(ends_ms), known.order)


def activate(
    write: Write, registration: Registration, former_ids: Sequence[int], *, is_new: bool
) -> Plan[Registration | None]:
    """Give the replica its lease; return None when the group has changed since the registration looked.

    The leases of the same address under `former_ids` end in the same step. Raises StaleEpoch, also for a
    replica that had lost its lease and whose address has been registered under another id meanwhile.
    """
    call = activation(write, registration, registration.table_token, former_ids)
    (reply,) = yield call
    return activated(write, registration, call, reply, is_new=is_new)


def activation(write: Write, registration: Registration, table_token: str, former_ids: Sequence[int]) -> Call:
    """Return the call of `activate`; it does nothing unless the table has that token, if there is one."""
    former = [write.lease_key(broker_id) for broker_id in former_ids]
    return Call(
        scripts.ACTIVATE,
        (
            *write.lease_keys,
            write.lease_key(MASTER_ID),
            write.keys.brokers,
            write.keys.topics,
            write.keys.schema,
            *former,
        ),
        _activate_arguments(write, registration, table_token, former_ids),
    )


def activated(
    write: Write, registration: Registration, call: Call, reply: Reply, *, is_new: bool
) -> Registration | None:
    """Return what the reply to an activation means, as `activate` does."""
    corrupt = {*registration.corrupt_keys}
    status, *rest = read_reply(call, reply, corrupt)
    if status == "fenced":
        raise fenced(write.broker, registration.epoch, rest[0])
    if status == "elsewhere" and not is_new:
        raise fenced(write.broker, registration.epoch, rest[1])
    if status in ("moved", "elsewhere"):
        return None
    registration = replace(registration, corrupt_keys=tuple(sorted(corrupt)))
    if write.is_master:
        return registration
    address, ha_address = master_of(write, *rest)
    return replace(registration, master_address=address, master_ha_address=ha_address)


def _activate_arguments(
    write: Write, registration: Registration, table_token: str, former_ids: Sequence[int]
) -> tuple[str | int | bytes, ...]:
    broker, config, epoch = write.broker, write.config, registration.epoch
    ttl_ms, reason = lease_ttl_ms(config, broker), f"has id {broker.broker_id} now"
    ends: list[str | int | bytes] = []
    for former_id in former_ids:
        former = replace(write, broker=replace(broker, broker_id=former_id))
        down = former.record(ChangeKind.DOWN, epoch, cluster=broker.cluster, reason=reason)
        ends += (former_id, former.lease_member, down)
    up = {"cluster": broker.cluster, "address": broker.address, "lease_ttl_ms": ttl_ms}
    return (
        broker.broker_id,
        epoch,
        table_token,
        codec.encode_lease(epoch, broker.address),
        ttl_ms,
        write.lease_member,
        codec.encode_member(broker),
        broker.cluster,
        codec.encode_data_version(write.version) if write.says_version or write.version != NO_VERSION else "",
        write.record(ChangeKind.UP, epoch, **up),
        config.feed_bounds,
        broker.address,
        broker.broker_name,
        *ends,
    )


def master_of(write: Write, lease: str, member: str) -> tuple[str, str]:
    """Return the addresses of a replica's master, for clients and for slaves; empty if it is not alive."""
    found = codec.decode_lease(lease.encode())
    if found is None:
        return "", ""
    name, cluster = write.broker.broker_name, write.broker.cluster
    try:
        master = codec.decode_broker(write.broker_key, name, MASTER_ID, cluster, member.encode())
    except CorruptData:  # somebody wrote into the group: the address stands in the lease
        return found[1], ""
    return found[1], master.ha_address


def heartbeat(config: RegistryConfig, held: Registration, *, listings: bool = False) -> Plan[LeaseStatus]:
    """Renew a lease, at the same cost for any number of topics (RocketMQ: BROKER_HEARTBEAT).

    With `listings` it also checks that the listings name the broker and its topics, and adds them if not.
    That costs half as much again, so agents do it with one heartbeat in ten.
    """
    keys, broker = Keys(config.namespace), held.broker
    name, broker_id = broker.broker_name, broker.broker_id
    call = Call(
        scripts.HEARTBEAT,
        (
            keys.broker(name),
            keys.lease(name, broker_id),
            keys.deadlines,
            *((keys.brokers, keys.topics) if listings else ()),
        ),
        (
            broker_id,
            held.epoch,
            held.table_token,
            lease_ttl_ms(config, broker),
            keys.lease_member(name, broker_id),
            *((name, *_looked_for(keys, held)) if listings else ()),
        ),
    )
    left_out: set[str] = set()
    status, *_ = yield from script_reply(call, left_out)
    if status == LeaseStatus.OK and left_out:
        return LeaseStatus.UNLISTED
    return LeaseStatus(status)


def _looked_for(keys: Keys, held: Registration) -> list[str]:
    return looked_for(keys, held.topics, held.corrupt_keys) if held.complete else []


def unregister(
    config: RegistryConfig, held: Registration, *, reason: str = "unregistered", stays_out: bool = False
) -> Plan[bool]:
    """End a lease at once (RocketMQ: unregisterBroker); the table stays, for the broker's next start.

    With `stays_out` the broker is kept out at this address: see withdraw.
    Returns whether there was one to end. Raises StaleEpoch.
    """
    write, broker = Write.of(config, held.broker), held.broker
    call = Call(
        scripts.UNREGISTER,
        write.lease_keys,
        (
            broker.broker_id,
            held.epoch,
            write.lease_member,
            write.record(ChangeKind.DOWN, held.epoch, cluster=broker.cluster, reason=reason),
            config.feed_bounds,
            broker.address if stays_out else "",
        ),
    )
    status, detail = yield from script_reply(call)
    if status == "fenced":
        raise fenced(broker, held.epoch, detail)
    return bool(int(detail))


def lease_ttl_ms(config: RegistryConfig, broker: Broker) -> int:
    """Return how long a lease of the broker lives: its own heartbeat timeout, or the registry's."""
    return config.lease_ttl_ms if broker.heartbeat_timeout_ms is None else broker.heartbeat_timeout_ms
