"""Samples out of lines and Parquet: those that can be used, and what cannot be, with the reason."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from ..errors import PipelineError
from ..schemas import SAMPLES

ARROW: Final = SAMPLES.arrow

_DEFAULTS: Final[dict[str, object]] = {"isolated": False, "attempt": 1, "position": ""}
"""What is meant when it is missing."""

MAY_BE_MISSING: Final = frozenset({"registry", "error_ms", *_DEFAULTS})
"""The columns that a sample need not have; of the first two, null has a meaning."""

_OUTCOMES: Final = pa.array(["ok", "failed", "error"])
_NEEDED: Final = tuple(name for name in ARROW.names if name not in MAY_BE_MISSING)

_MOST_ROWS: Final = 2**62
"""A broken file can say anything of the rows before one; so many are a place in a table still."""


class Corrupt(NamedTuple):
    """What is no sample: where it stands, why, and what it says."""

    place: int
    problem: str
    record: str


def of_lines(data: bytes, place: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the samples of whole lines of JSON that begin at this place, and each line that is none.

    What cannot be read as a whole is cut in halves until single lines are left.
    """
    if not data.strip():
        return
    found = _parsed(data)
    if isinstance(found, pa.Table):
        yield found
    elif cut := _middle(data):
        yield from of_lines(data[:cut], place)
        yield from of_lines(data[cut:], place + cut)
    else:
        yield Corrupt(place, found, data.rstrip(b"\r\n").decode(errors="replace"))


def of_table(table: pa.Table, place: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the samples among the rows of a table with the schema ARROW, and each row that is none."""
    table = _completed(table)
    good = reduce(pc.and_, (is_good for _, is_good in _checks(table)))
    yield table.filter(good)
    for number in pc.indices_nonzero(pc.invert(good)).to_pylist():
        row = table.slice(number, 1)
        yield Corrupt(place + number, _problem(row), _record(row))


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


class BrokenFile(PipelineError):
    """A file that cannot be read as Parquet with samples; the message says why, and not which."""


def row_groups(file: Path) -> int:
    """Return how many row groups a file has; raises FileNotFoundError and BrokenFile."""
    with _opened(file) as opened:
        return int(opened.num_row_groups)


def of_row_group(file: Path, number: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the samples of a row group and each row that is none, or why nothing can be read.

    Raises FileNotFoundError.
    """
    place = 0
    try:
        with _opened(file) as opened:
            names = [name for name in ARROW.names if name in opened.schema_arrow.names]
            rows = [opened.metadata.row_group(one).num_rows for one in range(number)]
            place = min(sum(max(0, count) for count in rows), _MOST_ROWS)
            table = opened.read_row_group(number, columns=names)
    except FileNotFoundError:
        raise
    except BrokenFile as error:
        yield Corrupt(place, str(error), "")
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        yield Corrupt(place, f"the row group cannot be read: {error}", "")
    else:
        yield from _of_columns(table, place)


def _opened(file: Path) -> pq.ParquetFile:
    try:
        opened = pq.ParquetFile(file, page_checksum_verification=True)
        broken = _contradiction(opened.metadata) or _misfit(opened.schema_arrow)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BrokenFile(f"it cannot be read: {error}") from error
    if broken:
        opened.close()
        raise BrokenFile(broken)
    return opened


def _contradiction(metadata: pq.FileMetaData) -> str:
    """Return what cannot be of what a file says of its rows, of which some may be hidden; empty = nothing."""
    rows = sum(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    return "" if rows == metadata.num_rows else f"it has {rows} rows, and says {metadata.num_rows}"


def _misfit(schema: pa.Schema) -> str:
    """Return why no row of a file with these columns can be a sample; empty = some can."""
    wrong = []
    if missing := [name for name in _NEEDED if name not in schema.names]:
        wrong.append(f"there is no {', '.join(missing)}")
    for wanted in (field for field in ARROW if field.name in schema.names):
        if (count := schema.names.count(wanted.name)) > 1:
            wrong.append(f"there are {count} called {wanted.name}")
        elif not _fits(of_file := schema.field(wanted.name).type, wanted):
            wrong.append(f"{wanted.name} is {of_file}, not {wanted.type}")
    return f"its columns are not those of send_samples: {wrong[0]}" if wrong else ""


def _fits(of_file: pa.DataType, wanted: pa.Field) -> bool:
    """Whether values of a type can be cast; times cannot, because nothing says in which unit they become."""
    return not pa.types.is_temporal(of_file) and _can_be_cast(pa.chunked_array([], of_file), wanted)


def _of_columns(table: pa.Table, place: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the rows with the types of ARROW, and each row that has a value which cannot be cast.

    What cannot be cast as a whole is cut in halves until single rows are left.
    """
    wanted = pa.schema([ARROW.field(name) for name in table.column_names])
    half = len(table) // 2
    if not (wrong := [field.name for field in wanted if not _can_be_cast(table[field.name], field)]):
        whole = pa.concat_tables([ARROW.empty_table(), table.cast(wanted)], promote_options="default")
        yield from of_table(whole, place)
    elif half:
        yield from _of_columns(table.slice(0, half), place)
        yield from _of_columns(table.slice(half), place + half)
    else:
        yield Corrupt(place, no_such_value(wrong), _record(table))


def _can_be_cast(column: pa.ChunkedArray, wanted: pa.Field) -> bool:
    try:
        column.cast(wanted.type).validate(full=True)  # Parquet's texts need not be UTF-8
    except pa.ArrowException:
        return False
    return True


def _record(row: pa.Table) -> str:
    """Return a row as JSON, with U+FFFD for what is no UTF-8."""
    for number, field in enumerate(row.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            row = row.set_column(number, field.name, row.column(number).cast(pa.large_binary()))
    return json.dumps(row.to_pylist()[0], ensure_ascii=False, default=_text)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
