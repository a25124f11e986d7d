"""Bulk load: making the tables of many brokers what somebody wants them to be, in nobody's name."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from .. import codec, scripts
from ..config import RegistryConfig
from ..differences import Progress
from ..errors import BrokerOwned, StaleEpoch, StoreUnavailable
from ..keys import Keys
from ..model import MASTER_ID, Broker
from .base import Batch, Call, Plan, Reads, Reply, checked, script_reply
from .forgetting import NOBODY, live_replicas, replica_ids
from .leases import fenced
from .listings import owner
from .repair.checks import field_problem
from .routes import mget
from .stream import Page, Stream
from .table import SUCCESSOR, Names, Write, claim, following_token, put_call, read_table, routed

_TRIES: Final = 10
_AT_ONCE: Final = 500
_MAX_PART_BYTES: Final = 262_144
_LONG_CONFIG: Final = 64
_ADVICE: Final = "wait until it is unregistered or its lease ends"

T = TypeVar("T")

_Steps: TypeAlias = Generator[Batch | Page["Loaded"], list[Reply], T]

Live: TypeAlias = tuple[int, str, int]
"""A replica with a lease: its id, its address, and milliseconds until the lease ends."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a broker's table is to be."""

    broker_name: str
    topics: Mapping[str, bytes] = field(repr=False)
    """Topics to their encoded configurations, without queue mappings."""

    cluster: str = ""
    """Empty = as it is."""

    new_cluster: str = "DefaultCluster"
    """The cluster of a broker that has none yet, if `cluster` is empty."""

    only_these: bool = False
    """Whether topics that are not among `topics` are removed."""


@dataclass(frozen=True, slots=True)
class TableDifference:
    """What is to be written to a table."""

    added: Mapping[str, bytes] = field(default_factory=dict)
    changed: Mapping[str, bytes] = field(default_factory=dict)
    """Those whose row is missing in the route index among them."""

    removed: Collection[str] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def chunks(self, size: int) -> Iterator[tuple[Names, dict[bytes, list[str]]]]:
        """Cut into parts of at most `size` topics, and of not much more than 256 KiB besides names.

        Each comes with the topics added and changed by configuration.
        """
        left = size
        added: list[str] = []
        changed: list[str] = []
        shapes: dict[bytes, list[str]] = {}
        weight = 0
        for written, names in ((self.added, added), (self.changed, changed)):
            for topic, config in written.items():
                names.append(topic)
                shapes.setdefault(config, []).append(topic)
                left -= 1
                weight += len(config) if len(config) > _LONG_CONFIG else 0
                if not left or weight >= _MAX_PART_BYTES:
                    yield Names(tuple(added), tuple(changed)), shapes
                    left, weight, shapes = size, 0, {}
                    added.clear()
                    changed.clear()
        removed = list(self.removed)
        first = removed[:left]
        if added or changed or first:
            yield Names(tuple(added), tuple(changed), tuple(first)), shapes
        for start in range(left, len(removed), size):
            yield Names(removed=tuple(removed[start : start + size])), {}


def difference_of(stored: Mapping[str, bytes], served: Collection[str], wanted: Wanted) -> TableDifference:
    """Return what makes of the stored table the wanted one; `served` are the topics whose row is as stored.

    The queue mapping of a static topic stays: it is the broker's, and nobody else can know it.
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
        _, tab, mapping = old.partition(b"\t")
        new = config + tab + mapping
        if new != old or topic not in served:
            changed[topic] = new
    return TableDifference(added, changed, removed)


@dataclass(frozen=True, slots=True)
class Look:
    """What stands in the store of a broker, and what is to be written."""

    wanted: Wanted
    difference: TableDifference
    stored: Mapping[str, bytes] = field(repr=False)
    token: str
    ids: tuple[int, ...]
    """Of all replicas that the broker ever had."""

    live: Sequence[Live]
    cluster: str
    """As it is stored; empty = it is not."""

    wanted_cluster: str

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return len(self.difference) > 0 or self.cluster != self.wanted_cluster

    def refusal(self, *, touch_live: bool) -> BrokerOwned | None:
        """Return why it must not be written; None = it may be, or there is nothing to write."""
        if not self.live or not self.changes:
            return None
        advice = _ADVICE if not touch_live else ""
        if touch_live and self.cluster != self.wanted_cluster:
            advice = f"it says that its cluster is {self.cluster!r}: a load cannot say otherwise"
        return BrokerOwned(self.wanted.broker_name, *self.live[0], advice=advice) if advice else None


def look(config: RegistryConfig, wanted: Wanted) -> Plan[Look]:
    """Compare a broker's table with what it is to be; raises CorruptData, StoreRefused, StoreUnavailable."""
    keys, name = Keys(config.namespace), wanted.broker_name
    ids = (yield from replica_ids(keys, name)) or ()
    live = yield from live_replicas(keys, name, ids)
    cluster, listed = yield from _clusters(keys, name)
    write = Write(config, keys, Broker(name, NOBODY))
    token, stored = yield from read_table(write)
    both = {topic: stored[topic] for topic in stored.keys() & wanted.topics.keys()}
    served = yield from routed(write, both)
    return Look(
        wanted,
        difference_of(stored, served.keys(), wanted),
        stored,
        token,
        ids,
        live,
        cluster,
        wanted.cluster or cluster or listed or wanted.new_cluster,
    )


def _clusters(keys: Keys, name: str) -> Plan[tuple[str, str]]:
    """Return the cluster that a broker's group names, and the one of the index of brokers; empty = none."""
    replies = yield Reads((("HGET", keys.broker(name), "cluster"), ("HGET", keys.brokers, name)))
    both = zip((keys.broker(name), keys.brokers), replies, strict=True)
    found = [checked(key, reply) or b"" for key, reply in both]
    group, listed = ("" if field_problem(name, b"cluster", raw) else raw.decode() for raw in found)
    return group, listed


def live_brokers(keys: Keys, names: Sequence[str]) -> Plan[tuple[str, ...]]:
    """Return those of some brokers that are alive; raises CorruptData, StoreRefused, StoreUnavailable."""
    found: dict[str, None] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        replies = yield Reads([("HKEYS", keys.broker(name)) for name in some])
        replicas = [
            (name, of[1])
            for name, reply in zip(some, replies, strict=True)
            for of in map(codec.replica_field, checked(keys.broker(name), reply))
            if of is not None
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


def load_table(config: RegistryConfig, wanted: Wanted, *, touch_live: bool = False) -> Stream[Loaded]:
    """Make a broker's table what it is to be; a page after each chunk, the last one with what was done.

    Nobody sees a broker without a lease before its agent registers. A live one is refused unless `touch_live`
    says otherwise; then it is written in its owner's name, who is not fenced and notices with the next
    heartbeat: what the broker itself has otherwise, its agent brings back.
    Raises BrokerOwned, CorruptData, NewerSchema, StoreRefused, StoreUnavailable.
    """
    for _ in range(_TRIES):
        found = yield from look(config, wanted)
        if not found.changes:
            yield Page((Loaded(found),), Progress(0, 0))
            return
        refusal = found.refusal(touch_live=touch_live)
        if refusal is not None:
            raise refusal
        try:
            done = yield from _write(config, found)
        except StaleEpoch:  # somebody registers at this moment
            continue
        if done is not None:
            total = len(found.difference)
            yield Page((done,), Progress(total, total))
            return
    key = Keys(config.namespace).broker(wanted.broker_name)
    raise StoreUnavailable(f"{key}: changes faster than it can be loaded; try again")


def _write(config: RegistryConfig, found: Look) -> _Steps[Loaded | None]:
    """Write what differs, a page after each chunk; None when the broker is not as it was looked at."""
    name = found.wanted.broker_name
    keys = Keys(config.namespace)
    if found.live:
        held = yield from owner(keys, name, found.live[0][0])
        if held is None:
            return None
        write, epoch = Write(config, keys, held.broker), held.epoch
        others = {MASTER_ID, *found.ids} - {held.broker.broker_id}
        seniors = [write.lease_key(of) for of in sorted(others) if of < held.broker.broker_id]
    else:
        write = Write(config, keys, Broker(name, NOBODY, cluster=found.wanted_cluster))
        epoch = yield from claim(write, SUCCESSOR, _ADVICE)
        seniors = [write.lease_key(of) for of in found.ids]
    if found.cluster != found.wanted_cluster and not (yield from _name_cluster(write, found, epoch)):
        return None
    token, done = found.token, 0
    corrupt: list[str] = []
    for named, shapes in found.difference.chunks(config.chunk_topics):
        following = following_token(epoch, token)
        call = put_call(write, epoch, (token, following), named, shapes, seniors)
        status, *rest = yield from script_reply(call)
        if status == "fenced":
            raise fenced(write.broker, epoch, rest[0])
        if status != "ok":
            return None
        token = following
        corrupt += rest
        done += sum(map(len, named))
        yield Page((), Progress(done, len(found.difference)))
    return Loaded(found, tuple(corrupt))


def _name_cluster(write: Write, found: Look, epoch: int) -> Plan[bool]:
    """Write the cluster of a broker without an owner; False when somebody else has."""
    keys = write.keys
    call = Call(
        scripts.MEND_FIELD,
        (write.broker_key, keys.changes, keys.schema, write.lease_key(MASTER_ID), keys.brokers),
        (
            "cluster",
            found.cluster,
            found.wanted_cluster,
            "",
            write.config.feed_bounds,
            "",
            MASTER_ID,
            epoch,
            found.wanted.broker_name,
        ),
    )
    status, *_ = yield from script_reply(call)
    return bool(status == "ok")
