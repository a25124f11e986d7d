"""Export and import of a whole registry, as records: brokers with their tables, and key-value pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from .. import codec
from ..config import RegistryConfig
from ..errors import BrokerOwned, CorruptData, InvalidInput
from ..keys import Keys
from ..model import Broker
from .base import Page, Plan, Progress, Stream, advance, check_schema, read
from .bulk_load import NOBODY, Loaded, Unsettled, Wanted, load_table
from .operators import check_pair, kv_put
from .repair.checks import field_problem
from .replicas import table_sizes
from .table import Write, read_table

_TRIES: Final = 10
_ADVICE: Final = "wait until it is unregistered or its lease ends, or import with --replace-live"


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """What a registry knows of a broker, alive or not, as it stands in the store."""

    broker_name: str
    group: Mapping[str, str] = field(default_factory=dict)
    """The fields of its group that `exported_field` has; the members are not imported."""

    topics: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Topics to their encoded configurations."""


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


def export(config: RegistryConfig) -> Stream[Record]:
    """Yield all brokers by name, each with its table by topic, and all key-value pairs.

    A broker's table is of one instant, the whole is not. Brokers that are not in the index are not exported:
    `rebuild` lists them. What cannot be read is yielded as Skipped. Raises NewerSchema.
    """
    keys = Keys(config.namespace)
    yield from check_schema(keys)
    namespaces = sorted((yield from read("SMEMBERS", keys.namespaces)))
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
        stored: Mapping[bytes, bytes] = yield from read("HGETALL", write.broker_key)
        table = yield from _table_of_one_instant(write)
    except CorruptData as error:
        return [Skipped(keys.broker(name), str(error))]
    if not stored and not table:
        return []
    skipped: list[Record] = []
    fields: dict[str, str] = {}
    for part, value in sorted(stored.items()):
        try:
            exported = exported_field(name, part, value)
        except InvalidInput as error:
            skipped.append(Skipped(write.broker_key, str(error)))
            continue
        if exported is not None:
            fields[part.decode()] = exported.decode()
    topics: dict[str, bytes] = {}
    table_key = keys.broker_topics(name)
    for topic, encoded in sorted(table.items()):
        try:
            topics[topic] = exported_config(table_key, topic, encoded)
        except CorruptData as error:
            skipped.append(Skipped(table_key, str(error)))
    return [BrokerRecord(name, fields, topics), *skipped]


def exported_field(broker_name: str, part: bytes, value: bytes) -> bytes | None:
    """Return a field of a group as it is exported, None when it is not; raise InvalidInput if it is none."""
    problem = field_problem(broker_name, part, value)
    if problem is None or problem:
        raise InvalidInput(f"the field {part[:80]!r}: {problem or 'is none of the registry'}")
    kind = part.partition(b":")[0]
    if kind == b"version":
        return codec.encode_data_version(codec.decode_data_version("", value)).encode()
    return value if kind in (b"cluster", b"member", b"wiped") else None


def exported_config(key: str, topic: str, value: bytes) -> bytes:
    """Return a configuration from the table `key` as it is exported; raise CorruptData."""
    return codec.encode_config(codec.decode_config(key, topic, value))


def _table_of_one_instant(write: Write) -> Plan[dict[str, bytes]]:
    """Return the table; read again if it was written meanwhile, but not for ever."""
    token, stored = yield from read_table(write)
    for _ in range(_TRIES):
        now = yield from read("HGET", write.broker_key, "token")
        if (now or b"").decode(errors="replace") == token:
            break
        token, stored = yield from read_table(write)
    return stored


def _export_namespace(keys: Keys, raw: bytes, progress: Progress) -> Stream[Record]:
    key = keys.kv(raw.decode(errors="replace"))
    try:
        entries = yield from read("HGETALL", key)
        found = tuple(_kv_records(key, raw, entries))
    except CorruptData as error:
        found = (Skipped(key, error.reason),)
    yield Page(found, progress)


def _kv_records(key: str, namespace: bytes, entries: Mapping[bytes, bytes]) -> Iterator[Record]:
    for name, value in sorted(entries.items()):
        try:
            record = KvRecord(namespace.decode(), name.decode(), value.decode())
            check_pair(record.namespace, record.key, record.value)
        except ValueError as error:
            yield Skipped(key, f"the key {name[:80]!r}: {error}")
        else:
            yield record


def import_record(
    config: RegistryConfig,
    line: int,
    record: Record,
    summary: ImportSummary,
    *,
    replace_live: bool = False,
    dry_run: bool = False,
) -> Plan[None]:
    """Import a record, and count it in the summary, also when it is refused or a foreign key is in its way.

    A broker's table becomes that of its record, with its cluster, versions and wiped permission; see
    load_table. A live broker is refused; with `replace_live` its owners are fenced. Raises NewerSchema.
    """
    if isinstance(record, Skipped):
        summary.refused.append(Refusal(line, record.key, record.reason))
    elif isinstance(record, BrokerRecord):
        what = f"broker {record.broker_name}"
        try:
            loaded = yield from _load(config, record, replace_live=replace_live, dry_run=dry_run)
        except (BrokerOwned, Unsettled, CorruptData) as error:
            summary.brokers.refused += 1
            summary.topics.refused += len(record.topics)
            summary.refused.append(Refusal(line, what, str(error)))
        else:
            _count(summary, record, loaded)
            if loaded.problem:
                summary.refused.append(Refusal(line, what, loaded.problem))
    else:
        try:
            written = yield from _import_pair(config, record, dry_run=dry_run)
        except CorruptData as error:
            summary.kv.refused += 1
            summary.refused.append(Refusal(line, f"key {record.namespace}/{record.key}", str(error)))
        else:
            summary.kv.written += written
            summary.kv.unchanged += not written


def _count(summary: ImportSummary, record: BrokerRecord, loaded: Loaded) -> None:
    written = len(loaded.look.difference) - len(loaded.corrupt_keys)
    summary.brokers.written += loaded.look.changes
    summary.brokers.unchanged += not loaded.look.changes
    summary.topics.written += written
    summary.topics.unchanged += max(0, len(record.topics) - written)


def _load(config: RegistryConfig, record: BrokerRecord, *, replace_live: bool, dry_run: bool) -> Plan[Loaded]:
    """Write a broker's table, or in a dry run only look; raise BrokerOwned, Unsettled, CorruptData."""
    fields = {part: value for part, value in record.group.items() if part.startswith("version:")}
    wanted = Wanted(
        record.broker_name,
        record.topics,
        record.group.get("cluster", ""),
        new_cluster="",
        only_these=True,
        with_mappings=True,
        fields=fields | {"wiped": record.group.get("wiped", "")},
    )
    stream = load_table(config, wanted, fence_live=replace_live, dry_run=dry_run, advice=_ADVICE)
    with closing(stream):
        while (page := (yield from advance(stream))) is not None:
            last = page.found
    return last[0]


def _import_pair(config: RegistryConfig, record: KvRecord, *, dry_run: bool) -> Plan[bool]:
    """Set a value of the key-value store; return whether it was another one before."""
    key = Keys(config.namespace).kv(record.namespace)
    if (yield from read("HGET", key, record.key)) == record.value.encode():
        return False
    if not dry_run:
        yield from kv_put(config, record.namespace, record.key, record.value)
    return True
