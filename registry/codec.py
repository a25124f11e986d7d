"""Model to bytes and back; the only place that knows how a value looks in Redis.

A topic's configuration is `read write perm sysflag`, followed by a JSON object when it holds more than the
defaults. A row of the route index is the broker's name and those four numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

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
    QueueData,
    TopicConfig,
)

__all__ = [
    "decode_change",
    "decode_config",
    "decode_group",
    "decode_index",
    "decode_lease",
    "encode_change",
    "encode_config",
    "encode_data_version",
    "encode_lease",
    "encode_member",
    "encode_row",
    "is_text",
]

_MEMBER_FIELD = b"member:"
_ID = re.compile(rb"[0-9]{1,19}")
_ROW = re.compile(rb"([^ ]+) (\d{1,10}) (\d{1,10}) (\d{1,10}) (\d{1,10})")
_LEASE = re.compile(rb"(\d{1,19}) (\S+)")


# A broker has few shapes of topics: the same four numbers stand for thousands of them.
@lru_cache(maxsize=65_536)
def _encode_numbers(read: int, write: int, perm: int, sys_flag: int) -> bytes:
    return b"%d %d %d %d" % (read, write, perm, sys_flag)


def is_text(value: bytes) -> bool:
    """Whether a name that was read can be one of ours: UTF-8."""
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


def encode_row(broker_name: bytes, config: bytes) -> bytes:
    """Return the row of the route index that an encoded configuration makes."""
    return broker_name + b" " + b" ".join(config.split(b" ", 4)[:4])


def decode_config(key: str, topic: str, value: bytes) -> TopicConfig:
    """Return the configuration that stands in the table `key`; raise CorruptData."""
    try:
        read, write, perm, sys_flag, *rest = value.split(b" ", 4)
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
        )
    except (ValueError, AttributeError) as error:
        raise CorruptData(key, f"topic {topic!r} has the configuration {value[:80]!r}: {error}") from None


# The same row stands under thousands of topics: a broker has few shapes of topics.
@lru_cache(maxsize=65_536)
def _decode_row(row: bytes) -> QueueData:
    match = _ROW.fullmatch(row)
    if match is None:
        raise ValueError(f"{row[:80]!r} is no row")
    broker, *numbers = match.groups()
    return QueueData(broker.decode(), *map(int, numbers))


# Most topics of a cluster have the same shape on each of its brokers, so whole indexes repeat too.
@lru_cache(maxsize=8_192)
def _decode_rows(value: bytes) -> tuple[QueueData, ...]:
    return tuple(map(_decode_row, value.split(b"\n")))


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
    return tuple(good), CorruptData(key, f"{len(bad)} rows are no route, the first is {bad[0][:80]!r}")


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
    return orjson.dumps({"address": broker.address, "haAddress": broker.ha_address})


def decode_group(broker_name: str, fields: Mapping[bytes, bytes]) -> Group:
    """Return the group that a broker's hash describes; fields that are no member are passed over."""
    ids = (name.removeprefix(_MEMBER_FIELD) for name in fields if name.startswith(_MEMBER_FIELD))
    members = tuple(sorted(int(broker_id) for broker_id in ids if _ID.fullmatch(broker_id)))
    return Group(fields.get(b"cluster", b"").decode(errors="replace"), broker_name, members)


def encode_data_version(version: DataVersion) -> bytes:
    """Return the JSON of a data version, with RocketMQ's field names."""
    return orjson.dumps(
        {
            "counter": version.counter,
            "stateVersion": version.state_version,
            "timestamp": version.timestamp,
        }
    )


_CHANGE_FIELDS = ("cluster", "address", "reason", "added", "changed", "removed")


def encode_change(change: Change) -> bytes:
    """Return the record of a change; empty fields are left out."""
    record: dict[str, Any] = {
        "kind": change.kind,
        "broker": change.broker_name,
        "id": change.broker_id,
        "epoch": change.epoch,
    }
    record.update((name, value) for name in _CHANGE_FIELDS if (value := getattr(change, name)))
    return orjson.dumps(record)


def decode_change(key: str, change_id: str, record: bytes) -> Change:
    """Return the change that a record of the stream `key` describes; raise CorruptData."""
    try:
        fields = orjson.loads(record)
        return Change(
            change_id=change_id,
            kind=ChangeKind(fields["kind"]),
            broker_name=str(fields["broker"]),
            broker_id=int(fields.get("id", MASTER_ID)),
            epoch=int(fields["epoch"]),
            cluster=str(fields.get("cluster", "")),
            address=str(fields.get("address", "")),
            reason=str(fields.get("reason", "")),
            added=_names(fields, "added"),
            changed=_names(fields, "changed"),
            removed=_names(fields, "removed"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptData(key, f"entry {change_id} is no change: {error!r}") from None


def _names(fields: Mapping[str, Any], what: str) -> tuple[str, ...]:
    names = fields.get(what, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{what} is no list of names")
    return tuple(names)
