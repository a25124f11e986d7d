"""Finds the line at which a file cannot be read: Spark names neither the file nor the line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

import orjson
from pyspark.sql import DataFrame, Row, SparkSession

Check: TypeAlias = Callable[[str], str | None]
"""Returns why a line is no row; None = it is one."""

_SHOWN: Final = 80


def bad_csv_line(spark: SparkSession, path: str) -> str | None:
    """Return file, line and what is wrong with the first line that is no row; None = nothing is found."""
    columns = len(spark.read.option("header", "true").csv(path).columns)

    def check(line: str) -> str | None:
        try:
            (cells,) = csv.reader([line], strict=True)
        except csv.Error as error:
            return str(error)
        return None if len(cells) == columns else f"has {len(cells)} columns, and the header {columns}"

    return _first_bad(spark.read.text(path), check, headers=1)


def bad_json_line(spark: SparkSession, path: str) -> str | None:
    """Return the same of lines of JSON."""
    return _first_bad(spark.read.text(path), _no_object, headers=0)


def _no_object(line: str) -> str | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"is no JSON: {error.msg} at column {error.colno}"
    return None if isinstance(found, dict) else "is no JSON object"


def _first_bad(lines: DataFrame, check: Check, *, headers: int) -> str | None:
    """Return the first line that is bad, of the first file that has one; tasks count the lines of blocks."""

    def counted(rows: Iterable[Row]) -> Iterator[tuple[str, int, int, Any]]:
        for (file, start), block in groupby(rows, key=itemgetter("file_path", "file_block_start")):
            count, bad = 0, None
            for row in block:
                line = row["value"]
                is_read = line.strip() and not (start == 0 and count < headers)
                if bad is None and is_read:
                    why = "is no UTF-8" if "\ufffd" in line else check(line)
                    bad = None if why is None else (count, why, line[:_SHOWN])
                count += 1
            yield file, start, count, bad

    blocks = lines.select("_metadata.file_path", "_metadata.file_block_start", "value")
    found = sorted(blocks.rdd.mapPartitions(counted).collect(), key=itemgetter(0, 1))
    for file, of_file in groupby(found, key=itemgetter(0)):
        before = 0
        for _, _, count, bad in of_file:
            if bad is not None:
                number, why, line = bad
                return f"{_plain(file)}, line {before + number + 1}: {why}: {line}"
            before += count
    return None


def _plain(url: str) -> str:
    """Return the path of a local file as people write it, and any other as it is."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url
