"""What name server fronts do together for the brokers that are connected to them.

All fronts share one epoch of a replica, since what counts for them is its address: a front joins the epoch
that holds the lease, and claims one only where there is none. Each connection of a broker is a session in
the store; who closes the last one of a front that lives ends the lease.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import CorruptData
from ..keys import Keys
from ..model import MASTER_ID, Broker, ChangeKind
from .base import Call, Plan, Reads, checked, read, script_reply
from .leases import master_of
from .routes import broker_names
from .table import Write

_READ_AT_ONCE: Final = 8
"""Brokers; an event loop that has read so many can do something else."""


class Holder(StrEnum):
    """Who holds the lease of a replica for which a front vouches."""

    FRONTS = "fronts"
    AGENT = "agent"
    """The table is the agent's: fronts write nothing."""

    GONE = "gone"
    """An agent whose last heartbeat is too long ago."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """A lease was renewed."""

    epoch: int
    table_token: str
    holder: Holder
    is_same: bool
    """Whether the group has the `member` that was given."""

    master_address: str = ""
    master_ha_address: str = ""
    """For a slave: of the live master, empty without one."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """Another front, or an agent, is registering the replica."""

    age_ms: int


@dataclass(frozen=True, slots=True)
class OtherAddress:
    """The replica has a lease at another address."""

    address: str


Vouch: TypeAlias = Vouched | Claimed | OtherAddress | None
"""None: there is no lease to renew."""


def vouch(
    config: RegistryConfig,
    broker: Broker,
    session: str,
    *,
    anew: bool,
    silent_ms: int = 0,
    member: bytes = b"",
    topics: Sequence[str] = (),
) -> Plan[Vouch]:
    """Renew the lease of a replica that is connected to a front, and note the session; empty = there is none.

    RocketMQ: REGISTER_BROKER (`anew`), QUERY_DATA_VERSION, BROKER_HEARTBEAT. The lease is never shortened by
    it, and agents do not shorten it either. Without `anew` it is renewed by the timeout that was said
    before. `silent_ms`: how long ago it registered on a connection that the store may have lost. `member`:
    what the group should have for the replica, as `codec.encode_member` writes it; empty = whatever it has.
    Who registers is listed again where it was lost, and its table gets another token when one of `topics`,
    some of it that must be listed, is not.
    """
    write, broker_id = Write.of(config, broker), broker.broker_id
    group, lease, deadlines, _ = write.lease_keys
    call = Call(
        scripts.VOUCH,
        (
            *(group, lease, _sessions(write), deadlines, write.lease_key(MASTER_ID)),
            *((write.keys.brokers, write.keys.topics) if anew else ()),
        ),
        (
            broker_id,
            broker.address,
            broker.heartbeat_timeout_ms if anew and broker.heartbeat_timeout_ms else "",
            session,
            silent_ms,
            write.lease_member,
            member,
            *((broker.broker_name, *topics) if anew else ()),
        ),
    )
    status, *rest = yield from script_reply(call)
    if status == "ok":
        epoch, token, holder, is_same, lease, of_master = rest
        master = master_of(write, lease, of_master) if broker_id != MASTER_ID else ("", "")
        return Vouched(int(epoch), token, Holder(holder), is_same == "1", *master)
    if status == "claimed":
        return Claimed(int(rest[0]))
    return OtherAddress(rest[0]) if status == "other" else None


def _sessions(write: Write) -> str:
    return write.keys.sessions(write.broker.broker_name, write.broker.broker_id)


class Ending(StrEnum):
    """Why a front lets go of a replica."""

    CLOSED = "closed"
    """Its connections to this front were closed."""

    GOODBYE = "goodbye"
    """It says that it ends (RocketMQ: UNREGISTER_BROKER)."""

    DEAD = "dead"
    """It was asked, and does not answer."""


def release(
    config: RegistryConfig,
    broker: Broker,
    sessions: Sequence[str],
    why: Ending,
    reason: str,
    *,
    judged_ms: int = 0,
    is_here: bool = False,
) -> Plan[bool]:
    """End sessions of a replica, and its lease unless somebody else has it; return whether that was ended.

    Somebody else: another session at a front that lives, or an agent; `is_here`: another connection to this
    front, which may wait until it is registered. A broker that says goodbye ends what began before the newest
    of these sessions; without sessions, all of them. One that counts as dead stays if it has connected in the
    `judged_ms` that it took to find that out. RocketMQ: unRegisterBroker, onChannelDestroy; there a late end
    wipes a registration that was made meanwhile (apache/rocketmq#11043).
    """
    write = Write.of(config, broker)
    group, lease, deadlines, changes = write.lease_keys
    held = codec.decode_lease((yield from read("GET", lease)) or b"")
    epoch = held[0] if held else 0
    while True:
        record = write.record(ChangeKind.DOWN, epoch, cluster=broker.cluster, reason=reason)
        call = Call(
            scripts.RELEASE,
            (group, lease, _sessions(write), deadlines, changes, write.keys.fronts),
            (
                broker.broker_id,
                broker.address,
                write.lease_member,
                record,
                config.feed_bounds,
                epoch,
                why,
                judged_ms,
                int(is_here),
                *sessions,
            ),
        )
        status, *rest = yield from script_reply(call)
        if status != "other":
            return bool(status == "ok")
        epoch = int(rest[0])


@dataclass(frozen=True, slots=True)
class FrontBeat:
    """What a front learns when it says that it lives."""

    asks_brokers: bool
    """Whether this front is the one that asks brokers whether they live."""

    is_new: bool
    """Whether the store did not know it: it has begun, was silent for too long, or the store lost data."""

    fronts: tuple[str, ...]
    """The names of all that live, sorted."""


def front_beat(config: RegistryConfig, front: str, ttl_ms: int) -> Plan[FrontBeat]:
    """Say that a front lives for `ttl_ms` from now; 0 = it ends, and its sessions hold nobody any more."""
    keys = Keys(config.namespace)
    call = Call(scripts.FRONT, (keys.fronts, keys.prober), (front, ttl_ms))
    _, asks, is_new, *names = yield from script_reply(call)
    return FrontBeat(asks == "1", is_new == "1", tuple(sorted(names)))


def watched(keys: Keys) -> Plan[list[Broker]]:
    """Return the live replicas for which fronts vouch, by name and id: those to be asked."""
    names = yield from broker_names(keys)
    found: list[Broker] = []
    for first in range(0, len(names), _READ_AT_ONCE):
        some = names[first : first + _READ_AT_ONCE]
        groups = yield Reads([("HGETALL", keys.broker(name)) for name in some])
        for name, reply in zip(some, groups, strict=True):
            with suppress(CorruptData):  # who repairs the registry is told
                found += _vouched_for(keys.broker(name), name, checked(keys.broker(name), reply))
    return found


def _vouched_for(key: str, name: str, fields: Mapping[bytes, bytes]) -> list[Broker]:
    cluster = fields.get(b"cluster", b"").decode(errors="replace")
    ids = set(codec.replica_ids(fields, "vouched")) & set(codec.replica_ids(fields, "member"))
    return [
        codec.decode_broker(key, name, of, cluster, fields.get(b"member:%d" % of, b"")) for of in sorted(ids)
    ]


def id_at(keys: Keys, broker_name: str, address: str) -> Plan[int | None]:
    """Return the id of the member of a group that has an address; None = none has it."""
    fields = yield from read("HGETALL", keys.broker(broker_name))
    ids = codec.ids_of_address(fields, address, but=-1)
    return ids[0] if ids else None
