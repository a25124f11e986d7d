"""Samples out of Parquet: what can be used of a file, however broken it is; without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import PipelineError
from .sample_rows import ARROW, MAY_BE_MISSING, Corrupt, no_such_value, of_table

_NEEDED: Final = tuple(name for name in ARROW.names if name not in MAY_BE_MISSING)

_MOST_ROWS: Final = 2**62
"""A broken file can say anything of the rows before one; so many are a place in a table still."""


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
    wrong = _wrong(schema)
    return f"its columns are not those of send_samples: {wrong}" if wrong else ""


def _wrong(schema: pa.Schema) -> str:
    if missing := [name for name in _NEEDED if name not in schema.names]:
        return f"there is no {', '.join(missing)}"
    for wanted in ARROW:
        if (count := schema.names.count(wanted.name)) > 1:
            return f"there are {count} called {wanted.name}"
        if count and not _fits(of_file := schema.field(wanted.name).type, wanted.type):
            return f"{wanted.name} is {of_file}, not {wanted.type}"
    return ""


def _fits(of_file: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type can be cast; times cannot, because nothing says in which unit they become."""
    if pa.types.is_temporal(of_file):
        return False
    try:
        pa.chunked_array([], of_file).cast(wanted)
    except pa.ArrowException:
        return False
    return True


def _of_columns(table: pa.Table, place: int) -> Iterator[pa.Table | Corrupt]:
    """Yield the rows with the types of ARROW, and each row that has a value which cannot be cast."""
    wrong: dict[int, list[str]] = {}
    columns = []
    for field in ARROW:
        if field.name in table.column_names:
            column, bad = _cast(table[field.name], field.type)
            for row in bad:
                wrong.setdefault(row, []).append(field.name)
        else:
            column = pa.nulls(len(table), field.type)
        columns.append(column)
    found = pa.Table.from_arrays(columns, schema=ARROW)
    begin = 0
    for row in sorted(wrong):
        if row > begin:
            yield from of_table(found.slice(begin, row - begin), place + begin)
        yield Corrupt(place + row, no_such_value(wrong[row]), _record(table.slice(row, 1)))
        begin = row + 1
    yield from of_table(found.slice(begin), place + begin)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> tuple[pa.ChunkedArray, list[int]]:
    """Return the values, null for each that cannot be cast, and the places of those.

    What cannot be cast as a whole is cut in halves until single values are left.
    """
    found: list[pa.Array] = []
    bad: list[int] = []
    pieces = [(0, len(column))]
    while pieces:
        begin, count = pieces.pop()
        try:
            cast = column.slice(begin, count).cast(wanted)
            cast.validate(full=True)  # Parquet's texts need not be UTF-8
            found += cast.chunks
        except pa.ArrowInvalid:
            if count == 1:
                found.append(pa.nulls(1, wanted))
                bad.append(begin)
            else:
                half = count // 2
                pieces += [(begin + half, count - half), (begin, half)]
    return pa.chunked_array(found, wanted), bad


def _record(row: pa.Table) -> str:
    """Return a row as JSON, with U+FFFD for what is no UTF-8."""
    for number, field in enumerate(row.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            row = row.set_column(number, field.name, row.column(number).cast(pa.large_binary()))
    return json.dumps(row.to_pylist()[0], ensure_ascii=False, default=_text)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
