"""Registration: the difference of a broker's table in chunks, the lease last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, cast

from .. import codec
from ..config import RegistryConfig
from ..errors import BrokerOwned, InvalidInput, RegistryError, SeenLease
from ..keys import Keys
from ..model import MASTER_ID, Broker, DataVersion, Registration, TopicConfig
from .base import Call, Command, ErrorReply, Plan, Reads, read
from .leases import RESTARTED, SUCCESSOR, activate, activated, activation, claim
from .table import (
    FRONTS_AT_ONCE,
    NO_VERSION,
    TOPICS_AT_ONCE,
    TableDifference,
    Write,
    check_entry,
    difference,
    difference_to_stored,
    put,
    read_table,
    read_topics,
    routed,
)

_TRIES: Final = 5
"""So often a table may change under a registration before it gives up."""

_NO_NUMBER: Final = "none"
_NOT_THERE: Final = ""
_DENIED: Final = ("NOPERM", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN")


class Rest(Enum):
    """What becomes of the topics of the table that a registration does not give."""

    STAYS = "stays"
    GOES = "goes"
    GOES_OF_FORMERS = "goes of formers"
    """It goes when nobody of the group is alive: then what they had is nobody's any more."""


def register(
    config: RegistryConfig,
    broker: Broker,
    topics: Mapping[str, TopicConfig | bytes],
    *,
    held: Registration | None = None,
    take_over: bool = True,
    admit: bool = True,
    instead_of: SeenLease | None = None,
    version: DataVersion = NO_VERSION,
    joint: bool = False,
    rest: Rest = Rest.GOES,
) -> Plan[Registration]:
    """Make `topics` the broker's table and give it a lease (RocketMQ: RouteInfoManager.registerBroker).

    Topics first, in chunks, the lease last. With the last registration in `held` only the difference is sent;
    without one the table in the store is read and compared. A slave brings topics only while no replica with
    a lower id is alive, and only if it says whether it may stand in as master. It learns where the master is.
    With `take_over`, a live lease of the same address is no obstacle: a restarted agent takes over at once. A
    live lease of another address yields only to a higher state version in `version`, or to `instead_of`, the
    lease that BrokerOwned named and whose owner was found gone, unless it was renewed since.
    With `admit`, a broker that an operator took out is admitted again (see withdraw). `joint`: a front
    registers it, and all fronts share the epoch; its topics may be encoded, and the registration that is
    returned does not have them. `rest`: what becomes of topics that are not given; an agent's slave takes
    none away, since the table is its master's.
    Raises BrokerOwned, BrokerWithdrawn, StaleEpoch, InvalidInput, NewerSchema.
    """
    topics = dict(topics)  # the caller may change its own; this one is compared with the next
    own = {} if joint else cast(dict[str, TopicConfig], topics)
    at_once = FRONTS_AT_ONCE if joint else TOPICS_AT_ONCE
    write = Write(config, Keys(config.namespace), broker, version, says_version=joint, topics_at_once=at_once)
    if held is None:
        for name, item in own.items():
            check_entry(name, item)
        by = RESTARTED if take_over else SUCCESSOR
        epoch = yield from claim(write, by, admit=admit, instead_of=instead_of, joint=joint)
    else:
        _check_held(broker, held)
        epoch = held.epoch
    task = _Task(write, topics, own, held, rest, ends_formers=held is not None or take_over)
    token = held.table_token if held else ""
    registration = Registration(broker, epoch, token, own, complete=not joint)
    for tries in range(_TRIES):
        done = yield from _try(task, registration, believes_held=not tries)
        if done is not None:
            return done
    raise RegistryError(f"{write.broker_key}: the table changes under our epoch: is the registration shared?")


@dataclass(frozen=True, slots=True)
class _Task:
    """What a registration is to bring about."""

    write: Write
    topics: Mapping[str, TopicConfig | bytes]
    own: Mapping[str, TopicConfig]
    """The same for an agent; empty for a front, whose table is everybody's."""

    held: Registration | None
    rest: Rest
    ends_formers: bool
    """Whether it may end what its address was before."""


def _try(task: _Task, registration: Registration, *, believes_held: bool) -> Plan[Registration | None]:
    """Bring it about, unless the store holds another table than expected: None."""
    write, held = task.write, task.held
    around = yield from _look_around(write, held, task.rest)
    said = write.broker.filter_servers
    servers = around.filter_servers if said is None else said
    lost_token = registration.table_token
    if said is None and servers:
        write = replace(write, broker=replace(write.broker, filter_servers=servers))
    if registration.filter_servers != servers:
        registration = replace(registration, filter_servers=servers)
    if not task.ends_formers:
        yield from _refuse_to_end(write, around.former_ids)
    if around.seniors is None:
        return (yield from _without_topics(write, registration, around))
    removes = around.is_first or (task.rest is Rest.GOES and (write.is_master or not registration.complete))
    is_listed = held is None or write.keys.topics not in held.corrupt_keys
    if held is not None and held.complete and is_listed and write.is_master and believes_held:
        change = difference(_base(write, held), task.own)
    else:  # the store holds another table than ours, or we do not know: look, and complete it
        read = read_table if removes else read_topics
        stored_token, stored = yield from read(write, task.topics)
        change = difference_to_stored(stored, (yield from routed(write, stored)), task.topics)
        registration = replace(registration, table_token=stored_token)
    if not removes:
        change = replace(change, removed=[])
    return (yield from _complete(write, registration, change, around, lost_token=lost_token))


def register_topic(config: RegistryConfig, held: Registration, topic: TopicConfig) -> Plan[Registration]:
    """Add or change one topic of a broker, and nothing else (RocketMQ: REGISTER_TOPIC_IN_NAMESRV).

    Raises StaleEpoch, and RegistryError when the table is not this replica's to write, or when `held` came
    from `owner` and the table has changed since: look again.
    """
    write = Write.of(config, held.broker)
    name, topics = topic.topic_name, {**held.topics, topic.topic_name: topic}
    around = yield from _look_around(write, held, Rest.STAYS)
    if around.seniors is not None:
        change = yield from _one_change(write, held, topic)
        done = yield from put(write, held.epoch, held.table_token, change, seniors=around.seniors)
        if done.status == "ok":
            corrupt = {*held.corrupt_keys} - {write.keys.topic(name)} | {*done.corrupt_keys}
            return replace(held, table_token=done.token, topics=topics, corrupt_keys=tuple(sorted(corrupt)))
        if done.status == "moved" and held.complete:
            return (yield from register(config, held.broker, topics, held=held))
        if done.status == "moved":
            raise RegistryError(f"{write.broker_key}: the table has changed since its owner was looked up")
    raise RegistryError(f"{write.broker_key}: a replica with a lower id is alive, and writes the table")


def _one_change(write: Write, held: Registration, topic: TopicConfig) -> Plan[TableDifference]:
    """Return the difference that one topic makes; ask the store whether it is new unless that is known."""
    known = topic.topic_name in held.topics
    knows_all = held.complete and write.is_master  # a slave completes a table of which it knows a part
    if not known and not knows_all:
        known = bool((yield from read("HEXISTS", write.table_key, topic.topic_name)))
    new = {topic.topic_name: codec.encode_config(topic)}
    return TableDifference(changed=new) if known else TableDifference(added=new)


def _check_held(broker: Broker, held: Registration) -> None:
    if (held.broker.broker_name, held.broker.broker_id) != (broker.broker_name, broker.broker_id):
        raise InvalidInput(f"{broker.broker_name}: the registration in hand is of {held.broker}")


@dataclass(frozen=True, slots=True)
class _Around:
    """What a registration must know of the other replicas of its group."""

    seniors: Sequence[str] | None
    """The leases of the replicas that come before it; None = one of them is alive, and it brings no topics.

    A master has none. A slave writes the group's table only while all with a lower id are gone (RocketMQ: the
    prime slave), and never when it does not say whether it may act as master. RocketMQ removes topics on no
    registration, unless deleteTopicWithBrokerRegistration is on; here an agent's does.
    """

    former_ids: Sequence[int]
    """The other ids of the same address in the group: what this replica was before."""

    is_new: bool
    """Whether it may end them: it was claimed just now, or has moved to this address."""

    filter_servers: tuple[str, ...]
    """As the group has them for this replica at this address."""

    is_first: bool
    """Whether it may remove what the group had, since nobody of it is alive."""


def _look_around(write: Write, held: Registration | None, rest: Rest) -> Plan[_Around]:
    """Read what a registration must know of the other replicas, if they matter to it."""
    broker = write.broker
    may_write = write.is_master or broker.enable_acting_master is not None
    known = held if held is not None and held.broker.address == broker.address else None
    # What another front has joined may have filter servers that this one has not heard of.
    servers = (
        known.filter_servers if known and (known.complete or broker.filter_servers is not None) else None
    )
    fields: Mapping[bytes, bytes] = {}
    if known is None or servers is None or (may_write and not write.is_master):
        fields = yield from read("HGETALL", write.broker_key)
    former_ids: Sequence[int] = ()
    if known is None:
        former_ids = codec.ids_of_address(fields, broker.address, broker.broker_id)
    if servers is None:
        servers = codec.filter_servers_at(fields, broker.broker_id, broker.address)
    seniors = (yield from _seniors(write, fields, former_ids)) if may_write else None
    looks = rest is Rest.GOES_OF_FORMERS and held is None
    is_first = looks and not (yield from _are_alive(write, fields))
    return _Around(seniors, former_ids, known is None, servers, is_first)


def _are_alive(write: Write, fields: Mapping[bytes, bytes]) -> Plan[bool]:
    """Return whether a replica of the group has a lease, at whichever address."""
    members = codec.decode_group(write.broker.broker_name, fields).broker_ids
    leases = [write.lease_key(of) for of in sorted({*members, write.broker.broker_id})]
    return bool((yield from read("EXISTS", *leases)))


def _seniors(
    write: Write, fields: Mapping[bytes, bytes], former_ids: Sequence[int]
) -> Plan[list[str] | None]:
    """Return the leases of the replicas with a lower id, which must have gone; None = one is alive."""
    own_id = write.broker.broker_id
    if own_id == MASTER_ID:
        return []
    members = codec.decode_group(write.broker.broker_name, fields).broker_ids
    lower = {of for of in (MASTER_ID, *members) if of < own_id} - {*former_ids}
    seniors = [write.lease_key(of) for of in sorted(lower)]
    alive = bool(seniors) and (yield from read("EXISTS", *seniors))
    return None if alive else seniors


def _refuse_to_end(write: Write, former_ids: Sequence[int]) -> Plan[None]:
    """Raise BrokerOwned when the address is alive under another id: a fenced owner does not take it back."""
    for broker_id in former_ids:
        key = write.lease_key(broker_id)
        lease, left_ms = yield Reads((("GET", key), ("PTTL", key)))
        owner = codec.decode_lease(lease) if isinstance(lease, bytes) else None
        if owner is not None and owner[1] == write.broker.address:
            advice = "the same address is another replica of the group now: run one of the two"
            raise BrokerOwned(write.broker.broker_name, broker_id, owner[1], left_ms, advice=advice)


def _base(write: Write, held: Registration) -> Mapping[str, TopicConfig]:
    """Return the topics that are in the store; those with a foreign index are not, and are tried again."""
    if not held.corrupt_keys:
        return held.topics
    return {
        name: item for name, item in held.topics.items() if write.keys.topic(name) not in held.corrupt_keys
    }


def _complete(
    write: Write,
    registration: Registration,
    change: TableDifference,
    around: _Around,
    *,
    lost_token: str,
) -> Plan[Registration | None]:
    """Write the difference, then the lease; None when the store holds another table than expected."""

    def lease(token: str) -> Call:
        return activation(write, registration, token, around.former_ids)

    done = yield from put(
        write,
        registration.epoch,
        registration.table_token,
        change,
        lost_token=lost_token,
        seniors=around.seniors or (),
        then=lease,
    )
    if done.status == "moved":
        return None
    if done.status == "junior":  # a replica with a lower id has come meanwhile
        return (yield from _without_topics(write, registration, around))
    complete = replace(registration, table_token=done.token, corrupt_keys=done.corrupt_keys)
    if done.then is None:  # nothing had to be written
        return (yield from activate(write, complete, around.former_ids, is_new=around.is_new))
    return activated(write, complete, *done.then, is_new=around.is_new)


def _without_topics(write: Write, registration: Registration, around: _Around) -> Plan[Registration | None]:
    bare = replace(registration, table_token="", topics={}, complete=False)
    return (yield from activate(write, bare, around.former_ids, is_new=around.is_new))


def may_register(keys: Keys, broker_name: str, broker_id: int) -> Plan[tuple[ErrorReply, ...]]:
    """Return why the store would not let this user register a broker; nothing = it would.

    Redis checks permissions before arguments: each command has an impossible argument, or names a key that
    never exists.
    """
    replies = yield Reads(_harmless(keys, broker_name, broker_id), tolerant=True)
    return tuple(reply for reply in replies if isinstance(reply, ErrorReply) and reply.code in _DENIED)


def _harmless(keys: Keys, broker_name: str, broker_id: int) -> tuple[Command, ...]:
    group, table = keys.broker(broker_name), keys.broker_topics(broker_name)
    lease = keys.lease(broker_name, broker_id)
    return (
        ("HGETALL", group),
        ("EVAL", "return 1", 3, group, table, lease),
        ("HSET", group, "field", "value", "a field without a value"),
        ("HDEL", table, _NOT_THERE),
        ("MSET", keys.topic(_NOT_THERE), "value", keys.topic(_NOT_THERE)),
        ("SET", lease, "value", "PX", _NO_NUMBER),
        ("PEXPIREAT", lease, _NO_NUMBER),
        ("SREM", keys.topics, _NOT_THERE),
        ("HDEL", keys.brokers, _NOT_THERE),
        ("ZADD", keys.deadlines, _NO_NUMBER, "member"),
        ("ZREM", keys.deadlines, _NOT_THERE),
        ("XADD", keys.changes, _NO_NUMBER, "field", "value"),
        ("XTRIM", keys.changes, "MAXLEN", _NO_NUMBER),
        ("SET", keys.sweeper, "value", "PX", _NO_NUMBER),
    )
