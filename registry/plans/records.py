"""Export and import of a whole registry, as records: brokers with their tables, and key-value pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .. import codec
from ..checks import check_broker_name, check_name, check_text
from ..config import RegistryConfig
from ..errors import BrokerOwned, CorruptData, InvalidInput
from ..keys import Keys
from ..model import Broker, DataVersion, TopicConfig
from .base import Command, Page, Plan, Progress, Reads, Stream, advance, checked
from .load import NOBODY, Loaded, Unsettled, Wanted, load_table, look
from .operators import MAX_NAME_BYTES, MAX_VALUE_BYTES, check_schema, kv_put
from .repair.checks import field_problem
from .repair.walk import entry_counts
from .table import Write, read_table

_TRIES: Final = 10
_ADVICE: Final = "wait until it is unregistered or its lease ends, or import with --replace-live"


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """What a registry knows of a broker, alive or not."""

    broker_name: str
    cluster: str = ""
    wiped: bool = False
    versions: Mapping[int, DataVersion] = field(default_factory=dict)
    members: Mapping[int, Broker] = field(default_factory=dict)
    """The replicas; not imported: each brings this when it registers."""

    topics: Mapping[str, TopicConfig] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class KvRecord:
    """One value of the key-value store."""

    namespace: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not exported."""

    key: str
    reason: str


Record = BrokerRecord | KvRecord | Skipped


class Written(StrEnum):
    """What an import did with a record."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an import did with a broker, or would do."""

    status: Written
    topics_written: int = 0
    """Topics added, changed or removed."""

    reason: str = ""
    """Why it was refused, or which of its topics could not be written."""


def check_kv(record: KvRecord) -> None:
    """Raise InvalidInput for what cannot stand in the key-value store."""
    check_text("namespace", record.namespace, MAX_NAME_BYTES)
    check_text("key", record.key, MAX_NAME_BYTES)
    check_text("value", record.value, MAX_VALUE_BYTES, empty=True)


def export(config: RegistryConfig) -> Stream[Record]:
    """Yield all brokers by name, each with its table by topic, and all key-value pairs.

    A broker's table is of one instant, the whole is not. Brokers that are not in the index are not exported:
    `rebuild` lists them. What cannot be read is yielded as Skipped.
    Raises CorruptData when the index of brokers or of namespaces is foreign, NewerSchema, StoreRefused,
    StoreUnavailable.
    """
    keys = Keys(config.namespace)
    yield from check_schema(keys)
    (listed, named) = yield Reads((("HKEYS", keys.brokers), ("SMEMBERS", keys.namespaces)))
    checked(keys.brokers, listed)
    namespaces = sorted(checked(keys.namespaces, named))
    counts = yield from entry_counts(keys)
    done, total = 0, sum(counts.values()) + len(counts) + len(namespaces)
    for name, count in counts.items():
        found = yield from _export_broker(config, keys, name)
        done += count + 1
        yield Page(tuple(found), Progress(done, total))
    for raw in namespaces:
        done += 1
        yield from _export_namespace(keys, raw, Progress(done, total))


def _export_broker(config: RegistryConfig, keys: Keys, name: str) -> Plan[list[Record]]:
    try:
        check_broker_name(name)
        write = Write(config, keys, Broker(name, NOBODY))
        (group,) = yield Reads((("HGETALL", write.broker_key),))
        fields: Mapping[bytes, bytes] = checked(write.broker_key, group)
        _, stored = yield from _table_of_one_instant(write)
    except (CorruptData, InvalidInput) as error:
        return [Skipped(keys.broker(name), str(error))]
    if not fields and not stored:
        return []
    skipped: list[Record] = []
    topics: dict[str, TopicConfig] = {}
    table_key = keys.broker_topics(name)
    for topic, config_ in sorted(stored.items()):
        try:
            check_name("topicName", topic)
            topics[topic] = codec.decode_config(table_key, topic, config_)
        except (CorruptData, InvalidInput) as error:
            skipped.append(Skipped(table_key, str(error)))
    return [_broker_record(keys, name, fields, topics, skipped), *skipped]


def _broker_record(
    keys: Keys,
    name: str,
    fields: Mapping[bytes, bytes],
    topics: Mapping[str, TopicConfig],
    skipped: list[Record],
) -> BrokerRecord:
    key = keys.broker(name)
    members: dict[int, Broker] = {}
    versions: dict[int, DataVersion] = {}
    cluster = fields.get(b"cluster", b"").decode(errors="replace")
    for part, value in sorted(fields.items()):
        problem = field_problem(name, part, value)
        if problem is None or problem:
            skipped.append(Skipped(key, f"the field {part[:80]!r}: {problem or 'is none of the registry'}"))
            cluster = "" if part == b"cluster" else cluster
        elif part.startswith(b"version:"):
            versions[int(part.removeprefix(b"version:"))] = codec.decode_data_version(key, value)
        elif part.startswith(b"member:"):
            number = int(part.removeprefix(b"member:"))
            members[number] = codec.decode_broker(key, name, number, cluster or "unknown", value)
    wiped = fields.get(b"wiped") == b"1"
    return BrokerRecord(name, cluster, wiped, versions, members, topics)


def _table_of_one_instant(write: Write) -> Plan[tuple[str, dict[str, bytes]]]:
    """Return the token and the table; once more if it was written meanwhile, but not for ever."""
    token, stored = yield from read_table(write)
    for _ in range(_TRIES):
        (now,) = yield Reads((("HGET", write.broker_key, "token"),))
        if (checked(write.broker_key, now) or b"").decode(errors="replace") == token:
            break
        token, stored = yield from read_table(write)
    return token, stored


def _export_namespace(keys: Keys, raw: bytes, progress: Progress) -> Stream[Record]:
    key = keys.kv(raw.decode(errors="replace"))
    (reply,) = yield Reads((("HGETALL", key),))
    try:
        entries = checked(key, reply)
        found = tuple(_kv_records(key, raw, entries))
    except CorruptData as error:
        found = (Skipped(key, error.reason),)
    yield Page(found, progress)


def _kv_records(key: str, namespace: bytes, entries: Mapping[bytes, bytes]) -> Iterator[Record]:
    for name, value in sorted(entries.items()):
        try:
            record = KvRecord(namespace.decode(), name.decode(), value.decode())
            check_kv(record)
        except ValueError as error:
            yield Skipped(key, f"the key {name[:80]!r}: {error}")
        else:
            yield record


def import_broker(
    config: RegistryConfig, record: BrokerRecord, *, replace_live: bool = False, dry_run: bool = False
) -> Plan[Outcome]:
    """Make a broker's table that of the record, with its cluster, versions and wiped permission.

    A live broker is refused; with `replace_live` its owners are fenced. See load_table.
    Raises CorruptData, NewerSchema, StoreRefused, StoreUnavailable.
    """
    topics = {name: codec.encode_config(config) for name, config in record.topics.items()}
    wanted = Wanted(
        record.broker_name,
        topics,
        record.cluster,
        new_cluster="",
        only_these=True,
        with_mappings=True,
        versions=record.versions,
        wiped=record.wiped,
    )
    try:
        if dry_run:
            loaded = Loaded((yield from look(config, wanted)))
            refusal = None if replace_live else loaded.look.refusal(advice=_ADVICE)
            if refusal is not None:
                raise refusal
        else:
            loaded = yield from _last(load_table(config, wanted, fence_live=replace_live, advice=_ADVICE))
    except (BrokerOwned, Unsettled) as error:
        return Outcome(Written.REFUSED, reason=str(error))
    if not loaded.look.changes:
        return Outcome(Written.UNCHANGED)
    foreign = loaded.corrupt_keys
    reason = f"{', '.join(foreign)}: holds another type; move it away" if foreign else ""
    return Outcome(Written.WRITTEN, len(loaded.look.difference) - len(foreign), reason)


def _last(stream: Stream[Loaded]) -> Plan[Loaded]:
    """Run a load to its end; return what its last page says."""
    with closing(stream):
        while (page := (yield from advance(stream))) is not None:
            found = page.found
    return found[0]


def import_kv(config: RegistryConfig, records: Sequence[KvRecord], *, dry_run: bool = False) -> Plan[int]:
    """Set values of the key-value store; return how many were others before. Raises as plans.kv_put."""
    keys = Keys(config.namespace)
    reads: list[Command] = [("HGET", keys.kv(record.namespace), record.key) for record in records]
    replies = (yield Reads(reads)) if reads else []
    written = 0
    for record, reply in zip(records, replies, strict=True):
        if checked(keys.kv(record.namespace), reply) == record.value.encode():
            continue
        written += 1
        if not dry_run:
            yield from kv_put(config, record.namespace, record.key, record.value)
    return written
