"""Samples out of bytes: those that can be used, and what cannot be, with the reason; without Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ..tables import Column, Table

CORRUPT_SAMPLES: Final = Table(
    "corrupt_samples",
    "a line, a row of Parquet, or what cannot be read at all, that is no sample, set aside",
    (
        Column("file", "string", "path of the file, or of a folder that cannot be read"),
        Column("place", "bigint", "bytes before the line; of Parquet: rows before the row, or the row group"),
        Column("problem", "string", "why it is no sample"),
        Column(
            "record",
            "string",
            "the line, with U+FFFD for what is no UTF-8; of Parquet: the row as JSON; "
            "empty = what follows the place cannot be read",
        ),
    ),
)

ARROW: Final = pa.schema(
    [
        ("registry", pa.string()),
        ("client", pa.string()),
        ("at_ms", pa.int64()),
        ("error_ms", pa.float64()),
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("latency_ms", pa.float64()),
        ("outcome", pa.string()),
        ("isolated", pa.bool_()),
        ("attempt", pa.int32()),
        ("position", pa.string()),
        ("share", pa.float64()),
    ]
)
"""SAMPLES as Arrow's type."""

_DEFAULTS: Final[dict[str, object]] = {"isolated": False, "attempt": 1, "position": ""}
"""What is meant when it is missing."""

MAY_BE_MISSING: Final = frozenset({"registry", "error_ms", *_DEFAULTS})
"""The columns that a sample need not have; of the first two, null has a meaning."""

_OUTCOMES: Final = pa.array(["ok", "failed", "error"])


class Corrupt(NamedTuple):
    """What is no sample: where it stands, why, and what it says."""

    place: int
    problem: str
    record: str


def of_lines(data: bytes, place: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the samples of whole lines of JSON that begin at this place, and each line that is none.

    What cannot be read as a whole is cut in halves until single lines are left.
    """
    pieces = [(data, place)]
    while pieces:
        data, place = pieces.pop()
        if not data.strip():
            continue
        found = _parsed(data)
        if isinstance(found, pa.Table):
            yield found
        elif cut := _middle(data):
            pieces += [(data[cut:], place + cut), (data[:cut], place)]
        else:
            yield Corrupt(place, found, data.rstrip(b"\r\n").decode(errors="replace"))


def of_table(table: pa.Table, place: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the samples among the rows of a table with the schema ARROW, and each row that is none."""
    table = _completed(table)
    good = _all_of([is_good for _, is_good in _checks(table)])
    yield table.filter(good)
    for number in pc.indices_nonzero(pc.invert(good)).to_pylist():
        row = table.slice(number, 1)
        record = json.dumps(row.to_pylist()[0], ensure_ascii=False, default=str)
        yield Corrupt(place + number, _problem(row), record)


def _parsed(data: bytes) -> pa.Table | str:
    """Return the samples if all lines are some, or else a reason."""
    if not data.lstrip().startswith(b"{"):  # pyarrow 26 crashes when the first value is null
        return "it cannot be read: it is no object"
    try:
        data.decode()  # Arrow does not look
        options = pj.ParseOptions(explicit_schema=ARROW, unexpected_field_behavior="ignore")
        table = pj.read_json(
            io.BytesIO(data),
            parse_options=options,
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"
    if table.num_rows != sum(1 for line in data.split(b"\n") if line.strip()):
        return "it cannot be read: there is more than one object in a line"
    table = _completed(table.select(ARROW.names))
    return _problem(table) or table


def _middle(data: bytes) -> int:
    """Return where a line begins in the middle; 0 = there is one line only."""
    half = data.find(b"\n", len(data) // 2) + 1
    return half if 0 < half < len(data) else data.rfind(b"\n", 0, len(data) - 1) + 1


def _completed(table: pa.Table) -> pa.Table:
    for name, value in _DEFAULTS.items():
        place = ARROW.get_field_index(name)
        filled = pc.fill_null(table.column(place), pa.scalar(value, ARROW.field(place).type))
        table = table.set_column(place, ARROW.field(place), filled)
    return of_registry(table, "")


def of_registry(table: pa.Table, registry: str) -> pa.Table:
    """Return the samples, those that name no registry with this one; empty = null."""
    place = ARROW.get_field_index("registry")
    told = pc.fill_null(table.column(place), "")
    named = pc.if_else(pc.equal(told, ""), pa.scalar(registry or None, pa.string()), told)
    return table.set_column(place, ARROW.field(place), named)


def _problem(table: pa.Table) -> str:
    """Return what is wrong with the rows; empty = nothing."""
    wrong = [name for name, is_good in _checks(table) if not pc.all(is_good, min_count=0).as_py()]
    return no_such_value(wrong) if wrong else ""


def no_such_value(columns: list[str]) -> str:
    """Return the problem of a row with values in these columns that no sample has."""
    return f"no sample has such a value: {', '.join(columns)}"


def _checks(table: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield for each column whether its values are good, which is never null."""
    finite, least = pc.is_finite, pc.greater_equal
    for name in ("client", "topic", "broker"):
        yield name, pc.is_valid(table[name])
    yield "outcome", pc.is_in(table["outcome"], value_set=_OUTCOMES)
    yield "at_ms", _never_null(least(table["at_ms"], 0))
    yield "attempt", _never_null(least(table["attempt"], 1))
    latency_ms, error_ms, share = (table[name] for name in ("latency_ms", "error_ms", "share"))
    yield "latency_ms", _never_null(pc.and_(finite(latency_ms), least(latency_ms, 0)))
    yield "error_ms", pc.fill_null(pc.and_(finite(error_ms), least(error_ms, 0)), fill_value=True)
    yield "share", _never_null(pc.and_(pc.greater(share, 0), pc.less_equal(share, 1)))


def _never_null(is_good: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(is_good, fill_value=False)


def _all_of(checks: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    good, *others = checks
    for other in others:
        good = pc.and_(good, other)
    return good
