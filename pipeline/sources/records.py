"""Records of the change stream made into Arrow batches: by the thousand, and one by one where one is odd.

The codec of the registry says what a record means. Arrow's JSON reader agrees with it on what the registry
writes; where it might not, the whole page takes the exact way, which asks the codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from ...registry import Change, ChangeKind, CorruptData
from ...registry.codec import OF_NO_BROKER, decode_change
from ...registry.past import place_of
from ..schemas import CHANGES, GAP

SCHEMA: Final[pa.Schema] = CHANGES.arrow

_TEXT: Final = pa.string()
_WHOLE: Final = pa.int64()
_NAMES: Final[pa.DataType] = SCHEMA.field("added").type

_OF_NO_RECORD: Final = ("registry", "change_id", "ms", "seq", "at", "problem", "record")
_RENAMED: Final = {"broker_id": "id", "lease_ttl_ms": "ttl", "lease_ended_ms": "ended"}
_FIELDS: Final = {name: _RENAMED.get(name, name) for name in SCHEMA.names if name not in _OF_NO_RECORD}
"""The columns that come from the record, with the names of its fields."""

ATTRIBUTES: Final = {column: {"broker": "broker_name"}.get(column, column) for column in _FIELDS}
"""What the codec calls the same columns."""

# A field that is not known makes Arrow fail, and the page take the exact way: what stands in such a field can
# be JSON for one of the two readers and not for the other.
_PARSE: Final = pa.json.ParseOptions(
    explicit_schema=pa.schema([(field, SCHEMA.field(name).type) for name, field in _FIELDS.items()]),
    newlines_in_values=False,
    unexpected_field_behavior="error",
)
_OF_ID: Final = pa.schema([("ms", _WHOLE), ("seq", _WHOLE)])
_PARSE_ID: Final = pa.csv.ParseOptions(delimiter="-")
_CONVERT_ID: Final = pa.csv.ConvertOptions(column_types=_OF_ID)
_OPTIONAL: Final = ("lease_ttl_ms", "lease_ended_ms")
_KINDS: Final = pa.array([str(kind) for kind in ChangeKind])
_OF_NO_BROKER: Final = pa.array(sorted(map(str, OF_NO_BROKER)))

_ODD: Final = (b"\\", b"\r", b"null")
"""Where the readers differ: in escapes that are no character, in what ends a line, in what is not there."""

_HEAD: Final = b'{"kind":"'
"""How the registry's records begin. When each line does, none is empty while another one is two objects."""

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_LAST_TIME_MS: Final = _MOST // 1_000
"""The last that a timestamp in us can hold."""

_NOTHING: Final[dict[str, Any]] = dict.fromkeys(SCHEMA.names)


class RecordReader:
    """Makes batches of the entries of one registry, called `registry`, whose stream is at `key`.

    An entry that is no change becomes a row with `problem`, or raises CorruptData with `refuse_corrupt`.
    """

    def __init__(self, registry: str, key: str, *, refuse_corrupt: bool = False) -> None:
        self._registry = registry
        self._key = key
        self._refuse_corrupt = refuse_corrupt

    def batch(self, ids: Sequence[bytes], records: Sequence[bytes | None]) -> pa.RecordBatch:
        """Return a row for each entry; raises CorruptData."""
        try:
            return self.fast(ids, records)
        except (pa.ArrowException, ValueError):
            return self.exact(ids, records)

    def fast(self, ids: Sequence[bytes], records: Sequence[bytes | None]) -> pa.RecordBatch:
        """Return a row for each entry; raises ArrowException and ValueError where anything is odd."""
        found = _parsed(records)
        kinds = _column(found, "kind")
        if not pc.all(pc.is_in(kinds, _KINDS)).as_py():
            raise ValueError("a kind is unknown")
        columns = {**self._places(ids), **_content(found, kinds)}
        nothing = pa.nulls(len(ids), _TEXT)
        columns |= {"problem": nothing, "record": nothing}
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)

    def exact(self, ids: Sequence[bytes], records: Sequence[bytes | None]) -> pa.RecordBatch:
        """Return a row for each entry, whatever stands there; raises CorruptData."""
        rows = [self._row(entry_id.decode(), record) for entry_id, record in zip(ids, records, strict=True)]
        return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def _places(self, ids: Sequence[bytes]) -> dict[str, pa.Array]:
        block = b"\n".join(ids)
        reading = pa.csv.ReadOptions(use_threads=False, column_names=_OF_ID.names, block_size=len(block) + 1)
        found = pa.csv.read_csv(pa.BufferReader(block), reading, _PARSE_ID, _CONVERT_ID)
        ms, seq = (column.combine_chunks() for column in found.columns)
        return {
            "registry": pa.repeat(pa.scalar(self._registry), len(ids)),
            "change_id": pa.array(ids, _TEXT),
            "ms": ms,
            "seq": seq,
            "at": pc.multiply_checked(ms, 1_000).cast(SCHEMA.field("at").type),
        }

    def _row(self, change_id: str, record: bytes | None) -> dict[str, Any]:
        row = _NOTHING | _place(self._registry, change_id)
        try:
            return row | self._told(change_id, record)
        except CorruptData as error:
            if self._refuse_corrupt:
                raise
            text = None if record is None else record.decode(errors="replace")
            return row | {"problem": error.reason, "record": text}

    def _told(self, change_id: str, record: bytes | None) -> dict[str, Any]:
        """Return the columns that the record tells; raises CorruptData."""
        if record is None:
            raise CorruptData(self._key, f"entry {change_id} has no field `c`: somebody else wrote it")
        change = decode_change(self._key, change_id, record)
        lease = (change.lease_ttl_ms or 0, change.lease_ended_ms or 0)
        numbers = (*place_of(change_id), change.broker_id, change.epoch, *lease)
        if not all(_LEAST <= number <= _MOST for number in numbers):
            raise CorruptData(self._key, f"entry {change_id} is no change: a number has more than 64 bits")
        return {column: getattr(change, attribute) for column, attribute in ATTRIBUTES.items()}


def gap(registry: str, after: str, first_after: str, reason: str) -> pa.RecordBatch:
    """Return the one row that stands for what nobody read between two ids of the stream."""
    change = Change(kind=ChangeKind.DOWN)
    empty = {column: getattr(change, attribute) for column, attribute in ATTRIBUTES.items()}
    told = {"kind": GAP, "reason": reason, "key": first_after}
    return pa.RecordBatch.from_pylist([_NOTHING | _place(registry, after) | empty | told], schema=SCHEMA)


def _parsed(records: Sequence[bytes | None]) -> pa.Table:
    """Return the fields of records, each of which is one JSON object in one line; raises ValueError."""
    try:
        block = b"\n".join(records)  # type: ignore[arg-type] # to ask each one first takes as long as to join all
    except TypeError:
        raise ValueError("an entry has no record") from None
    lines = len(records) - 1
    if not block.startswith(_HEAD) or block.count(b"\n") != lines or block.count(b"\n" + _HEAD) != lines:
        raise ValueError("a record is no object, or has several lines")
    if any(odd in block for odd in _ODD):
        raise ValueError("a record holds what the readers do not read alike")
    if not block.isascii():
        block.decode()  # Arrow would let pass what is no UTF-8
    reading = pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    table = pa.json.read_json(pa.BufferReader(block), reading, _PARSE)
    if table.num_rows != len(records):
        raise ValueError("a record is several objects")
    return table


def _content(found: pa.Table, kinds: pa.Array) -> dict[str, pa.Array]:
    """Return the columns that the records tell; raises ValueError when a broker or an epoch is missing."""
    of_none = pc.is_in(kinds, _OF_NO_BROKER)
    brokers, epochs = _column(found, "broker"), _column(found, "epoch")
    told = pc.and_(pc.is_valid(brokers), pc.is_valid(epochs))
    if not pc.all(pc.or_(told, of_none)).as_py():
        raise ValueError("a change of a broker does not say which")
    columns = {
        "kind": kinds,
        "broker": pc.if_else(of_none, "", brokers),
        "epoch": pc.if_else(of_none, 0, epochs),
    }
    for name in _FIELDS:
        if name not in columns:
            columns[name] = _filled(name, _column(found, name))
    return columns


def _filled(name: str, values: pa.Array) -> pa.Array:
    """Return a column with what a change has where its record says nothing."""
    if name in _OPTIONAL:
        return values
    if isinstance(values, pa.ListArray):
        # A list that is not there takes no room among the values.
        return pa.ListArray.from_arrays(values.offsets, values.values, type=_NAMES)
    return pc.fill_null(values, 0 if values.type == _WHOLE else "")


def _column(found: pa.Table, name: str) -> pa.Array:
    return found.column(_FIELDS[name]).combine_chunks()


def _place(registry: str, change_id: str) -> dict[str, Any]:
    """Return the columns that the id tells; what has more than 63 bits is the most that there is."""
    ms, seq = place_of(change_id)
    return {
        "registry": registry,
        "change_id": change_id,
        "ms": min(ms, _MOST),
        "seq": min(seq, _MOST),
        "at": ms * 1_000 if ms <= _LAST_TIME_MS else None,
    }
