"""Export and import of a whole registry, as records: brokers with their tables, and key-value pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from .. import codec
from ..checks import check_name, check_text
from ..config import RegistryConfig
from ..errors import BrokerOwned, CorruptData, InvalidInput
from ..keys import Keys
from ..model import Broker, DataVersion, TopicConfig
from .base import Page, Plan, Progress, Reads, Stream, advance, checked
from .bulk_load import NOBODY, Loaded, Unsettled, Wanted, load_table, look
from .operators import MAX_NAME_BYTES, MAX_VALUE_BYTES, check_schema, kv_put
from .repair.checks import field_problem
from .replicas import table_sizes
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


@dataclass(frozen=True, slots=True)
class Unit:
    """What is imported in one go: a broker with its table, some key-value pairs, or what was skipped."""

    line: int
    """The number of its first line in the export."""

    record: BrokerRecord | tuple[KvRecord, ...] | Skipped


@dataclass(slots=True)
class Counts:
    """How many of a kind an import wrote, found as they are, or refused; in a dry run: would have."""

    written: int = 0
    unchanged: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not imported, or not in full."""

    line: int
    what: str
    reason: str


@dataclass(slots=True)
class ImportSummary:
    """The result of an import."""

    brokers: Counts = field(default_factory=Counts)
    topics: Counts = field(default_factory=Counts)
    """Of the topics written some may have been removed."""

    kv: Counts = field(default_factory=Counts)
    refused: list[Refusal] = field(default_factory=list)
    """All that is not in the registry now; what the export had to skip among it."""


def check_kv(record: KvRecord) -> None:
    """Raise InvalidInput for what cannot stand in the key-value store."""
    check_text("namespace", record.namespace, MAX_NAME_BYTES)
    check_text("key", record.key, MAX_NAME_BYTES)
    check_text("value", record.value, MAX_VALUE_BYTES, empty=True)


def export(config: RegistryConfig) -> Stream[Record]:
    """Yield all brokers by name, each with its table by topic, and all key-value pairs.

    A broker's table is of one instant, the whole is not. Brokers that are not in the index are not exported:
    `rebuild` lists them. What cannot be read is yielded as Skipped. Raises NewerSchema.
    """
    keys = Keys(config.namespace)
    yield from check_schema(keys)
    (named,) = yield Reads((("SMEMBERS", keys.namespaces),))
    namespaces = sorted(checked(keys.namespaces, named))
    sizes = yield from table_sizes(keys)
    done, total = 0, sum(size + 1 for _, size in sizes.found) + len(namespaces)
    yield Page(tuple(Skipped(error.key, error.reason) for error in sizes.corrupt), Progress(done, total))
    for name, size in sizes.found:
        found = yield from _export_broker(config, keys, name)
        done += size + 1
        yield Page(tuple(found), Progress(done, total))
    for raw in namespaces:
        done += 1
        yield from _export_namespace(keys, raw, Progress(done, total))


def _export_broker(config: RegistryConfig, keys: Keys, name: str) -> Plan[list[Record]]:
    write = Write(config, keys, Broker(name, NOBODY))
    try:
        (group,) = yield Reads((("HGETALL", write.broker_key),))
        fields: Mapping[bytes, bytes] = checked(write.broker_key, group)
        stored = yield from _table_of_one_instant(write)
    except CorruptData as error:
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


def _table_of_one_instant(write: Write) -> Plan[dict[str, bytes]]:
    """Return the table; read again if it was written meanwhile, but not for ever."""
    token, stored = yield from read_table(write)
    for _ in range(_TRIES):
        (now,) = yield Reads((("HGET", write.broker_key, "token"),))
        if (checked(write.broker_key, now) or b"").decode(errors="replace") == token:
            break
        token, stored = yield from read_table(write)
    return stored


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


def import_unit(
    config: RegistryConfig,
    unit: Unit,
    summary: ImportSummary,
    *,
    replace_live: bool = False,
    dry_run: bool = False,
) -> Plan[None]:
    """Import a unit, and count it in the summary, also when it is refused or a foreign key is in its way.

    A broker's table becomes that of its record, with its cluster, versions and wiped permission; see
    load_table. A live broker is refused; with `replace_live` its owners are fenced. Raises NewerSchema.
    """
    record = unit.record
    if isinstance(record, Skipped):
        summary.refused.append(Refusal(unit.line, record.key, record.reason))
    elif isinstance(record, BrokerRecord):
        what = f"broker {record.broker_name}"
        try:
            loaded = yield from _load(config, record, replace_live=replace_live, dry_run=dry_run)
        except (BrokerOwned, Unsettled, CorruptData) as error:
            summary.brokers.refused += 1
            summary.topics.refused += len(record.topics)
            summary.refused.append(Refusal(unit.line, what, str(error)))
        else:
            _count(summary, record, loaded)
            if loaded.corrupt_keys:
                reason = f"{', '.join(loaded.corrupt_keys)}: holds another type; move it away"
                summary.refused.append(Refusal(unit.line, what, reason))
    else:
        try:
            written = yield from _import_pairs(config, record, dry_run=dry_run)
        except CorruptData as error:
            summary.kv.refused += len(record)
            summary.refused.append(Refusal(unit.line, f"{len(record)} key-value pairs", str(error)))
        else:
            summary.kv.written += written
            summary.kv.unchanged += len(record) - written


def _count(summary: ImportSummary, record: BrokerRecord, loaded: Loaded) -> None:
    written = len(loaded.look.difference) - len(loaded.corrupt_keys)
    summary.brokers.written += loaded.look.changes
    summary.brokers.unchanged += not loaded.look.changes
    summary.topics.written += written
    summary.topics.unchanged += max(0, len(record.topics) - written)


def _load(config: RegistryConfig, record: BrokerRecord, *, replace_live: bool, dry_run: bool) -> Plan[Loaded]:
    """Write a broker's table, or in a dry run only look; raise BrokerOwned, Unsettled, CorruptData."""
    wanted = Wanted(
        record.broker_name,
        {name: codec.encode_config(config) for name, config in record.topics.items()},
        record.cluster,
        new_cluster="",
        only_these=True,
        with_mappings=True,
        versions=record.versions,
        wiped=record.wiped,
    )
    if dry_run:
        found = yield from look(config, wanted)
        refusal = None if replace_live else found.refusal(advice=_ADVICE)
        if refusal is not None:
            raise refusal
        return Loaded(found)
    with closing(load_table(config, wanted, fence_live=replace_live, advice=_ADVICE)) as stream:
        while (page := (yield from advance(stream))) is not None:
            last = page.found
    return last[0]


def _import_pairs(config: RegistryConfig, records: Sequence[KvRecord], *, dry_run: bool) -> Plan[int]:
    """Set values of the key-value store; return how many were others before."""
    keys = Keys(config.namespace)
    replies = yield Reads([("HGET", keys.kv(record.namespace), record.key) for record in records])
    written = 0
    for record, reply in zip(records, replies, strict=True):
        if checked(keys.kv(record.namespace), reply) == record.value.encode():
            continue
        written += 1
        if not dry_run:
            yield from kv_put(config, record.namespace, record.key, record.value)
    return written
