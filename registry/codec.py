"""Model to bytes and back; the only place that knows how a value looks in Redis.

A topic's configuration is `read write perm sysflag`, followed by a JSON object when it holds more than the
defaults, and for a static topic by a tab and the JSON of its queue mapping. A row of the route index is the
broker's name, those four numbers, and the mapping if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import orjson

from .checks import check_address
from .errors import CorruptData
from .model import (
    MASTER_ID,
    Broker,
    Change,
    ChangeKind,
    DataVersion,
    Group,
    MemberTraits,
    QueueData,
    QueueMapping,
    TopicConfig,
    in_order,
)

_MEMBER_FIELD = b"member:"
ID: Final = "0|[1-9][0-9]{0,18}"
"""What the id of a replica looks like in keys and fields: one id has one form."""

_ID = re.compile(ID)
_MAX_ID = 2**63 - 1
_OF_REPLICA = ("member", "epoch", "version", "out", "joint", "vouched", "agent")
_NUMBER = re.compile(r"[0-9]{1,19}")
_ROW = re.compile(rb"([^ ]+) (\d{1,10}) (\d{1,10}) (\d{1,10}) (\d{1,10})(?: (\{.*))?")
_LEASE = re.compile(rb"(\d{1,19}) (\S+)")


# A broker has few shapes of topics: the same four numbers stand for thousands of them.
@lru_cache(maxsize=65_536)
def _encode_numbers(read: int, write: int, perm: int, sys_flag: int) -> bytes:
    return b"%d %d %d %d" % (read, write, perm, sys_flag)


def number(text: str) -> int | None:
    """Return a whole number of up to 19 digits; None for any other text."""
    return int(text) if _NUMBER.fullmatch(text) else None


def broker_id_of(text: str) -> int | None:
    """Return the broker id in a part of a key or of a field; None for any other text, such as 007."""
    return int(text) if _ID.fullmatch(text) and int(text) <= _MAX_ID else None


def replica_field(name: bytes) -> tuple[str, int] | None:
    """Return which of _OF_REPLICA a field of a group is, and of which id; None = no field of a replica."""
    what, _, text = name.decode(errors="replace").partition(":")
    broker_id = broker_id_of(text)
    return (what, broker_id) if broker_id is not None and what in _OF_REPLICA else None


def replica_ids(fields: Iterable[bytes], what: str = "") -> tuple[int, ...]:
    """Return the ids of the replicas that fields of a group are of, sorted; those called `what` only."""
    found = filter(None, map(replica_field, fields))
    return tuple(sorted({broker_id for name, broker_id in found if what in ("", name)}))


def is_text(value: bytes) -> bool:
    """Whether a name that was read can be one that the registry wrote: whether it is UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def encode_config(config: TopicConfig) -> bytes:
    """Return what the broker's own topic table holds for a topic."""
    numbers = _encode_numbers(
        config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
    )
    mapping = config.queue_mapping
    if mapping is not None:
        return with_mapping(encode_config(replace(config, queue_mapping=None)), encode_mapping(mapping))
    if not (config.order or config.attributes or config.topic_filter_type != "SINGLE_TAG"):
        return numbers
    rest: dict[str, Any] = {}
    if config.order:
        rest["order"] = True
    if config.topic_filter_type != "SINGLE_TAG":
        rest["topicFilterType"] = config.topic_filter_type
    if config.attributes:
        rest["attributes"] = dict(config.attributes)
    return numbers + b" " + orjson.dumps(rest, option=orjson.OPT_SORT_KEYS)


def mapping_of(config: bytes) -> bytes:
    """Return the queue mapping that stands in an encoded configuration; empty = none."""
    return config.partition(b"\t")[2]


def with_mapping(config: bytes, mapping: bytes) -> bytes:
    """Return an encoded configuration with this encoded queue mapping, in the place of its own."""
    return config.partition(b"\t")[0] + b"\t" + mapping  # JSON holds no tab


def encode_mapping(mapping: QueueMapping) -> bytes:
    """Return the JSON of a queue mapping, with RocketMQ's field names but for topic and broker."""
    return orjson.dumps(
        {
            "totalQueues": mapping.total_queues,
            "epoch": mapping.epoch,
            "currIdMap": {str(logical): physical for logical, physical in mapping.current_ids.items()},
            "scope": mapping.scope,
            "dirty": mapping.dirty,
        },
        option=orjson.OPT_SORT_KEYS,
    )


def decode_mapping(value: bytes) -> QueueMapping:
    """Return a queue mapping from its JSON; raises ValueError, KeyError, TypeError or InvalidInput."""
    fields = orjson.loads(value)
    return QueueMapping(
        fields["totalQueues"],
        fields["epoch"],
        {int(logical): physical for logical, physical in fields["currIdMap"].items()},
        fields["scope"],
        fields["dirty"],
    )


def encode_row(broker_name: bytes, config: bytes) -> bytes:
    """Return the row of the route index that an encoded configuration makes."""
    plain, _, mapping = config.partition(b"\t")
    row = broker_name + b" " + b" ".join(plain.split(b" ", 4)[:4])
    return row + b" " + mapping if mapping else row


def decode_config(key: str, topic: str, value: bytes) -> TopicConfig:
    """Return the configuration that stands in the table `key`; raise CorruptData."""
    try:
        plain, _, mapping = value.partition(b"\t")
        read, write, perm, sys_flag, *rest = plain.split(b" ", 4)
        more = orjson.loads(rest[0]) if rest else {}
        return TopicConfig(
            topic,
            int(read),
            int(write),
            int(perm),
            int(sys_flag),
            order=more.get("order", False),
            topic_filter_type=more.get("topicFilterType", "SINGLE_TAG"),
            attributes=more.get("attributes", {}),
            queue_mapping=decode_mapping(mapping) if mapping else None,
        )
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise CorruptData(key, f"topic {topic!r} has the configuration {value[:80]!r}: {error}") from None


# The same row stands under thousands of topics: a broker has few shapes of topics.
@lru_cache(maxsize=65_536)
def _decode_row(row: bytes) -> QueueData:
    match = _ROW.fullmatch(row)
    if match is None:
        raise ValueError(f"{row[:80]!r} is no row")
    broker, read, write, perm, sys_flag, mapping = match.groups()
    try:
        queue_mapping = None if mapping is None else decode_mapping(mapping)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{row[:80]!r} has no queue mapping: {error!r}") from None
    return QueueData(broker.decode(), int(read), int(write), int(perm), int(sys_flag), queue_mapping)


# Most topics of a cluster have the same shape on each of its brokers, so whole indexes repeat too.
@lru_cache(maxsize=65_536)
def _decode_rows(value: bytes) -> tuple[QueueData, ...]:
    return in_order(map(_decode_row, value.split(b"\n")))


def decode_index(key: str, value: bytes) -> tuple[tuple[QueueData, ...], CorruptData | None]:
    """Return the rows of a route index; rows that make no sense are left out and reported."""
    try:
        return _decode_rows(value), None
    except ValueError:
        return _decode_index_leniently(key, value)


def _decode_index_leniently(key: str, value: bytes) -> tuple[tuple[QueueData, ...], CorruptData]:
    good, bad = [], []
    for row in value.split(b"\n"):
        try:
            good.append(_decode_row(row))
        except ValueError:
            bad.append(row)
    return in_order(good), CorruptData(key, f"{len(bad)} rows are no route, the first is {bad[0][:80]!r}")


def encode_lease(epoch: int, address: str) -> str:
    """Return the value of a lease."""
    return f"{epoch} {address}"


@lru_cache(maxsize=16_384)
def decode_lease(value: bytes) -> tuple[int, str] | None:
    """Return (epoch, address), or None when it is no lease."""
    match = _LEASE.fullmatch(value)
    try:
        if match is None:
            return None
        address = match[2].decode()
        check_address("lease", address)
        return int(match[1]), address
    except ValueError:
        return None


def encode_member(broker: Broker) -> bytes:
    """Return what the group's hash holds for one replica."""
    member: dict[str, Any] = {"address": broker.address, "haAddress": broker.ha_address}
    if broker.zone_name:
        member["zoneName"] = broker.zone_name
    if broker.enable_acting_master is not None:
        member["enableActingMaster"] = broker.enable_acting_master
    if broker.heartbeat_timeout_ms is not None:
        member["heartbeatTimeoutMillis"] = broker.heartbeat_timeout_ms
    if broker.filter_servers:
        member["filterServers"] = list(broker.filter_servers)
    return orjson.dumps(member)


def decode_broker(key: str, broker_name: str, broker_id: int, cluster: str, member: bytes) -> Broker:
    """Return the replica that a field of the group `key` describes; raise CorruptData."""
    try:
        fields = orjson.loads(member)
        return Broker(
            broker_name,
            fields["address"],
            broker_id,
            cluster,
            fields.get("haAddress", ""),
            zone_name=fields.get("zoneName", ""),
            enable_acting_master=fields.get("enableActingMaster"),
            heartbeat_timeout_ms=fields.get("heartbeatTimeoutMillis"),
            filter_servers=_names(fields.get("filterServers", [])) or None,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(key, f"member {broker_id} is {member[:80]!r}: {error!r}") from None


# Groups are read again and again, and most of their members do not change.
@lru_cache(maxsize=16_384)
def _decode_member(member: bytes) -> tuple[str, MemberTraits]:
    """Return address and traits of a member; one that makes no sense has none."""
    address, traits = "", _NO_TRAITS
    with suppress(ValueError, AttributeError):
        fields = orjson.loads(member)
        address, zone_name = (_text(fields, name) for name in ("address", "zoneName"))
        acting = fields.get("enableActingMaster") is True
        traits = MemberTraits(zone_name, acting, _names(fields.get("filterServers", [])))
    return address, traits


_NO_TRAITS = MemberTraits()


def _text(fields: Mapping[str, Any], what: str) -> str:
    text = fields.get(what)
    return text if isinstance(text, str) else ""


def member_address(member: bytes | None) -> str:
    """Return the address of a replica from its field of the group; '' if there is none that makes sense."""
    return _decode_member(member or b"")[0]


def filter_servers_at(fields: Mapping[bytes, bytes], broker_id: int, address: str) -> tuple[str, ...]:
    """Return the filter servers that a replica has by its group's hash, if it is at this address there."""
    at, traits = _decode_member(fields.get(b"member:%d" % broker_id, b""))
    return traits.filter_servers if at == address else ()


def _members(fields: Mapping[bytes, bytes]) -> dict[int, bytes]:
    return {
        found[1]: value
        for name, value in fields.items()
        if name.startswith(_MEMBER_FIELD) and (found := replica_field(name)) is not None
    }


def decode_group(broker_name: str, fields: Mapping[bytes, bytes]) -> Group:
    """Return the group that a broker's hash describes; fields that are no member are passed over."""
    members = _members(fields)
    traits = {broker_id: _decode_member(value)[1] for broker_id, value in members.items()}
    return Group(
        fields.get(b"cluster", b"").decode(errors="replace"),
        broker_name,
        tuple(sorted(members)),
        fields.get(b"wiped") == b"1",
        {broker_id: found for broker_id, found in traits.items() if found != _NO_TRAITS},
    )


def ids_of_address(fields: Mapping[bytes, bytes], address: str, but: int) -> tuple[int, ...]:
    """Return the ids, but for one, of the members of a group's hash that have an address."""
    members = _members(fields).items()
    return tuple(sorted(of for of, member in members if of != but and member_address(member) == address))


def encode_data_version(version: DataVersion) -> str:
    """Return the text of a data version: state version, timestamp, counter."""
    return f"{version.state_version} {version.timestamp} {version.counter}"


def decode_data_version(key: str, value: bytes) -> DataVersion:
    """Return the data version that stands in the group `key`; raise CorruptData."""
    try:
        state_version, timestamp, counter = map(int, value.split(b" "))
        return DataVersion(state_version, timestamp, counter)
    except ValueError as error:
        raise CorruptData(key, f"the data version {value[:80]!r} is none: {error}") from None


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r:.80} is no list of names")
    return tuple(value)


OF_NO_TABLE: Final = frozenset((ChangeKind.KV, ChangeKind.SETTINGS))
"""Changes after which every route and every list is what it was."""

OF_NO_BROKER: Final = OF_NO_TABLE | {ChangeKind.DELETED}
"""Changes that are not about one broker."""

_CHANGE_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    **{name: (name, str) for name in ("cluster", "address", "reason", "by", "user", "namespace", "key")},
    **{name: (name, _names) for name in ("added", "changed", "removed", "brokers")},
    "ttl": ("lease_ttl_ms", int),
    "ended": ("lease_ended_ms", int),
}
"""Fields of a record to attributes of a Change, and how a value is read."""


def encode_change(change: Change) -> bytes:
    """Return the record of a change; empty fields are left out."""
    record: dict[str, Any] = {"kind": change.kind}
    if change.broker_name:
        record |= {"broker": change.broker_name, "id": change.broker_id, "epoch": change.epoch}
    record.update((name, value) for name, (of, _) in _CHANGE_FIELDS.items() if (value := getattr(change, of)))
    return orjson.dumps(record)


def _change_field(name: str, value: Any) -> tuple[str, Any]:
    """Return the attribute that a field of a record is, and its value; raise ValueError, which names it."""
    attribute, read = _CHANGE_FIELDS[name]
    try:
        return attribute, read(value)
    except (ValueError, TypeError):
        what = "list of names" if read is _names else "whole number"
        raise ValueError(f"{name} is no {what}: {value!r:.80}") from None


@dataclass(frozen=True, slots=True)
class RowChange:
    """What a doorbell says of one topic of the broker that it is about."""

    before: QueueData | None
    """None: the broker had no row of it."""

    now: QueueData


def decode_rows(rows: Any) -> dict[str, RowChange]:
    """Return what the rows of a doorbell say, by topic; empty = there are none, or some make no sense."""
    with suppress(ValueError, TypeError, AttributeError):
        said = iter(rows or ())
        return {
            topic: RowChange(_decode_row(before.encode()) if before else None, _decode_row(now.encode()))
            for topic, before, now in zip(said, said, said, strict=True)
        }
    return {}


def decode_change(key: str, change_id: str, record: bytes) -> Change:
    """Return the change that a record of the stream `key` describes; raise CorruptData."""
    return decode_doorbell(key, change_id, record)[0]


def decode_doorbell(key: str, change_id: str, record: bytes) -> tuple[Change, Any]:
    """Return the change that a record describes, and the rows that came with it; raise CorruptData."""
    try:
        fields = orjson.loads(record)
        of_broker = fields["kind"] not in OF_NO_BROKER
        rest = dict(_change_field(name, value) for name, value in fields.items() if name in _CHANGE_FIELDS)
        change = Change(
            change_id=change_id,
            kind=ChangeKind(fields["kind"]),
            broker_name=str(fields["broker"]) if of_broker else "",
            broker_id=int(fields.get("id", MASTER_ID)),
            epoch=int(fields["epoch"]) if of_broker else 0,
            **rest,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(key, f"entry {change_id} is no change: {error!r}") from None
    return change, fields.get("rows")
