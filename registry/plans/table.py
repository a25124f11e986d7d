"""The steps of a registration: claim an epoch, read and write the broker's table, activate the lease."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import BrokerOwned, BrokerWithdrawn, CorruptData, SeenLease
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
from .base import Call, Plan, Reads, checked, script_reply, unless_foreign
from .difference import Difference
from .leases import fenced, lease_ttl_ms
from .routes import mget

_SCAN_COUNT: Final = 500
"""Topics that are read at once: what many take stays with the process, as holes in its memory."""

_NOTHING: Final[Mapping[str, TopicConfig]] = MappingProxyType({})
_TOKEN: Final = re.compile(r"(\d{1,16}\.\d{1,18})?")
NO_VERSION: Final = DataVersion()

SUCCESSOR: Final = "0"
"""Of a live lease: only a higher state version, from another address, may take it over."""

RESTARTED: Final = "1"
"""Of a live lease: a process of the same address may take it over too."""

ANYBODY: Final = "2"
"""Of a live lease: an operator insists."""

_TO_A_BROKER: Final = (
    "give this broker another name or id, wait until the lease ends, or register with a higher state version"
)


@dataclass(frozen=True, slots=True)
class Write:
    """What every step of one registration needs."""

    config: RegistryConfig
    keys: Keys
    broker: Broker
    version: DataVersion = NO_VERSION

    @property
    def is_master(self) -> bool:
        """Whether the table of the group is this replica's own."""
        return self.broker.broker_id == MASTER_ID

    @property
    def broker_key(self) -> str:
        """The key of the broker's group."""
        return self.keys.broker(self.broker.broker_name)

    def lease_key(self, broker_id: int) -> str:
        """Return the key of the lease of a replica of the group."""
        return self.keys.lease(self.broker.broker_name, broker_id)


@dataclass(frozen=True, slots=True)
class Put:
    """How far the writing of a difference came."""

    status: Literal["ok", "moved", "junior"]
    """moved: the store holds another table than expected. junior: a replica with more say is alive."""

    token: str
    corrupt_keys: tuple[str, ...] = ()


class Names(NamedTuple):
    """The topics that one chunk adds, changes and removes."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def claim(
    write: Write,
    take_over: str,
    advice: str = _TO_A_BROKER,
    *,
    admit: bool = True,
    instead_of: SeenLease | None = None,
) -> Plan[int]:
    """Issue a new epoch, which fences every earlier owner; raise BrokerOwned, with that advice.

    The lease `instead_of` which this one comes is no obstacle, unless it was renewed since it was seen.
    With `admit` it is no obstacle that an operator keeps the broker out, which ends with the lease that comes
    of it; else it raises BrokerWithdrawn.
    """
    broker, keys = write.broker, write.keys
    call = Call(
        scripts.CLAIM,
        (
            write.broker_key,
            write.lease_key(broker.broker_id),
            keys.brokers,
            keys.schema,
            keys.broker_topics(broker.broker_name),
        ),
        (
            broker.broker_id,
            broker.broker_name,
            broker.cluster,
            broker.address,
            take_over,
            write.version.state_version,
            "1" if admit else "0",
            codec.encode_lease(instead_of.epoch, instead_of.address) if instead_of else "",
            instead_of.ends_ms if instead_of else 0,
        ),
    )
    status, *rest = yield from script_reply(call)
    if status == "out":
        raise BrokerWithdrawn(broker.broker_name, broker.broker_id, broker.address)
    if status == "owned":
        address, remaining_ms, state_version, *_ = rest
        raise BrokerOwned(
            broker.broker_name,
            broker.broker_id,
            address,
            int(remaining_ms),
            int(state_version),
            advice=advice,
            lease=_seen_lease(*rest),
        )
    return int(rest[0])


def _seen_lease(
    address: str, _remaining_ms: str, _state_version: str, epoch: str, ends_ms: str, version: str
) -> SeenLease:
    try:
        known = codec.decode_data_version("", version.encode())
    except CorruptData:  # none, or nobody's
        return SeenLease(int(epoch), address, int(ends_ms))
    order = (known.state_version, known.counter, known.timestamp)
    return SeenLease(int(epoch), address, int(ends_ms), order)


def read_table(
    write: Write, known: Mapping[str, TopicConfig] = _NOTHING
) -> Plan[tuple[str, dict[str, bytes]]]:
    """Return the name of the stored table, read before any of its pages, and the table.

    Names that are in `known` are the objects there: 10,000 are a megabyte, which would leave holes.
    """
    key = write.keys.broker_topics(write.broker.broker_name)
    tokens: list[bytes | None] = []
    stored: dict[str, bytes] = {}
    shapes: dict[bytes, bytes] = {}  # one object for all topics of a shape
    cursor: int = 0
    while True:
        token, page = yield Reads(
            (("HGET", write.broker_key, "token"), ("HSCAN", key, cursor, "COUNT", _SCAN_COUNT))
        )
        cursor, fields = checked(key, page)
        tokens.append(checked(write.broker_key, token))
        for name, value in fields.items():
            # A name that is no UTF-8 came from somebody else: it is no topic, and cannot be removed as one.
            if codec.is_text(name):
                topic = name.decode()
                ours = known.get(topic)
                stored[topic if ours is None else ours.topic_name] = shapes.setdefault(value, value)
        if cursor == 0:
            return _token(write.broker_key, tokens[0]), stored


def routed(write: Write, stored: Mapping[str, bytes]) -> Plan[dict[str, bytes]]:
    """Return the stored topics that are listed and whose index has our row; the others are written again."""
    broker, entries, found = write.broker.broker_name.encode(), iter(stored.items()), dict[str, bytes]()
    while part := [*islice(entries, _SCAN_COUNT)]:
        indexes = yield from mget([write.keys.topic(topic) for topic, _ in part])
        (listed,) = yield Reads((("SISMEMBER", write.keys.topics, part[0][0]),))
        if unless_foreign(write.keys.topics, listed) == 0:  # the list was lost, and with it all of these
            continue
        found.update(
            (topic, config)
            for (topic, config), index in zip(part, indexes, strict=True)
            if index is not None and codec.encode_row(broker, config) in index.split(b"\n")
        )
    return found


def _token(key: str, value: bytes | None) -> str:
    token = (value or b"").decode(errors="replace")
    if not _TOKEN.fullmatch(token):
        raise CorruptData(key, f"has the table token {token[:80]!r}; remove the field `token`")
    return token


def put(
    write: Write,
    registration: Registration,
    difference: Difference,
    *,
    lost_token: str = "",
    seniors: Sequence[str] = (),
) -> Plan[Put]:
    """Write a difference in chunks, onto the table that the registration names; raise StaleEpoch.

    `seniors` are the leases of the replicas that have more say over the table than this one.
    """
    token, corrupt = registration.table_token, set[str]()
    chunks = difference.chunks(write.config.chunk_topics)
    if not token:  # a table without one could be lost unnoticed: at least an empty chunk brings one
        chunks = chain([next(chunks, Difference())], chunks)
    for chunk in chunks:
        next_token = following_token(registration.epoch, token, lost_token)
        call = _put_call(write, registration.epoch, (token, next_token), chunk, seniors)
        status, *rest = yield from script_reply(call, corrupt)
        if status == "fenced":
            raise fenced(write.broker, registration.epoch, rest[0])
        if status != "ok":
            return Put("junior" if status == "junior" else "moved", token)
        token = next_token
        corrupt.update(rest)
    return Put("ok", token, tuple(sorted(corrupt)))


def following_token(epoch: int, *used: str) -> str:
    """Return a name, `<epoch>.<n>`, after those used, also after one that the store has forgotten.

    It counts on over all owners: one that comes back after another must not give out a name of before.
    """
    counts = [int(token.partition(".")[2]) for token in used if token]
    return f"{epoch}.{max(counts, default=0) + 1}"


def _put_call(
    write: Write, epoch: int, tokens: tuple[str, str], part: Difference, seniors: Sequence[str]
) -> Call:
    # A broker has few shapes of topics: each is sent, parsed and made a row once for all its topics.
    shapes: dict[bytes, list[str]] = {}
    for topic, item in (*part.added.items(), *part.changed.items()):
        shapes.setdefault(codec.encode_config(item), []).append(topic)
    named = Names(tuple(part.added), tuple(part.changed), tuple(part.removed))
    return put_call(write, epoch, tokens, named, shapes, seniors)


def put_call(
    write: Write,
    epoch: int,
    tokens: tuple[str, str],
    named: Names,
    shapes: Mapping[bytes, Sequence[str]],
    seniors: Sequence[str],
) -> Call:
    """Return the call that writes one chunk: `shapes` has the topics added and changed by configuration."""
    keys, broker, config = write.keys, write.broker, write.config
    name = broker.broker_name
    record = Change(
        kind=ChangeKind.TOPICS,
        broker_name=name,
        broker_id=broker.broker_id,
        epoch=epoch,
        added=named.added,
        changed=named.changed,
        removed=named.removed,
    )
    if named.removed:
        shapes = {**shapes, b"": named.removed}
    prefix = keys.topic("")
    index_keys = [prefix + topic for same in shapes.values() for topic in same]
    return Call(
        scripts.PUT_TOPICS,
        (write.broker_key, keys.broker_topics(name), keys.topics, keys.changes, *seniors, *index_keys),
        (
            broker.broker_id,
            epoch,
            *tokens,
            name,
            codec.encode_change(record),
            config.feed_bounds,
            len(prefix),
            len(seniors),
            *(argument for shape, same in shapes.items() for argument in (shape, len(same))),
        ),
    )


def activate(
    write: Write, registration: Registration, former_ids: Sequence[int], *, is_new: bool
) -> Plan[Registration | None]:
    """Give the replica its lease; None when the group is not as it was when the registration looked at it.

    What the same address was under `former_ids` ends in the same step. Raises StaleEpoch, also for a replica
    that is not new, had lost its lease, and whose address has been registered under another id meanwhile.
    """
    broker = write.broker
    former = [write.lease_key(broker_id) for broker_id in former_ids]
    call = Call(
        scripts.ACTIVATE,
        (
            write.broker_key,
            write.lease_key(broker.broker_id),
            write.keys.deadlines,
            write.keys.changes,
            write.lease_key(MASTER_ID),
            write.keys.brokers,
            write.keys.topics,
            write.keys.schema,
            *former,
        ),
        _activate_arguments(write, registration, former_ids),
    )
    corrupt = {*registration.corrupt_keys}
    status, *rest = yield from script_reply(call, corrupt)
    if status == "fenced":
        raise fenced(broker, registration.epoch, rest[0])
    if status == "elsewhere" and not is_new:
        raise fenced(broker, registration.epoch, rest[1])
    if status in ("moved", "elsewhere"):
        return None
    registration = replace(registration, corrupt_keys=tuple(sorted(corrupt)))
    return registration if broker.broker_id == MASTER_ID else _with_master(write, registration, *rest)


def _activate_arguments(
    write: Write, registration: Registration, former_ids: Sequence[int]
) -> tuple[str | int | bytes, ...]:
    broker, keys, config = write.broker, write.keys, write.config
    name, epoch = broker.broker_name, registration.epoch
    record = Change(
        kind=ChangeKind.UP,
        broker_name=name,
        broker_id=broker.broker_id,
        epoch=epoch,
        cluster=broker.cluster,
        address=broker.address,
        lease_ttl_ms=lease_ttl_ms(config, broker),
    )
    ends: list[str | int | bytes] = []
    for former_id in former_ids:
        reason = f"has id {broker.broker_id} now"
        end = replace(
            record,
            kind=ChangeKind.DOWN,
            broker_id=former_id,
            address="",
            reason=reason,
            lease_ttl_ms=None,
        )
        ends += (former_id, keys.lease_member(name, former_id), codec.encode_change(end))
    return (
        broker.broker_id,
        epoch,
        registration.table_token,
        codec.encode_lease(epoch, broker.address),
        lease_ttl_ms(config, broker),
        keys.lease_member(name, broker.broker_id),
        codec.encode_member(broker),
        broker.cluster,
        codec.encode_data_version(write.version) if write.version != NO_VERSION else "",
        codec.encode_change(record),
        config.feed_bounds,
        broker.address,
        name,
        *ends,
    )


def _with_master(write: Write, registration: Registration, lease: str, member: str) -> Registration:
    """Add what a slave is told of its master, if that one is alive (RocketMQ: RegisterBrokerResult)."""
    found = codec.decode_lease(lease.encode())
    if found is None:
        return registration
    _, address = found
    name, cluster = write.broker.broker_name, write.broker.cluster
    try:
        master = codec.decode_broker(write.broker_key, name, MASTER_ID, cluster, member.encode())
    except CorruptData:  # somebody wrote into the group: the address stands in the lease
        return replace(registration, master_address=address)
    return replace(registration, master_address=address, master_ha_address=master.ha_address)
