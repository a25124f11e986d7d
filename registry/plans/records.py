"""Export and import of a whole registry, as records: brokers with their tables, and key-value pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from .. import codec, scripts
from ..checks import check_broker_name, check_name, check_text
from ..config import RegistryConfig
from ..differences import Progress
from ..errors import BrokerOwned, CorruptData, InvalidInput, StaleEpoch
from ..keys import Keys
from ..model import MASTER_ID, Broker, DataVersion, Registration, TopicConfig
from .base import Call, Command, Plan, Reads, checked, script_reply
from .difference import Difference, difference_to_stored
from .forgetting import NOBODY, live_replicas, replica_ids, stored_cluster
from .kv import MAX_NAME_BYTES, MAX_VALUE_BYTES, kv_put
from .operators import check_schema, set_write_perm
from .repair.checks import field_problem
from .repair.walk import entry_counts
from .stream import Page, Stream
from .table import ANYBODY, SUCCESSOR, Put, Write, claim, put, read_table, routed

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

    It gets no lease: nobody sees it until its agent registers, which then writes only the difference. A live
    broker is refused; with `replace_live` its owners are fenced, and seen until their leases end.
    Raises CorruptData, NewerSchema, StoreRefused, StoreUnavailable.
    """
    keys = Keys(config.namespace)
    cluster = record.cluster or (yield from stored_cluster(keys, record.broker_name))
    write = Write(config, keys, Broker(record.broker_name, NOBODY, cluster=cluster))
    try:
        for _ in range(_TRIES):
            outcome = yield from _import_once(write, record, replace_live=replace_live, dry_run=dry_run)
            if outcome is not None:
                return outcome
    except (BrokerOwned, StaleEpoch) as error:
        return Outcome(Written.REFUSED, reason=str(error))
    return Outcome(Written.REFUSED, reason=f"{write.broker_key}: changes faster than it can be written")


def _import_once(
    write: Write, record: BrokerRecord, *, replace_live: bool, dry_run: bool
) -> Plan[Outcome | None]:
    keys, name = write.keys, record.broker_name
    ids = (yield from replica_ids(keys, name)) or ()
    token, stored = yield from read_table(write)
    removed = sorted(stored.keys() - record.topics.keys())  # those without a row among them
    change = difference_to_stored((yield from routed(write, stored)), record.topics)
    change = replace(change, removed=removed)
    fields = yield from _missing_fields(write, record)
    size = len(change.added) + len(change.changed) + len(change.removed)
    if not size and not fields and ids:
        return Outcome(Written.UNCHANGED)
    live = yield from live_replicas(keys, name, ids)
    if live and not replace_live:
        raise BrokerOwned(name, *live[0], advice=_ADVICE)
    if dry_run:
        return Outcome(Written.WRITTEN, size)
    epoch, done = yield from _write_table(write, token, change, [of for of, *_ in live])
    if done.status != "ok":  # junior: a replica has come since we looked; look again
        return None
    yield from _write_fields(write, record, fields, epoch)
    reason = f"{', '.join(done.corrupt_keys)}: holds another type; move it away" if done.corrupt_keys else ""
    return Outcome(Written.WRITTEN, size - len(done.corrupt_keys), reason)


def _write_table(
    write: Write, token: str, change: Difference, live_ids: Sequence[int]
) -> Plan[tuple[int, Put]]:
    """Fence all owners, and write the difference unless a replica lives that was not alive before.

    Return the epoch of it.
    """
    take_over = ANYBODY if live_ids else SUCCESSOR
    for broker_id in live_ids:
        if broker_id != MASTER_ID:
            slave = Broker(write.broker.broker_name, NOBODY, broker_id, write.broker.cluster)
            yield from claim(Write(write.config, write.keys, slave), take_over, _ADVICE)
    epoch = yield from claim(write, take_over, _ADVICE)
    ids = (yield from replica_ids(write.keys, write.broker.broker_name)) or ()
    others = [write.lease_key(broker_id) for broker_id in ids if broker_id not in live_ids]
    nothing = Registration(write.broker, epoch, token, {})
    return epoch, (yield from put(write, nothing, change, seniors=others))


def _missing_fields(write: Write, record: BrokerRecord) -> Plan[dict[str, tuple[bytes, bytes]]]:
    """Return the fields of the group that are not as in the record: what they are, and should be."""
    wanted = {
        f"version:{broker_id}": codec.encode_data_version(version)
        for broker_id, version in record.versions.items()
    }
    if record.cluster:
        wanted["cluster"] = record.cluster
    names = [*wanted, "wiped"]
    (reply,) = yield Reads((("HMGET", write.broker_key, *names),))
    stored = dict(zip(names, checked(write.broker_key, reply), strict=True))
    wanted["wiped"] = "1" if record.wiped else ""
    return {
        name: (stored[name] or b"", value.encode())
        for name, value in wanted.items()
        if (stored[name] or b"") != value.encode()
    }


def _write_fields(
    write: Write, record: BrokerRecord, fields: Mapping[str, tuple[bytes, bytes]], epoch: int
) -> Plan[None]:
    keys = write.keys
    for name, (old, new) in fields.items():
        if name == "wiped":
            yield from set_write_perm(write.config, record.broker_name, writable=not record.wiped)
            continue
        call = Call(
            scripts.MEND_FIELD,
            (write.broker_key, keys.changes, keys.schema, write.lease_key(MASTER_ID), keys.brokers),
            (name, old, new, "", write.config.feed_bounds, "", MASTER_ID, epoch, record.broker_name),
        )
        yield from script_reply(call)  # one that has changed meanwhile is its new owner's


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
