"""Bulk load: a broker's table is written by somebody else, from Spark or an export, or is forgotten."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from .. import codec, scripts
from ..checks import check_broker_name
from ..config import RegistryConfig
from ..errors import BrokerOwned, NotFound, StaleEpoch, StoreUnavailable
from ..keys import Keys
from ..model import FORGOTTEN, MASTER_ID, Broker, ChangeKind
from .base import (
    Batch,
    Call,
    Page,
    Plan,
    Progress,
    Reads,
    Reply,
    Stream,
    check_schema,
    checked,
    read_all,
    script_reply,
)
from .leases import ANYBODY, SUCCESSOR, claim
from .listings import owner
from .operators import set_write_perm
from .repair.checks import field_problem, mend_field
from .routes import mget
from .table import Put, TableDifference, Write, chunks_onto, fenced, put, put_chunks, read_table, routed

NOBODY: Final = "nobody.invalid:1"
"""The address of a writer that is not the broker (RFC 2606: no host has this name)."""

_TRIES: Final = 10
_AT_ONCE: Final = 500
_ADVICE: Final = "wait until it is unregistered or its lease ends"

T = TypeVar("T")

_Steps: TypeAlias = Generator[Batch | Page["Loaded"], list[Reply], T]

Live: TypeAlias = tuple[int, str, int]
"""A replica with a lease: its id, its address, and milliseconds until the lease ends."""


class Unsettled(StoreUnavailable):
    """A broker changes faster than its table can be written."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted table of a broker."""

    broker_name: str
    topics: Mapping[str, bytes] = field(repr=False)
    """Topics to their encoded configurations."""

    cluster: str = ""
    """Empty = as it is."""

    new_cluster: str = "DefaultCluster"
    """The cluster of a broker that has none, if `cluster` is empty; empty = it stays without one."""

    only_these: bool = False
    """Whether topics that are not among `topics` are removed."""

    with_mappings: bool = False
    """Whether `topics` have their queue mappings; else those of the stored table stay."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of the group: data versions of replicas, and `wiped`, where empty = not. The others stay."""


def difference_of(stored: Mapping[str, bytes], served: Collection[str], wanted: Wanted) -> TableDifference:
    """Return the difference of the wanted table to the stored one; `served` are the topics with their row.

    Unless it is wanted otherwise, the queue mapping of a static topic stays: only the broker knows it.
    """
    removed = sorted(stored.keys() - wanted.topics.keys()) if wanted.only_these else ()
    if not stored:
        return TableDifference(wanted.topics)
    added: dict[str, bytes] = {}
    changed: dict[str, bytes] = {}
    for topic, config in wanted.topics.items():
        old = stored.get(topic)
        if old is None:
            added[topic] = config
            continue
        new = config
        if not wanted.with_mappings:
            _, tab, mapping = old.partition(b"\t")
            new = config + tab + mapping
        if new != old or topic not in served:
            changed[topic] = new
    return TableDifference(added, changed, removed)


@dataclass(frozen=True, slots=True)
class Known:
    """What the store knows of a broker, alive or not."""

    group: Mapping[bytes, bytes] = field(repr=False)
    exists: bool
    ids: tuple[int, ...]
    """Of all replicas that it ever had."""

    live: Sequence[Live]
    cluster: str
    """As its group names it; empty = it does not."""

    listed_cluster: str
    """As the index of brokers names it."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the store holds of a broker, and what is to be written."""

    wanted: Wanted
    difference: TableDifference
    stored: Mapping[str, bytes] = field(repr=False)
    token: str
    known: Known
    wanted_cluster: str
    fields: Mapping[str, tuple[bytes, bytes]]
    """The fields of the group to be written: old and new values."""

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return len(self.difference) > 0 or bool(self.fields) or not self.known.ids

    def refusal(self, *, touch_live: bool = False, advice: str = _ADVICE) -> BrokerOwned | None:
        """Return why it must not be written; None = it may be, or there is nothing to write."""
        if not self.known.live or not self.changes:
            return None
        if touch_live and self.known.cluster != self.wanted_cluster:
            advice = f"it says that its cluster is {self.known.cluster!r}: a load cannot say otherwise"
        elif touch_live:
            return None
        return BrokerOwned(self.wanted.broker_name, *self.known.live[0], advice=advice)


def look(config: RegistryConfig, wanted: Wanted) -> Plan[Look]:
    """Compare a broker's table with the wanted one."""
    keys = Keys(config.namespace)
    known = yield from _known(keys, wanted.broker_name)
    cluster = wanted.cluster or known.cluster or (wanted.new_cluster and known.listed_cluster)
    cluster = cluster or wanted.new_cluster
    fields = {**wanted.fields, **({"cluster": cluster} if cluster != known.cluster else {})}
    both = {part: (known.group.get(part.encode(), b""), value.encode()) for part, value in fields.items()}
    to_write = {part: values for part, values in both.items() if values[0] != values[1]}
    write = Write(config, keys, Broker(wanted.broker_name, NOBODY))
    token, stored = yield from read_table(write)
    served = yield from routed(write, {t: stored[t] for t in stored.keys() & wanted.topics.keys()})
    difference = difference_of(stored, served.keys(), wanted)
    return Look(wanted, difference, stored, token, known, cluster, to_write)


def _known(keys: Keys, broker_name: str) -> Plan[Known]:
    group_key, table_key = keys.broker(broker_name), keys.broker_topics(broker_name)
    group, has_table, listed = yield from read_all(
        (("HGETALL", group_key), ("EXISTS", table_key), ("HGET", keys.brokers, broker_name))
    )
    exists = bool(group or has_table or listed is not None)
    ids = codec.replica_ids(group)
    live = yield from _live_replicas(keys, broker_name, ids)
    names = (group.get(b"cluster", b""), listed or b"")
    readable = ["" if field_problem(broker_name, b"cluster", raw) else raw.decode() for raw in names]
    return Known(group, exists, ids, live, *readable)


def _live_replicas(keys: Keys, broker_name: str, ids: Sequence[int]) -> Plan[list[Live]]:
    """Return those replicas that have a lease."""
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


def live_brokers(keys: Keys, names: Sequence[str]) -> Plan[tuple[str, ...]]:
    """Return those of some brokers that are alive."""
    found: dict[str, None] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        replies = yield Reads([("HKEYS", keys.broker(name)) for name in some])
        replicas = [
            (name, broker_id)
            for name, reply in zip(some, replies, strict=True)
            for broker_id in codec.replica_ids(checked(keys.broker(name), reply))
        ]
        leases = yield from mget([keys.lease(*replica) for replica in replicas])
        found |= {name: None for (name, _), lease in zip(replicas, leases, strict=True) if lease is not None}
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was written of a broker."""

    look: Look
    corrupt_keys: tuple[str, ...] = ()
    """Route index keys that hold foreign data: their topics were not written."""

    @property
    def problem(self) -> str:
        """Why some topics were not written; empty = all were."""
        return (
            f"{', '.join(self.corrupt_keys)}: holds another type; move it away" if self.corrupt_keys else ""
        )


def load_table(
    config: RegistryConfig,
    wanted: Wanted,
    *,
    touch_live: bool = False,
    fence_live: bool = False,
    dry_run: bool = False,
    advice: str = _ADVICE,
) -> Stream[Loaded]:
    """Make a broker's table the wanted one; yield a page after each chunk, the last one with what was done.

    The broker gets no lease: it stays hidden until its agent registers, which writes only the difference.
    A live broker is refused with the advice, unless
    `touch_live`: its table is written in its owner's name. The owner is not fenced and notices with the next
    heartbeat; where the broker itself differs, its agent restores the broker's own topics.
    `fence_live`: all owners are fenced; their routes are served until their leases end.
    `dry_run`: only the look is done, and said. Raises BrokerOwned, NewerSchema, Unsettled.
    """
    for _ in range(_TRIES):
        found = yield from look(config, wanted)
        refusal = None if fence_live else found.refusal(touch_live=touch_live, advice=advice)
        if refusal is not None:
            raise refusal
        if dry_run or not found.changes:
            yield Page((Loaded(found),), Progress(0, 0))
            return
        try:
            done = yield from _write(config, found, in_owners_name=bool(found.known.live) and not fence_live)
        except StaleEpoch:  # somebody registers at this moment
            continue
        if done is not None:
            total = len(found.difference)
            yield Page((done,), Progress(total, total))
            return
    key = Keys(config.namespace).broker(wanted.broker_name)
    raise Unsettled(f"{key}: changes faster than it can be written; try again")


def _write(config: RegistryConfig, found: Look, *, in_owners_name: bool) -> _Steps[Loaded | None]:
    """Write what differs, a page after each chunk; None when the broker has changed since the look."""
    prepared = yield from (_as_owner if in_owners_name else _as_nobody)(config, found)
    if prepared is None:
        return None
    write, epoch, seniors = prepared
    done, written = Put("ok", found.token), 0
    for chunk in chunks_onto(found.token, found.difference, config.chunk_topics):
        done = yield from put_chunks(write, epoch, done, [chunk], seniors)
        if done.status != "ok":  # junior: a replica has come since we looked
            return None
        written += len(chunk)
        yield Page((), Progress(written, len(found.difference)))
    for name, (old, new) in found.fields.items():
        if name == "wiped":
            yield from set_write_perm(config, write.broker.broker_name, writable=not new)
        else:
            seen = (b"", MASTER_ID, b"%d" % epoch)  # what a new owner has changed stays
            field_call = mend_field(config, write.broker.broker_name, name.encode(), old, new, seen=seen)
            yield from script_reply(field_call)
    return Loaded(found, done.corrupt_keys)


_Prepared: TypeAlias = tuple[Write, int, list[str]]
"""What a table is written with: its epoch, and the leases of the replicas that have more say."""


def _as_owner(config: RegistryConfig, found: Look) -> Plan[_Prepared | None]:
    """Take the owner's epoch; None when the owner has gone."""
    keys = Keys(config.namespace)
    held = yield from owner(keys, found.wanted.broker_name, found.known.live[0][0])
    if held is None:
        return None
    write, own_id = Write(config, keys, held.broker), held.broker.broker_id
    lower = {of for of in (MASTER_ID, *found.known.ids) if of < own_id}
    return write, held.epoch, [write.lease_key(of) for of in sorted(lower)]


def _as_nobody(config: RegistryConfig, found: Look) -> Plan[_Prepared]:
    """Claim the broker, which fences all owners; replicas that come meanwhile have more say."""
    keys, name = Keys(config.namespace), found.wanted.broker_name
    live_ids = [of for of, *_ in found.known.live]
    cluster = found.wanted_cluster or "unknown"
    take_over = ANYBODY if live_ids else SUCCESSOR
    for broker_id in live_ids:
        if broker_id != MASTER_ID:
            yield from claim(Write(config, keys, Broker(name, NOBODY, broker_id, cluster)), take_over)
    write = Write(config, keys, Broker(name, NOBODY, cluster=cluster))
    epoch = yield from claim(write, take_over, _ADVICE)
    known = yield from _known(keys, name)  # again: a slave may have come until the claim
    return write, epoch, [write.lease_key(of) for of in known.ids if of not in live_ids]


def forget(config: RegistryConfig, broker_name: str) -> Plan[int]:
    """Remove a broker that will not come back, with its topics; return how many topics it had.

    Its routes go first, in chunks, its group last: after a crash between them, forget it again. An owner that
    was thought dead is fenced. RocketMQ forgets a broker as soon as it is silent.
    Rows of topics that the broker's own table does not have stay, as only a look at all topics would find
    them: `rebuild` removes them.
    Raises NotFound, BrokerOwned while a replica is alive, StaleEpoch when it registers meanwhile,
    InvalidInput, NewerSchema; after CorruptData, `rebuild` mends most of it.
    """
    check_broker_name(broker_name)
    keys = Keys(config.namespace)
    yield from check_schema(keys)
    topics = 0
    for _ in range(_TRIES):
        known = yield from _known(keys, broker_name)
        if not known.exists:
            raise NotFound(f"{broker_name}: no broker of this name was ever registered")
        if known.live:
            raise BrokerOwned(broker_name, *known.live[0], advice=_ADVICE)
        ids = tuple(sorted({*known.ids, MASTER_ID}))
        cluster = known.cluster or known.listed_cluster or "unknown"
        write = Write(config, keys, Broker(broker_name, NOBODY, cluster=cluster))
        epoch = yield from claim(write, SUCCESSOR, _ADVICE)
        token, stored = yield from read_table(write)
        topics = max(topics, len(stored))
        leases = [write.lease_key(broker_id) for broker_id in ids]
        gone = TableDifference(removed=sorted(stored))
        done = yield from put(write, epoch, token, gone, seniors=leases)
        if done.status == "ok" and (yield from _remove_group(write, epoch, done.token, ids)):
            return topics
    raise Unsettled(f"{keys.broker(broker_name)}: changes faster than it can be forgotten; try again")


def _remove_group(write: Write, epoch: int, token: str, ids: tuple[int, ...]) -> Plan[bool]:
    """Remove the group and what is left of the table; False when the group has changed."""
    keys, name = write.keys, write.broker.broker_name
    record = write.record(ChangeKind.DOWN, epoch, reason=FORGOTTEN)
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
        (name, epoch, token, record, write.config.feed_bounds, *members),
    )
    status, *rest = yield from script_reply(call)
    if status == "fenced":
        raise fenced(write.broker, epoch, rest[0])
    return bool(status == "ok")
