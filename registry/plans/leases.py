"""The small operations on a lease: heartbeat, unregister."""

from __future__ import annotations

from collections.abc import Iterable

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import StaleEpoch
from ..keys import Keys
from ..model import Broker, Change, ChangeKind, LeaseStatus, Registration
from .base import Call, Plan, script_reply


def heartbeat(config: RegistryConfig, held: Registration, *, listings: bool = False) -> Plan[LeaseStatus]:
    """Renew a lease, at the same cost for any number of topics (RocketMQ: BROKER_HEARTBEAT).

    With `listings` it also looks whether the listings name the broker and its topics, and lists them again:
    for one in ten, since it costs half as much again. Raises StoreRefused, StoreUnavailable.
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
            *((name, _served_topic(keys, held)) if listings else ()),
        ),
    )
    left_out: set[str] = set()
    status, *_ = yield from script_reply(call, left_out)
    if status == LeaseStatus.OK and left_out:
        return LeaseStatus.UNLISTED
    return LeaseStatus(status)


def _served_topic(keys: Keys, held: Registration) -> str:
    """Return a topic that the index of topics must name as long as the table is the owner's; empty = none."""
    if not held.complete:
        return ""
    return next((name for name in held.topics if keys.topic(name) not in held.corrupt_keys), "")


def unregister(
    config: RegistryConfig, held: Registration, *, reason: str = "unregistered", stays_out: bool = False
) -> Plan[bool]:
    """End a lease at once (RocketMQ: unregisterBroker); the table stays, for the broker's next start.

    With `stays_out` nobody registers the broker of this address again who is not told to: see withdraw.
    Returns whether there was one to end. Raises StaleEpoch, CorruptData, StoreRefused, StoreUnavailable.
    """
    keys, broker = Keys(config.namespace), held.broker
    name, broker_id = broker.broker_name, broker.broker_id
    record = Change(
        kind=ChangeKind.DOWN,
        broker_name=name,
        broker_id=broker_id,
        epoch=held.epoch,
        cluster=broker.cluster,
        reason=reason,
    )
    call = Call(
        scripts.UNREGISTER,
        (keys.broker(name), keys.lease(name, broker_id), keys.deadlines, keys.changes),
        (
            broker_id,
            held.epoch,
            keys.lease_member(name, broker_id),
            codec.encode_change(record),
            config.feed_bounds,
            broker.address if stays_out else "",
        ),
    )
    status, detail = yield from script_reply(call)
    if status == "fenced":
        raise fenced(broker, held.epoch, detail)
    return bool(int(detail))


def unregister_many(
    config: RegistryConfig, held: Iterable[Registration], *, reason: str = "unregistered"
) -> Plan[tuple[StaleEpoch, ...]]:
    """End many leases, one after another (RocketMQ: BatchUnregistrationService); return those not owned.

    Raises CorruptData, StoreRefused, StoreUnavailable: then those from the one it names on are not ended.
    """
    refused = []
    for registration in held:
        try:
            yield from unregister(config, registration, reason=reason)
        except StaleEpoch as error:
            refused.append(error)
    return tuple(refused)


def lease_ttl_ms(config: RegistryConfig, broker: Broker) -> int:
    """Return how long a lease of the broker lives: its own heartbeat timeout, or the registry's."""
    return config.lease_ttl_ms if broker.heartbeat_timeout_ms is None else broker.heartbeat_timeout_ms


def fenced(broker: Broker, epoch: int, current: str) -> StaleEpoch:
    """Return the error of an owner whose epoch is not the current one."""
    known = codec.number(current) or 0  # garbage: whoever claims the broker is told
    return StaleEpoch(broker.broker_name, broker.broker_id, epoch, known)
