"""A broker's own table of topics: differences of tables, reading and writing."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, Literal, cast

from .. import codec, scripts
from ..config import RegistryConfig
from ..errors import CorruptData, InvalidInput, StaleEpoch
from ..keys import Keys
from ..model import MASTER_ID, Broker, Change, ChangeKind, DataVersion, TopicConfig
from .base import Call, Kept, Plan, Reads, Reply, read, read_all, read_reply, unless_foreign
from .routes import mget

_SCAN_COUNT: Final = 500
"""Topics that are read at once: more would leave holes in the memory of the process."""

_MAX_PART_BYTES: Final = 262_144
"""Of long configurations in one script call: they keep Redis busy no longer than many plain topics."""

TOPICS_AT_ONCE: Final = 1_200
"""In one round trip, which then takes little memory."""

FRONTS_AT_ONCE: Final = 12_000
"""The same for a front: the store works on the first topics while the last are sent.

It ends before its deadline even if a thousand brokers have each of the topics: a call takes 50 ms then.
"""

_LOOKED_FOR: Final = 4
"""Topics at once, drawn at random, in the list of all topics: others may have listed some of them again."""

_FEWEST_TOPICS: Final = 300
"""That one call counts for: it has a record, too."""

_NOTHING: Final[Mapping[str, TopicConfig]] = MappingProxyType({})
TOKEN: Final = re.compile(r"[0-9]{1,16}\.[0-9]{1,18}(\.[0-9a-f]{8})?")
"""The name of a state of a table: epoch, count, and a checksum of what led to it (see put_chunks)."""
NO_VERSION: Final = DataVersion()


@dataclass(frozen=True, slots=True)
class TableDifference:
    """Topics to write, with their encoded configurations, and topics to remove."""

    added: Mapping[str, bytes] = field(default_factory=dict)
    changed: Mapping[str, bytes] = field(default_factory=dict)
    """Also topics whose row is missing in the route index."""

    removed: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.changed) + len(self.removed)

    def chunks(self, size: int) -> Iterator[TableDifference]:
        """Yield parts of at most `size` topics each, and of not much more than 256 KiB besides names.

        Each is made when it is needed: all at once would leave holes in the memory of the process.
        """
        added, changed, removed = iter(self.added.items()), iter(self.changed.items()), iter(self.removed)
        start = 0
        for end in self._ends(size):
            some_added = dict(islice(added, end - start))
            some_changed = dict(islice(changed, end - start - len(some_added)))
            some_removed = [*islice(removed, end - start - len(some_added) - len(some_changed))]
            yield TableDifference(some_added, some_changed, some_removed)
            start = end

    def _ends(self, size: int) -> Iterator[int]:
        """Yield where the parts end, counted over what is added, changed and removed."""
        start, weight, total = 0, 0, len(self)
        for end, config in enumerate(chain(self.added.values(), self.changed.values()), 1):
            weight += len(config)
            if end - start == size or weight >= _MAX_PART_BYTES:
                yield end
                start, weight = end, 0
        yield from range(start + size, total, size)
        if total > start:
            yield total


def check_entry(name: str, config: TopicConfig) -> None:
    """Raise InvalidInput when a topic stands in a table under another name than its own."""
    if name != config.topic_name:
        raise InvalidInput(f"the table holds topic {config.topic_name!r} under the name {name!r}")


# A broker has few shapes of topics, and each is kept once: copies for 10,000 would leave holes in the memory.
def difference(base: Mapping[str, TopicConfig], topics: Mapping[str, TopicConfig]) -> TableDifference:
    """Return the difference of `topics` to the table that was written before; raise InvalidInput."""
    added, changed, shapes, known = dict[str, bytes](), dict[str, bytes](), dict[bytes, bytes](), 0
    for name, config in topics.items():
        old = base.get(name)
        known += old is not None
        if old is config:  # the usual case, and far cheaper than comparing
            continue
        check_entry(name, config)
        if old != config:
            new = codec.encode_config(config)
            (added if old is None else changed)[name] = shapes.setdefault(new, new)
    removed = [name for name in base if name not in topics] if known < len(base) else []
    return TableDifference(added, changed, removed)


def difference_to_stored(
    stored: Mapping[str, bytes], served: Mapping[str, bytes], topics: Mapping[str, TopicConfig | bytes]
) -> TableDifference:
    """Return the difference of `topics`, encoded or not, to a stored table of encoded configurations.

    `served`: those of it that are listed and have their row; the others are written again, or removed.
    """
    if not stored and {*map(type, topics.values())} == {bytes}:
        return TableDifference(cast(Mapping[str, bytes], topics))
    added, changed, shapes = dict[str, bytes](), dict[str, bytes](), dict[bytes, bytes]()
    for name, config in topics.items():
        old, new = served.get(name), config if isinstance(config, bytes) else codec.encode_config(config)
        if old != new:
            (added if old is None else changed)[name] = shapes.setdefault(new, new)
    return TableDifference(added, changed, [name for name in stored if name not in topics])


@dataclass(frozen=True, slots=True)
class Write:
    """A replica that is written: what every step of a registration, and of its end, needs."""

    config: RegistryConfig
    keys: Keys
    broker: Broker
    version: DataVersion = NO_VERSION
    says_version: bool = False
    """Whether a version that is all zeros is what the broker says, and not one that nobody knows."""

    topics_at_once: int = TOPICS_AT_ONCE
    """In one round trip."""

    @classmethod
    def of(cls, config: RegistryConfig, broker: Broker) -> Write:
        """Return what writes a replica into the registry of these settings."""
        return cls(config, Keys(config.namespace), broker)

    @property
    def is_master(self) -> bool:
        """Whether the table of the group is this replica's own."""
        return self.broker.broker_id == MASTER_ID

    @property
    def broker_key(self) -> str:
        """The key of the broker's group."""
        return self.keys.broker(self.broker.broker_name)

    @property
    def table_key(self) -> str:
        """The key of the broker's table."""
        return self.keys.broker_topics(self.broker.broker_name)

    def lease_key(self, broker_id: int) -> str:
        """Return the key of the lease of a replica of the group."""
        return self.keys.lease(self.broker.broker_name, broker_id)

    @property
    def lease_keys(self) -> tuple[str, str, str, str]:
        """What every script about its lease needs first: group, lease, deadlines and changes."""
        return self.broker_key, self.lease_key(self.broker.broker_id), self.keys.deadlines, self.keys.changes

    @property
    def lease_member(self) -> str:
        """What stands for its lease among the deadlines."""
        return self.keys.lease_member(self.broker.broker_name, self.broker.broker_id)

    def record(self, kind: ChangeKind, epoch: int, **more: Any) -> bytes:
        """Return the encoded change that tells followers of it; `more` are other fields of Change."""
        of, signed = self.broker, self.config.signature
        return codec.encode_change(
            Change(
                kind=kind, broker_name=of.broker_name, broker_id=of.broker_id, epoch=epoch, **signed, **more
            )
        )


def fenced(broker: Broker, epoch: int, current: str) -> StaleEpoch:
    """Return the error of an owner whose epoch is not the current one."""
    known = codec.number(current) or 0  # garbage: whoever claims the broker is told
    return StaleEpoch(broker.broker_name, broker.broker_id, epoch, known)


def read_table(
    write: Write, known: Mapping[str, TopicConfig | bytes] = _NOTHING
) -> Plan[tuple[str, dict[str, bytes]]]:
    """Return the name of the stored table, read before any of its pages, and the table.

    Names in `known` are reused, as shapes are in a difference.
    """
    key = write.table_key
    tokens: list[bytes | None] = []
    stored: dict[str, bytes] = {}
    shapes: dict[bytes, bytes] = {}  # one object for all topics of a shape
    cursor: int = 0
    while True:
        token, page = yield from read_all(
            (("HGET", write.broker_key, "token"), ("HSCAN", key, cursor, "COUNT", _SCAN_COUNT))
        )
        cursor, fields = page
        tokens.append(token)
        for name, value in fields.items():
            # A name that is no UTF-8 came from somebody else: it is no topic, and cannot be removed as one.
            if codec.is_text(name):
                topic = name.decode()
                ours = known.get(topic)
                stored[ours.topic_name if isinstance(ours, TopicConfig) else topic] = shapes.setdefault(
                    value, value
                )
        if cursor == 0:
            return _token(write.broker_key, tokens[0]), stored


def read_topics(
    write: Write, topics: Mapping[str, TopicConfig | bytes]
) -> Plan[tuple[str, dict[str, bytes]]]:
    """Return the name of the stored table, read before its topics, and what it has of the given ones."""
    key, stored = write.table_key, dict[str, bytes]()
    token = yield from read("HGET", write.broker_key, "token")
    names = iter(topics)
    while part := [*islice(names, _SCAN_COUNT)]:
        found = zip(part, (yield from read("HMGET", key, *part)), strict=True)
        stored.update((name, value) for name, value in found if value is not None)
    return _token(write.broker_key, token), stored


def looked_for(keys: Keys, topics: Collection[str], corrupt_keys: Collection[str] = ()) -> list[str]:
    """Return a few topics of a table that must be listed as long as the table is its owner's."""
    some = random.sample([*topics], min(_LOOKED_FOR, len(topics)))
    return [name for name in some if keys.topic(name) not in corrupt_keys]


def routed(write: Write, stored: Mapping[str, bytes]) -> Plan[dict[str, bytes]]:
    """Return the stored topics that are listed and have their row; the others must be written again."""
    broker, entries, found = write.broker.broker_name.encode(), iter(stored.items()), dict[str, bytes]()
    while part := [*islice(entries, _SCAN_COUNT)]:
        indexes = yield from mget([write.keys.topic(topic) for topic, _ in part])
        some = looked_for(write.keys, [topic for topic, _ in part])
        listed = yield Reads([("SISMEMBER", write.keys.topics, topic) for topic in some])
        # The list was lost, and with it all of these that nobody else has.
        if any(unless_foreign(write.keys.topics, reply) == 0 for reply in listed):
            continue
        found.update(
            (topic, config)
            for (topic, config), index in zip(part, indexes, strict=True)
            if index is not None and codec.encode_row(broker, config) in index.split(b"\n")
        )
    return found


def _token(key: str, value: bytes | None) -> str:
    token = (value or b"").decode(errors="replace")
    if token and not TOKEN.fullmatch(token):
        raise CorruptData(key, f"has the table token {token[:80]!r}; remove the field `token`")
    return token


@dataclass(frozen=True, slots=True)
class Put:
    """How far the writing of a difference came."""

    status: Literal["ok", "moved", "junior"]
    """moved: the store holds another table than expected. junior: a replica with more say is alive."""

    token: str
    corrupt_keys: tuple[str, ...] = ()
    """Route index keys of another type: their topics were not written."""

    then: tuple[Call, Reply] | None = None
    """The call that was sent behind the last chunk, and what was answered."""


def put(
    write: Write,
    epoch: int,
    token: str,
    difference: TableDifference,
    *,
    lost_token: str = "",
    seniors: Sequence[str] = (),
    then: Callable[[str], Call] | None = None,
) -> Plan[Put]:
    """Write a difference in chunks onto the table that `token` names; raise StaleEpoch.

    `seniors` are the leases of the replicas that have more say over the table than this one. `then`: makes
    of the token that the last chunk leaves a call that is sent behind it, and does nothing at another token.
    """
    size = write.config.chunk_topics
    at_once = max(1, write.topics_at_once // max(size, _FEWEST_TOPICS))
    done, chunks = Put("ok", token), chunks_onto(token, difference, size)
    chunk = next(chunks, None)

    def behind(token: str) -> Call | None:
        nonlocal chunk
        chunk = next(chunks, None)
        return then(token) if then and chunk is None else None

    while done.status == "ok" and chunk is not None:
        some = chain([chunk], islice(chunks, at_once - 1))
        done = yield from put_chunks(write, epoch, done, some, seniors, lost_token=lost_token, then=behind)
    return done


def chunks_onto(token: str, difference: TableDifference, size: int) -> Iterator[TableDifference]:
    """Return the chunks to write: at least one for a table without a token, which could be lost unnoticed."""
    chunks = difference.chunks(size)
    return chunks if token else chain([next(chunks, TableDifference())], chunks)


def put_chunks(
    write: Write,
    epoch: int,
    done: Put,
    chunks: Iterable[TableDifference],
    seniors: Sequence[str],
    *,
    lost_token: str = "",
    then: Callable[[str], Call | None] = lambda _: None,
) -> Plan[Put]:
    """Write the next chunks in one round trip, after those that are done; raise StaleEpoch.

    The call of a chunk is made while the store works on those before it.

    Each expects the token that the one before it leaves, so that none is written after one that was not.
    A token has a checksum of what led to it: others may write under the same epoch onto the same table
    (another front, or a registration in an older state), and what follows their chunk must not follow ours.
    `then`: see put; None = nothing is sent behind them.
    """
    puts, behind = list[tuple[Call, str]](), list[Call]()

    def calls() -> Iterator[Call]:
        token = done.token
        for chunk in chunks:
            call, token = _put_call(write, epoch, token, lost_token, chunk, seniors)
            puts.append((call, token))
            yield call
        behind.extend(filter(None, [then(token)]))
        yield from behind

    made = calls()
    replies = yield replace(next(made), following=Kept(made))
    for (call, token), reply in zip(puts, replies[: len(puts)], strict=True):
        corrupt = {*done.corrupt_keys}
        status, *rest = read_reply(call, reply, corrupt)
        if status == "fenced":
            raise fenced(write.broker, epoch, rest[0])
        if status != "ok":
            return Put("junior" if status == "junior" else "moved", done.token)
        done = Put("ok", token, tuple(sorted({*corrupt, *rest})))
    return replace(done, then=(behind[0], replies[-1])) if behind else done


def _following_token(epoch: int, checksum: int, *used: str) -> str:
    """Return a name that follows those used, also one that the store has forgotten.

    It counts on over all owners: an owner that comes back must not give out an earlier name.
    """
    counts = [int(token.split(".")[1]) for token in used if token]
    return f"{epoch}.{max(counts, default=0) + 1}.{checksum:08x}"


def _put_call(
    write: Write, epoch: int, expected: str, lost_token: str, chunk: TableDifference, seniors: Sequence[str]
) -> tuple[Call, str]:
    """Return the call that writes a chunk onto the table named `expected`, and the token that it leaves."""
    keys = write.keys
    topics = {"added": (*chunk.added,), "changed": (*chunk.changed,), "removed": (*chunk.removed,)}
    # A broker has few shapes of topics: each is sent, parsed and made a row once for all its topics.
    shapes: dict[bytes, list[str]] = {}
    for topic, config in chain(chunk.added.items(), chunk.changed.items()):
        shapes.setdefault(config, []).append(topic)
    if chunk.removed:
        shapes[b""] = [*chunk.removed]
    prefix = keys.topic("")
    index_keys = [prefix + topic for same in shapes.values() for topic in same]
    counted = [item for shape, same in shapes.items() for item in (shape, len(same))]
    checksum = zlib.crc32(repr(counted).encode(), zlib.crc32(" ".join((expected, *index_keys)).encode()))
    token = _following_token(epoch, checksum, expected, lost_token)
    call = Call(
        scripts.PUT_TOPICS,
        (write.broker_key, write.table_key, keys.topics, keys.changes, *seniors, *index_keys),
        (
            write.broker.broker_id,
            epoch,
            expected,
            token,
            write.broker.broker_name,
            write.record(ChangeKind.TOPICS, epoch, **topics),
            write.config.feed_bounds,
            len(prefix),
            len(seniors),
            *counted,
        ),
    )
    return call, token
