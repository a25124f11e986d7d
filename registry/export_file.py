"""The file of an exported registry: lines of JSON, a header first and the number of records last."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from . import codec
from .checks import check_name
from .errors import CorruptData, InvalidInput
from .model import TOPIC_FIELDS, VERSION_FIELDS, Broker, DataVersion, QueueMapping, TopicConfig
from .plans.bulk_load import NOBODY
from .plans.export_import import BrokerRecord, KvRecord, Record, Skipped, Unit, check_kv
from .scripts import SCHEMA

FORMAT: Final = "sharedroutes-export"
VERSION: Final = 1
_KV_AT_ONCE: Final = 500
_COUNTED: Final = ("broker", "topic", "kv", "skipped")

_MAPPING_FIELDS: Final = {
    "totalQueues": "total_queues",
    "epoch": "epoch",
    "currIdMap": "current_ids",
    "scope": "scope",
    "dirty": "dirty",
}


class Writer:
    """Turns records into lines, each with its line feed."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._counts: Counter[str] = Counter()

    def header(self) -> bytes:
        """Return the first line."""
        return _line({"format": FORMAT, "version": VERSION, "schema": SCHEMA, "namespace": self._namespace})

    def lines(self, record: Record) -> Iterator[bytes]:
        """Yield the lines of a record."""
        if isinstance(record, BrokerRecord):
            yield self._counted("broker", _broker_fields(record))
            for config in record.topics.values():
                yield self._counted("topic", {"brokerName": record.broker_name, **_topic_fields(config)})
        elif isinstance(record, KvRecord):
            fields = {"namespace": record.namespace, "key": record.key, "value": record.value}
            yield self._counted("kv", fields)
        else:
            yield self._counted("skipped", {"key": record.key, "reason": record.reason})

    def end(self) -> bytes:
        """Return the last line: a file without it is truncated."""
        return _line({"type": "end", **{kind: self._counts[kind] for kind in _COUNTED}})

    def _counted(self, kind: str, fields: Mapping[str, Any]) -> bytes:
        self._counts[kind] += 1
        return _line({"type": kind, **fields})


def _line(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def _broker_fields(record: BrokerRecord) -> dict[str, Any]:
    return {
        "brokerName": record.broker_name,
        "cluster": record.cluster,
        "wiped": record.wiped,
        "versions": {
            str(broker_id): {theirs: getattr(version, ours) for theirs, ours in VERSION_FIELDS.items()}
            for broker_id, version in sorted(record.versions.items())
        },
        "members": {
            str(broker_id): orjson.Fragment(codec.encode_member(broker))
            for broker_id, broker in sorted(record.members.items())
        },
    }


def _topic_fields(config: TopicConfig) -> dict[str, Any]:
    fields = {theirs: getattr(config, ours) for theirs, ours in TOPIC_FIELDS.items()}
    fields["attributes"] = dict(config.attributes)
    if config.queue_mapping is not None:
        fields["queueMapping"] = orjson.Fragment(codec.encode_mapping(config.queue_mapping))
    return fields


Lines: TypeAlias = Iterable[bytes | str]
AsyncLines: TypeAlias = AsyncIterable[bytes | str] | Lines


class Reader:
    """Reads the lines of an export; every problem is an InvalidInput that names the line.

    It is fed line by line and gives units as they are complete; `finish` ends it.
    """

    def __init__(self) -> None:
        self.lines = 0
        """How many lines it was fed."""

        self._started = False
        self._ended = False
        self._counts: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._broker: BrokerRecord | None = None
        self._broker_line = 0
        self._topics: dict[str, TopicConfig] = {}
        self._pairs: list[KvRecord] = []
        self._pairs_line = 0
        self._kinds: Mapping[str, Callable[[dict[str, Any]], Iterator[Unit]]] = {
            "broker": self._take_broker,
            "topic": self._take_topic,
            "kv": self._take_pair,
            "skipped": self._take_skipped,
            "end": self._take_end,
        }

    def units(self, lines: Lines) -> Iterator[Unit]:
        """Yield the units of all lines; raise InvalidInput."""
        for line in lines:
            yield from self.feed(line)
        self.finish()

    async def units_async(self, lines: AsyncLines) -> AsyncIterator[Unit]:
        """Yield the units of lines that come one way or the other; raise InvalidInput."""
        if isinstance(lines, Iterable):
            for unit in self.units(lines):
                yield unit
            return
        async for line in lines:
            for unit in self.feed(line):
                yield unit
        self.finish()

    def feed(self, line: bytes | str) -> Iterator[Unit]:
        """Yield the units that are complete with this line; raise InvalidInput."""
        self.lines += 1
        if not line.strip():
            raise self._problem("is empty")
        fields = self._object(line)
        if not self._started:
            self._start(fields)
            return
        if self._ended:
            raise self._problem("stands after the last line")
        kind = fields.pop("type", None)
        take = self._kinds.get(kind) if isinstance(kind, str) else None
        if take is None:
            raise self._problem(f"type: {kind!r:.80} is none of {', '.join(self._kinds)}")
        try:
            yield from take(fields)
        except (KeyError, TypeError, AttributeError, ValueError, CorruptData) as error:
            if isinstance(error, _Problem):
                raise
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise self._problem(f"{kind}: {what}") from None
        self._counts[str(kind)] += 1

    def finish(self) -> None:
        """Raise InvalidInput unless the last line was there."""
        if not self._ended:
            raise InvalidInput(
                f"line {self.lines}: the export is truncated: its last line, with the counts, is missing"
            )

    def _problem(self, text: str) -> InvalidInput:
        return _Problem(f"line {self.lines}: {text}")

    def _object(self, line: bytes | str) -> dict[str, Any]:
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise self._problem(f"is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise self._problem(f"expected an object, got {fields!r:.80}")
        return fields

    def _start(self, fields: dict[str, Any]) -> None:
        if fields.get("format") != FORMAT:
            raise self._problem(f"is no export: format is {fields.get('format')!r:.80}, not {FORMAT!r}")
        for name, known in (("version", VERSION), ("schema", SCHEMA)):
            found = fields.get(name)
            if not isinstance(found, int) or isinstance(found, bool) or found < 1:
                raise self._problem(f"{name}: expected a number, got {found!r:.80}")
            if found > known:
                raise self._problem(
                    f"{name} {found} is newer than {known}, which this sharedroutes knows: upgrade it"
                )
        self._started = True

    def _take_broker(self, fields: dict[str, Any]) -> Iterator[Unit]:
        name, cluster, wiped = fields.pop("brokerName"), fields.pop("cluster"), fields.pop("wiped")
        if name in self._seen:
            raise self._problem(f"broker {name!r} stands twice")
        if not isinstance(wiped, bool):
            raise self._problem(f"wiped: expected true or false, got {wiped!r:.80}")
        Broker(name, NOBODY)  # checks the name
        if cluster != "":
            check_name("cluster", cluster)
        versions = {_id(key): _version(value) for key, value in fields.pop("versions").items()}
        members = fields.pop("members")
        for key, value in members.items():
            codec.decode_broker("members", name, _id(key), cluster or "unknown", orjson.dumps(value))
        _nothing_else(fields)
        yield from self._flush()
        self._seen.add(name)
        self._topics = {}
        self._broker_line = self.lines
        self._broker = BrokerRecord(name, cluster, wiped, versions, {}, self._topics)

    def _take_topic(self, fields: dict[str, Any]) -> Iterator[Unit]:
        name = fields.pop("brokerName")
        if self._broker is None or self._broker.broker_name != name:
            raise self._problem(f"topic of broker {name!r:.80}, whose line is not the last one before")
        mapping = fields.pop("queueMapping", None)
        values = _renamed(fields, TOPIC_FIELDS)
        config = TopicConfig(**values, queue_mapping=None if mapping is None else _mapping(mapping))
        if config.topic_name in self._topics:
            raise self._problem(f"topic {config.topic_name!r} of broker {name!r} stands twice")
        self._topics[config.topic_name] = config
        yield from ()

    def _take_pair(self, fields: dict[str, Any]) -> Iterator[Unit]:
        record = KvRecord(**_renamed(fields, {name: name for name in ("namespace", "key", "value")}))
        check_kv(record)
        if self._broker is not None or len(self._pairs) == _KV_AT_ONCE:
            yield from self._flush()
        if not self._pairs:
            self._pairs_line = self.lines
        self._pairs.append(record)

    def _take_skipped(self, fields: dict[str, Any]) -> Iterator[Unit]:
        skipped = Skipped(str(fields.pop("key")), str(fields.pop("reason")))
        _nothing_else(fields)
        yield Unit(self.lines, skipped)

    def _take_end(self, fields: dict[str, Any]) -> Iterator[Unit]:
        for kind in _COUNTED:
            told = fields.pop(kind)
            if told != self._counts[kind]:
                raise self._problem(
                    f"{told!r:.20} lines of type {kind} were exported, {self._counts[kind]} are here: "
                    "some are lost"
                )
        _nothing_else(fields)
        yield from self._flush()
        self._ended = True

    def _flush(self) -> Iterator[Unit]:
        if self._broker is not None:
            broker, self._broker = self._broker, None
            yield Unit(self._broker_line, broker)
        if self._pairs:
            pairs, self._pairs = tuple(self._pairs), []
            yield Unit(self._pairs_line, pairs)


class _Problem(InvalidInput):
    """What is wrong with a line, and which one it is."""


def _nothing_else(fields: Mapping[str, Any]) -> None:
    if fields:
        raise InvalidInput(f"the field {next(iter(fields))!r:.80} is unknown")


def _renamed(fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return exactly the fields with those names, by our names; raise KeyError or InvalidInput."""
    left = dict(fields)
    values = {ours: left.pop(theirs) for theirs, ours in names.items()}
    _nothing_else(left)
    return values


def _id(key: str) -> int:
    number = codec.broker_id_of(key)
    if number is None:
        raise InvalidInput(f"{key!r:.80} is no number")
    return number


def _version(value: dict[str, Any]) -> DataVersion:
    return DataVersion(**_renamed(value, VERSION_FIELDS))


def _mapping(value: dict[str, Any]) -> QueueMapping:
    values = _renamed(value, _MAPPING_FIELDS)
    values["current_ids"] = {_id(logical): physical for logical, physical in values["current_ids"].items()}
    if not isinstance(values["dirty"], bool):
        raise InvalidInput(f"dirty: expected true or false, got {values['dirty']!r:.80}")
    return QueueMapping(**values)


def check(lines: AsyncLines) -> int:
    """Return how many lines there are; raise InvalidInput unless they are an export.

    Lines that can be iterated only once are left alone, and 0 is returned.
    """
    if not isinstance(lines, Iterable) or iter(lines) is lines:
        return 0
    reader = Reader()
    for _ in reader.units(lines):
        pass
    return reader.lines
