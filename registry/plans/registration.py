"""Registration: the difference of a broker's table in chunks, the lease last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import BrokerOwned, CorruptData, InvalidInput, RegistryError
from ..keys import Keys
from ..model import (
    MASTER_ID,
    Broker,
    Change,
    ChangeKind,
    DataVersion,
    Registration,
    TopicConfig,
)
from .base import Call, Plan, Reads, checked, script_reply
from .lease import fenced
from .read import mget

__all__ = ["register"]

_SCAN_COUNT: Final = 2_000
_TOKEN: Final = re.compile(r"(\d{1,16}\.\d{1,18})?")
_NO_VERSION: Final = DataVersion()


def register(
    config: RegistryConfig,
    broker: Broker,
    topics: Mapping[str, TopicConfig],
    *,
    held: Registration | None = None,
    take_over: bool = True,
    version: DataVersion = _NO_VERSION,
) -> Plan[Registration]:
    """Make `topics` the broker's table and give it a lease (RocketMQ: RouteInfoManager.registerBroker).

    Topics first, in chunks, the lease last. With the last registration in `held` only the difference is sent;
    without one the table in the store is read and compared. Replicas that are no master bring no topics.
    With `take_over`, a live lease of the same address is no obstacle: a restarted agent takes over at once.
    Raises BrokerOwned, StaleEpoch, CorruptData, InvalidInput, StoreRefused, StoreUnavailable.
    """
    topics = dict(topics)  # the caller may change its own; this one is compared with the next
    write = _Write(config, Keys(config.namespace), broker, version)
    if held is None:
        for name, item in topics.items():
            _check_entry(name, item)
        epoch = yield from _claim(write, take_over=take_over)
    else:
        epoch = held.epoch
        if (held.broker.broker_name, held.broker.broker_id) != (broker.broker_name, broker.broker_id):
            raise InvalidInput(f"{broker.broker_name}: the registration in hand is of {held.broker}")
    if broker.broker_id != MASTER_ID:
        return _done(write, (yield from _activate(write, Registration(broker, epoch, "", {}))))
    done = None
    if held is not None:
        registration = Registration(broker, epoch, held.table_token, topics)
        done = yield from _bring_up_to_date(write, registration, _difference(_base(write, held), topics))
    if done is None:  # the store holds another table than ours, or we do not know: look, and complete it
        token, stored = yield from _read_table(write)
        routed = yield from _routed(write, stored)
        registration = Registration(broker, epoch, token, topics)
        done = yield from _bring_up_to_date(
            write, registration, _difference_to_stored(routed, topics), held.table_token if held else ""
        )
    return _done(write, done)


@dataclass(frozen=True, slots=True)
class _Write:
    """What every step of one registration needs."""

    config: RegistryConfig
    keys: Keys
    broker: Broker
    version: DataVersion

    @property
    def broker_key(self) -> str:
        return self.keys.broker(self.broker.broker_name)

    @property
    def lease_key(self) -> str:
        return self.keys.lease(self.broker.broker_name, self.broker.broker_id)


@dataclass(frozen=True, slots=True)
class _Difference:
    """Topics to write or to remove."""

    added: dict[str, TopicConfig] = field(default_factory=dict)
    changed: dict[str, TopicConfig] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def chunks(self, size: int) -> Iterator[_Difference]:
        """Cut into parts of at most `size` topics each."""
        added, changed, removed = list(self.added.items()), list(self.changed.items()), self.removed
        total = len(added) + len(changed) + len(removed)
        for start in range(0, total, size):
            end = start + size
            from_changed, to_changed = max(0, start - len(added)), max(0, end - len(added))
            from_removed, to_removed = max(0, from_changed - len(changed)), max(0, to_changed - len(changed))
            yield _Difference(
                dict(added[start:end]),
                dict(changed[from_changed:to_changed]),
                removed[from_removed:to_removed],
            )


def _done(write: _Write, registration: Registration | None) -> Registration:
    if registration is None:
        raise RegistryError(
            f"{write.broker_key}: the table changes under our epoch: is the registration shared?"
        )
    return registration


def _base(write: _Write, held: Registration) -> Mapping[str, TopicConfig]:
    """Return the topics that are in the store: those with a foreign index are not, and are tried again."""
    if not held.corrupt_keys:
        return held.topics
    return {
        name: item for name, item in held.topics.items() if write.keys.topic(name) not in held.corrupt_keys
    }


def _check_entry(name: str, config: TopicConfig) -> None:
    if name != config.topic_name:
        raise InvalidInput(f"the table holds topic {config.topic_name!r} under the name {name!r}")


def _difference(base: Mapping[str, TopicConfig], topics: Mapping[str, TopicConfig]) -> _Difference:
    result, known = _Difference(), 0
    for name, config in topics.items():
        old = base.get(name)
        known += old is not None
        if old is config:  # the usual case, and far cheaper than comparing
            continue
        _check_entry(name, config)
        if old is None:
            result.added[name] = config
        elif old != config:
            result.changed[name] = config
    if known < len(base):
        result.removed.extend(name for name in base if name not in topics)
    return result


def _difference_to_stored(stored: Mapping[str, bytes], topics: Mapping[str, TopicConfig]) -> _Difference:
    result = _Difference(removed=[name for name in stored if name not in topics])
    for name, config in topics.items():
        old = stored.get(name)
        if old is None:
            result.added[name] = config
        elif old != codec.encode_config(config):
            result.changed[name] = config
    return result


def _claim(write: _Write, *, take_over: bool) -> Plan[int]:
    broker = write.broker
    call = Call(
        scripts.CLAIM,
        (write.broker_key, write.lease_key, write.keys.brokers),
        (broker.broker_id, broker.broker_name, broker.cluster, broker.address, int(take_over)),
    )
    status, *rest = yield from script_reply(call)
    if status == "owned":
        address, remaining_ms = rest
        raise BrokerOwned(broker.broker_name, broker.broker_id, address, int(remaining_ms))
    return int(rest[0])


def _read_table(write: _Write) -> Plan[tuple[str, dict[str, bytes]]]:
    """Return the name of the stored table, read before any of its pages, and the table."""
    key = write.keys.broker_topics(write.broker.broker_name)
    tokens: list[bytes | None] = []
    stored: dict[str, bytes] = {}
    cursor: int = 0
    while True:
        token, page = yield Reads(
            (("HGET", write.broker_key, "token"), ("HSCAN", key, cursor, "COUNT", _SCAN_COUNT))
        )
        cursor, fields = checked(key, page)
        tokens.append(checked(write.broker_key, token))
        # A name that is no UTF-8 came from somebody else: it is no topic, and cannot be removed as one.
        stored.update((name.decode(), value) for name, value in fields.items() if codec.is_text(name))
        if cursor == 0:
            return _token(write.broker_key, tokens[0]), stored


def _routed(write: _Write, stored: Mapping[str, bytes]) -> Plan[dict[str, bytes]]:
    """Return the stored topics whose route index has our row; the others are written again."""
    indexes = yield from mget([write.keys.topic(topic) for topic in stored])
    broker = write.broker.broker_name.encode()
    return {
        topic: config
        for (topic, config), index in zip(stored.items(), indexes, strict=True)
        if index is not None and codec.encode_row(broker, config) in index.split(b"\n")
    }


def _token(key: str, value: bytes | None) -> str:
    token = (value or b"").decode(errors="replace")
    if not _TOKEN.fullmatch(token):
        raise CorruptData(key, f"has the table token {token[:80]!r}; remove the field `token`")
    return token


def _bring_up_to_date(
    write: _Write, registration: Registration, difference: _Difference, lost_token: str = ""
) -> Plan[Registration | None]:
    """Write the difference, then the lease; None when the store holds another table than expected."""
    token, corrupt = registration.table_token, list[str]()
    chunks = list(difference.chunks(write.config.chunk_topics))
    if not chunks and not token:  # a table without one could be lost unnoticed: an empty chunk brings one
        chunks = [_Difference()]
    for chunk in chunks:
        next_token = _next_token(registration.epoch, token, lost_token)
        status, *rest = yield from script_reply(
            _put_call(write, registration.epoch, (token, next_token), chunk)
        )
        if status == "fenced":
            raise fenced(write.broker, registration.epoch, rest[0])
        if status == "moved":
            return None
        token = next_token
        corrupt += rest
    return (
        yield from _activate(write, replace(registration, table_token=token, corrupt_keys=tuple(corrupt)))
    )


def _next_token(epoch: int, *used: str) -> str:
    """Return a name, `<epoch>.<n>`, after those used, also after one that the store has forgotten."""
    counts = [int(count) for of, _, count in (token.partition(".") for token in used) if of == str(epoch)]
    return f"{epoch}.{max(counts, default=0) + 1}"


def _put_call(write: _Write, epoch: int, tokens: tuple[str, str], part: _Difference) -> Call:
    keys, broker, config = write.keys, write.broker, write.config
    name = broker.broker_name
    record = Change(
        kind=ChangeKind.TOPICS,
        broker_name=name,
        broker_id=broker.broker_id,
        epoch=epoch,
        added=tuple(part.added),
        changed=tuple(part.changed),
        removed=tuple(part.removed),
    )
    # A broker has few shapes of topics: each is sent, parsed and made a row once for all its topics.
    shapes: dict[bytes, list[str]] = {}
    for topic, item in (*part.added.items(), *part.changed.items()):
        shapes.setdefault(codec.encode_config(item), []).append(topic)
    if part.removed:
        shapes[b""] = part.removed
    prefix = keys.topic("")
    index_keys = [prefix + topic for same in shapes.values() for topic in same]
    return Call(
        scripts.PUT_TOPICS,
        (write.broker_key, keys.broker_topics(name), keys.topics, keys.changes, *index_keys),
        (
            broker.broker_id,
            epoch,
            *tokens,
            name,
            codec.encode_change(record),
            config.feed_max_entries,
            len(prefix),
            *(argument for shape, same in shapes.items() for argument in (shape, len(same))),
        ),
    )


def _activate(write: _Write, registration: Registration) -> Plan[Registration | None]:
    keys, broker, config, epoch = write.keys, write.broker, write.config, registration.epoch
    record = Change(
        kind=ChangeKind.UP,
        broker_name=broker.broker_name,
        broker_id=broker.broker_id,
        epoch=epoch,
        cluster=broker.cluster,
        address=broker.address,
    )
    call = Call(
        scripts.ACTIVATE,
        (write.broker_key, write.lease_key, keys.deadlines, keys.changes),
        (
            broker.broker_id,
            epoch,
            registration.table_token,
            codec.encode_lease(epoch, broker.address),
            config.lease_ttl_ms,
            keys.lease_member(broker.broker_name, broker.broker_id),
            codec.encode_member(broker),
            broker.cluster,
            codec.encode_data_version(write.version) if write.version != _NO_VERSION else "",
            codec.encode_change(record),
            config.feed_max_entries,
        ),
    )
    status, *rest = yield from script_reply(call)
    if status == "fenced":
        raise fenced(write.broker, epoch, rest[0])
    return None if status == "moved" else registration
