"""Writes tables of a report, each as one Parquet and one CSV file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from ..errors import BadOption

_NESTED: Final = (pa.types.is_list, pa.types.is_map, pa.types.is_struct)


def check_folder(folder: Path) -> None:
    """Make a folder for tables, and see that files can be written there; raises BadOption for `out`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what = f"nothing can be written to {folder}: {error.strerror}; name another folder"
        raise BadOption.of("report", "out", what) from error


def write_table(table: pa.Table, folder: Path, name: str) -> None:
    """Write `<name>.parquet` and `<name>.csv`; what is a list or a map is JSON in the CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"{name}.parquet")
    pa_csv.write_csv(_flat(table), folder / f"{name}.csv")


def _flat(table: pa.Table) -> pa.Table:
    for number, field in enumerate(table.schema):
        if any(is_nested(field.type) for is_nested in _NESTED):
            texts = pa.array([_json(value) for value in table.column(number).to_pylist()], pa.string())
            table = table.set_column(number, field.name, texts)
    return table


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value, default=str).decode()


def remove_table(folder: Path, name: str) -> None:
    """Remove the files of a table, if there are any."""
    for suffix in (".parquet", ".csv"):
        (folder / f"{name}{suffix}").unlink(missing_ok=True)
