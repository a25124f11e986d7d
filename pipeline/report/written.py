"""The tables of a report, written by Spark, and what the page needs of them."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from functools import cached_property
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from ..errors import BadOption, PipelineError
from ..ingest.files import HadoopFiles
from ..ingest.layout import join
from .catalogue import Answer

_TABLES: Final = "tables"
_SUFFIXES: Final = (".parquet", ".csv")
_ONE_FILE: Final = 100_000
"""So many rows of a table are one file of CSV, in the order of the page."""

_URL: Final = "://"


class Found:
    """An answer that was written: only its first rows and what it comes to are brought to the driver."""

    def __init__(self, answer: Answer, frame: DataFrame) -> None:
        self.answer = answer
        self.frame = frame
        """All of it, as it was written."""

    @cached_property
    def total(self) -> int:
        """How many rows there are."""
        return self.frame.count()

    @property
    def shown(self) -> DataFrame:
        """The rows that the page tells of, those that matter most first."""
        rows = self.frame.where(self.answer.only) if self.answer.only else self.frame
        return rows.orderBy(*self.answer.by)

    def first(self, count: int, where: str = "true") -> list[Row]:
        """Return the first of the rows that the page tells of."""
        return self.shown.where(where).limit(count).collect()


class Output:
    """The folder of a report, on any file system that Spark knows."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self._out = out
        self._files = HadoopFiles(spark, out)

    def check(self) -> None:
        """See that something can be written there; raises BadOption."""
        probe = join(self._out, _TABLES, "_probe")
        try:
            self._files.delete(probe)
            self._files.write(probe, "")
            self._files.delete(probe)
        except PipelineError as error:
            raise _not_writable(self._out, str(error)) from error

    def write(self, answer: Answer, found: DataFrame) -> Found:
        """Write an answer as Parquet and as CSV, in which lists are JSON."""
        parquet, csv = (self._path(answer.name, suffix) for suffix in _SUFFIXES)
        found.write.mode("overwrite").parquet(parquet)
        done = Found(answer, self._spark.read.schema(answer.table.schema).parquet(parquet))
        rows = done.frame.orderBy(*answer.by).coalesce(1) if done.total <= _ONE_FILE else done.frame
        lists = {
            column.name: F.to_json(column.name)
            for column in answer.table.columns
            if column.type.startswith("array")
        }
        rows.withColumns(lists).write.mode("overwrite").csv(csv, header=True, escape='"')
        return done

    def keep_only(self, names: Collection[str], known: Collection[str]) -> None:
        """Remove tables of an older report, which were about another time."""
        for name in {*known} - {*names}:
            for suffix in _SUFFIXES:
                self._files.delete(self._path(name, suffix))

    def write_page(self, name: str, text: str) -> str:
        """Write a page, where it can in the place of an older one in one step; return its path."""
        path = join(self._out, name)
        local = self._files.local(path)
        if local is not None:
            partly = local.with_name(f".{name}.part")
            partly.write_text(text, encoding="utf-8")
            partly.replace(local)
        else:
            self._files.delete(path)
            self._files.write(path, text)
        return path

    def _path(self, name: str, suffix: str) -> str:
        return join(self._out, _TABLES, f"{name}{suffix}")


def check_out(out: str) -> None:
    """See that a report can be written into a folder, if it is on this machine; raises BadOption."""
    if _URL in out:
        return
    for folder in (Path(out), Path(out) / _TABLES):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise _not_writable(str(folder), error.strerror) from error


def _not_writable(folder: str, why: str | None) -> BadOption:
    return BadOption.of("report", "out", f"nothing can be written to {folder}: {why}; name another folder")
