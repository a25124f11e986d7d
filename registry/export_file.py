"""The file of an exported registry: lines of JSON, a header first and the number of records last.

A broker is a line with the fields of its group, followed by a line for each of its topics, so that two
exports can be compared line by line. Fields and configurations stand there as they do in the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias

import orjson

from .checks import check_broker_name
from .errors import CorruptData, InvalidInput
from .plans.export_import import (
    BrokerRecord,
    KvRecord,
    Record,
    Skipped,
    exported_config,
    exported_field,
)
from .plans.operators import check_pair
from .scripts import SCHEMA

FORMAT: Final = "sharedroutes-export"
VERSION: Final = 1
_COUNTED: Final = ("broker", "topic", "kv", "skipped")


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
            yield self._counted("broker", {"broker": record.broker_name, "group": record.group})
            for topic, config in record.topics.items():
                fields = {"broker": record.broker_name, "topic": topic, "config": config.decode()}
                yield self._counted("topic", fields)
        else:
            yield self._counted("kv" if isinstance(record, KvRecord) else "skipped", asdict(record))

    def end(self) -> bytes:
        """Return the last line: a file without it is truncated."""
        return _line({"type": "end", **{kind: self._counts[kind] for kind in _COUNTED}})

    def _counted(self, kind: str, fields: Mapping[str, Any]) -> bytes:
        self._counts[kind] += 1
        return _line({"type": kind, **fields})


def _line(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


Lines: TypeAlias = Iterable[bytes | str]
AsyncLines: TypeAlias = AsyncIterable[bytes | str] | Lines

Numbered: TypeAlias = tuple[int, Record]
"""A record, and the number of its first line."""


class Reader:
    """Reads the lines of an export; every problem is an InvalidInput that names the line and the field.

    It is fed line by line and gives records as they are complete; `finish` ends it.
    """

    def __init__(self) -> None:
        self.lines = 0
        """How many lines it was fed."""

        self._started = False
        self._ended = False
        self._counts: Counter[str] = Counter()
        self._seen: set[str] = set()
        self._broker: tuple[int, BrokerRecord] | None = None
        self._topics: dict[str, bytes] = {}
        self._kinds: Mapping[str, Callable[[dict[str, Any]], Iterator[Numbered]]] = {
            "broker": self._take_broker,
            "topic": self._take_topic,
            "kv": self._take_pair,
            "skipped": self._take_skipped,
            "end": self._take_end,
        }

    def records(self, lines: Lines) -> Iterator[Numbered]:
        """Yield the records of all lines; raise InvalidInput."""
        for line in lines:
            yield from self.feed(line)
        self.finish()

    async def records_async(self, lines: AsyncLines) -> AsyncIterator[Numbered]:
        """Yield the records of lines that come one way or the other; raise InvalidInput."""
        if isinstance(lines, Iterable):
            for record in self.records(lines):
                yield record
            return
        async for line in lines:
            for record in self.feed(line):
                yield record
        self.finish()

    def feed(self, line: bytes | str) -> Iterator[Numbered]:
        """Yield the records that are complete with this line; raise InvalidInput."""
        self.lines += 1
        try:
            fields = _object(line)
            if self._started:
                yield from self._take(fields)
            else:
                _check_header(fields)
                self._started = True
        except (InvalidInput, CorruptData) as error:
            raise InvalidInput(f"line {self.lines}: {error}") from None

    def finish(self) -> None:
        """Raise InvalidInput unless the last line was there."""
        if not self._ended:
            raise InvalidInput(
                f"line {self.lines}: the export is truncated: its last line, with the counts, is missing"
            )

    def _take(self, fields: dict[str, Any]) -> Iterator[Numbered]:
        if self._ended:
            raise InvalidInput("stands after the last line")
        kind = fields.pop("type", None)
        take = self._kinds.get(kind) if isinstance(kind, str) else None
        if take is None:
            raise InvalidInput(f"type: {kind!r:.80} is none of {', '.join(self._kinds)}")
        yield from take(fields)
        self._counts[str(kind)] += 1

    def _take_broker(self, fields: dict[str, Any]) -> Iterator[Numbered]:
        name, group = _exactly(fields, "broker", "group")
        check_broker_name(name, "broker")
        if name in self._seen:
            raise InvalidInput(f"broker {name!r} stands twice")
        if not isinstance(group, dict):
            raise InvalidInput(f"group: expected an object, got {group!r:.80}")
        for field, value in group.items():
            stored = _as_stored(f"group: {field}", value)
            _check_as_exported(f"group: {field}", stored, exported_field(name, field.encode(), stored))
        yield from self._flush()
        self._seen.add(name)
        self._topics = {}
        self._broker = self.lines, BrokerRecord(name, group, self._topics)

    def _take_topic(self, fields: dict[str, Any]) -> Iterator[Numbered]:
        name, topic, config = _exactly(fields, "broker", "topic", "config")
        if self._broker is None or self._broker[1].broker_name != name:
            raise InvalidInput(f"topic of broker {name!r:.80}, whose line is not the last one before")
        stored = _as_stored("config", config)
        exported = exported_config("config", topic, stored)
        _check_as_exported("config", stored, exported)
        if topic in self._topics:
            raise InvalidInput(f"topic {topic!r} of broker {name!r} stands twice")
        self._topics[topic] = exported  # topics of one shape share it
        yield from ()

    def _take_pair(self, fields: dict[str, Any]) -> Iterator[Numbered]:
        pair = _exactly(fields, "namespace", "key", "value")
        check_pair(*pair)
        yield from self._flush()
        yield self.lines, KvRecord(*pair)

    def _take_skipped(self, fields: dict[str, Any]) -> Iterator[Numbered]:
        yield self.lines, Skipped(*map(str, _exactly(fields, "key", "reason")))

    def _take_end(self, fields: dict[str, Any]) -> Iterator[Numbered]:
        for kind, told in zip(_COUNTED, _exactly(fields, *_COUNTED), strict=True):
            if told != self._counts[kind]:
                raise InvalidInput(
                    f"{told!r:.20} lines of type {kind} were exported, {self._counts[kind]} are here: "
                    "some are lost"
                )
        yield from self._flush()
        self._ended = True

    def _flush(self) -> Iterator[Numbered]:
        """Yield the broker whose topics were read: no other line of it follows."""
        if self._broker is not None:
            yield self._broker
            self._broker = None


def _object(line: bytes | str) -> dict[str, Any]:
    if not line.strip():
        raise InvalidInput("is empty")
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidInput(f"expected an object, got {fields!r:.80}")
    return fields


def _check_header(fields: dict[str, Any]) -> None:
    if fields.get("format") != FORMAT:
        raise InvalidInput(f"is no export: format is {fields.get('format')!r:.80}, not {FORMAT!r}")
    for name, known in (("version", VERSION), ("schema", SCHEMA)):
        found = fields.get(name)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            raise InvalidInput(f"{name}: expected a number, got {found!r:.80}")
        if found > known:
            raise InvalidInput(
                f"{name} {found} is newer than {known}, which this sharedroutes knows: upgrade it"
            )


def _exactly(fields: Mapping[str, Any], *names: str) -> list[Any]:
    """Return the values of these fields; raise InvalidInput unless all of them are there, and no others."""
    for name in names:
        if name not in fields:
            raise InvalidInput(f"the field {name!r} is missing")
    for name in fields:
        if name not in names:
            raise InvalidInput(f"the field {name!r:.80} is unknown")
    return [fields[name] for name in names]


def _as_stored(what: str, value: object) -> bytes:
    if not isinstance(value, str):
        raise InvalidInput(f"{what}: expected a string, got {value!r:.80}")
    return value.encode()


def _check_as_exported(what: str, given: bytes, exported: bytes | None) -> None:
    """Raise InvalidInput for what an export would write in another way: a part of it could be lost."""
    if given != exported:
        raise InvalidInput(f"{what}: {given[:80]!r} would be exported as {exported and exported[:80]!r}")


def check(lines: AsyncLines) -> int:
    """Return how many lines there are; raise InvalidInput unless they are an export.

    Lines that can be iterated only once are left alone, and 0 is returned.
    """
    if not isinstance(lines, Iterable) or iter(lines) is lines:
        return 0
    reader = Reader()
    for _ in reader.records(lines):
        pass
    return reader.lines
