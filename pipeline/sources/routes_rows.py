"""What stands in the store, as Arrow columns: few configurations are those of all topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ...registry import CorruptData, InvalidInput, TopicConfig
from ...registry.checks import MAX_NAME_BYTES, check_name
from ...registry.codec import decode_broker, decode_config, decode_lease
from ...registry.plans.replicas import RawTable, Replica
from ..schemas import CONFIG_FIELDS, ROUTES
from ..tables import Table

_MAX_SHAPES: Final = 65_536
_IN_NO_NAME: Final = r"[\s\x00-\x1f\x7f]"
_ROUTES: Final = ROUTES.arrow

Facts: TypeAlias = Mapping[str, Any]
"""What all entries of a broker have in common, by column."""


@dataclass(slots=True)
class EntryRows:
    """Collects raw tables, and makes record batches of ROUTES of them; `registry` is what rows call it."""

    registry: str
    _shapes: dict[bytes, int] = field(default_factory=dict)
    _configs: list[TopicConfig | None] = field(default_factory=list)
    _problems: dict[int, str] = field(default_factory=dict)
    _brokers: list[Facts] = field(default_factory=list)
    _names: list[bytes] = field(default_factory=list)
    _shape_of: list[int] = field(default_factory=list)
    _broker_of: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._names)

    def add(self, broker: Facts, table_key: str, table: RawTable) -> None:
        """Add a broker's table, or a part of it; `table_key` is for the words of problems."""
        for value in set(table.values()) - self._shapes.keys():
            self._learn(table_key, value)
        self._brokers.append(broker)
        self._names += table
        self._shape_of += map(self._shapes.__getitem__, table.values())
        self._broker_of += [len(self._brokers) - 1] * len(table)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield what was added since the last time, the entries that cannot be read apart."""
        if self._names:
            yield from self._batches()
        self._brokers, self._names, self._shape_of, self._broker_of = [], [], [], []
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes, self._configs, self._problems = {}, [], {}

    def _learn(self, table_key: str, value: bytes) -> None:
        number = self._shapes[value] = len(self._configs)
        try:
            self._configs.append(decode_config(table_key, "any", value))
        except CorruptData:
            self._configs.append(None)
            self._problems[number] = f"has the configuration {value[:80]!r}, which is none"

    def _batches(self) -> Iterator[pa.RecordBatch]:
        names = pa.array(self._names, pa.binary())
        bad = dict(_bad_names(names))
        if self._problems:
            bad |= {
                at: problem
                for at, shape in enumerate(self._shape_of)
                if at not in bad and (problem := self._problems.get(shape))
            }
        shapes, brokers = pa.array(self._shape_of, pa.int32()), pa.array(self._broker_of, pa.int32())
        if bad:
            yield self._problem_batch(bad)
            good = pa.array([at for at in range(len(names)) if at not in bad], pa.int64())
            names, shapes, brokers = names.take(good), shapes.take(good), brokers.take(good)
        if len(names):
            yield self._batch(names, shapes, brokers)

    def _problem_batch(self, bad: Mapping[int, str]) -> pa.RecordBatch:
        found = []
        for at, problem in sorted(bad.items()):
            topic = self._names[at].decode(errors="backslashreplace")
            broker = self._brokers[self._broker_of[at]]
            found.append({"topic": topic, "problem": f"topic {topic!r} {problem}", **broker})
        return rows(ROUTES, self.registry, found)

    def _batch(self, names: pa.Array, shapes: pa.Array, brokers: pa.Array) -> pa.RecordBatch:
        used = shapes.dictionary_encode()  # what many shapes were learned for is taken of a few
        configs = [self._configs[number] for number in used.dictionary.to_pylist()]
        columns: dict[str, pa.Array] = {"topic": names.cast(pa.string())}
        for column in CONFIG_FIELDS.values():
            values = [getattr(config, column) for config in configs]
            if column == "attributes":
                values = [list(value.items()) for value in values]
            columns[column] = pa.array(values, _ROUTES.field(column).type).take(used.indices)
        for column in self._brokers[0]:
            values = [broker[column] for broker in self._brokers]
            columns[column] = pa.array(values, _ROUTES.field(column).type).take(brokers)
        columns["registry"] = pa.repeat(pa.scalar(self.registry), len(names))
        columns["problem"] = pa.nulls(len(names), pa.string())
        return pa.RecordBatch.from_arrays([columns[name] for name in _ROUTES.names], schema=_ROUTES)


def _bad_names(names: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield the places of what cannot be the name of a topic, and why."""
    try:
        text = names.cast(pa.string())
    except pa.ArrowInvalid:
        for at, raw in enumerate(names.to_pylist()):
            try:
                check_name("topicName", raw.decode())
            except UnicodeDecodeError:
                yield at, "is no UTF-8"
            except InvalidInput as error:
                yield at, str(error)
        return
    yield from check_names("topicName", text)


def check_names(what: str, names: pa.Array) -> Iterator[tuple[int, str]]:
    """Yield the places of what cannot be the name of a topic or a cluster, and why; null is none."""
    # Arrow looks at all of them at once; only what it does not know for sure is looked at one by one.
    suspicious = pc.or_(
        pc.or_(pc.match_substring_regex(names, _IN_NO_NAME), pc.invert(pc.string_is_ascii(names))),
        pc.or_(pc.greater(pc.binary_length(names), MAX_NAME_BYTES), pc.equal(pc.binary_length(names), 0)),
    )
    for at in pc.indices_nonzero(pc.fill_null(suspicious, fill_value=True)).to_pylist():
        try:
            check_name(what, names[at].as_py())
        except InvalidInput as error:
            yield at, str(error)


def rows(table: Table, registry: str, found: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return a batch of rows, in which what is not given is null."""
    return pa.RecordBatch.from_pylist([{"registry": registry, **row} for row in found], schema=table.arrow)


def replica_row(group_key: str, replica: Replica, topics: int) -> dict[str, Any]:
    """Return a row of REPLICAS, but for its registry; what cannot be read is in its `problem`."""
    name, number = replica.broker_name, replica.broker_id
    lease = decode_lease(replica.lease) if replica.lease is not None else None
    row: dict[str, Any] = {
        "broker": name,
        "broker_id": number,
        "cluster": replica.cluster,
        "epoch": replica.epoch if lease is None else lease[0],
        "alive": lease is not None,
        "lease_left_ms": None if lease is None else replica.left_ms,
        "wiped": replica.wiped,
        "topics": topics,
    }
    if replica.lease is not None and lease is None:
        row["problem"] = f"the lease of {name}:{number} is {replica.lease[:80]!r}, which is none"
    if replica.member is None:
        return row | {"address": lease[1] if lease else None}
    try:
        member = decode_broker(group_key, name, number, replica.cluster or "unknown", replica.member)
    except CorruptData as error:
        return row | {"problem": str(error), "address": lease[1] if lease else None}
    address = member.address if lease is None else lease[1]
    return row | {"address": address, "ha_address": member.ha_address, "zone": member.zone_name}
