"""The tables of a report, written by Spark, and what the page needs of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from ..errors import PipelineError
from ..ingest.files import HadoopFiles, make_folder, not_writable
from ..ingest.layout import join
from .catalogue import Answer

_TABLES: Final = "tables"
_UNFINISHED: Final = "_unfinished"
_SUFFIXES: Final = (".parquet", ".csv")
_AT_HAND: Final = 1_000
"""So many rows of a table are brought to the driver, those first that matter most."""

_URL: Final = "://"


class Found:
    """An answer that was written: only its first rows and what it comes to are brought to the driver."""

    def __init__(self, answer: Answer, frame: DataFrame, total: int) -> None:
        self.answer = answer
        self.frame = frame
        """All of it, as it was written."""

        self.total = total
        """How many rows there are."""

        self.top: Sequence[Row] = frame.orderBy(*answer.by).limit(_AT_HAND).collect() if total else ()
        """The first rows, those first that matter most."""

    def sums(self, **columns: Expression) -> Row:
        """Return what aggregates come to."""
        found: Row = self.frame.agg(*(column.alias(name) for name, column in columns.items())).collect()[0]
        return found


class Output:
    """The folder of a report, on any file system that Spark knows.

    Tables are written aside, in `_unfinished`, which is there until all is done: a report that is killed
    leaves an older one as it was.
    """

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self._out = out
        self._files = HadoopFiles(spark, out)
        self._aside = join(out, _UNFINISHED)
        self._kept: dict[str, tuple[DataFrame, int]] = {}

    def check(self) -> None:
        """See that something can be written there; raises BadOption."""
        try:
            self._files.delete(self._aside)
            self._files.write(join(self._aside, "_probe"), "")
            self._files.delete(self._aside)
        except PipelineError as error:
            raise not_writable("report", self._out, str(error)) from error

    def write(self, answer: Answer, found: DataFrame) -> Found:
        """Write an answer as Parquet, if it is not kept, and as CSV, in which lists are JSON."""
        self.keep(answer.name, found)
        done = Found(answer, *self._kept[answer.name])
        self._write_csv(done)
        return done

    def keep(self, name: str, found: DataFrame) -> DataFrame:
        """Write what answers are made from as Parquet; return it as it stands there."""
        if name not in self._kept:
            path, counted = join(self._aside, f"{name}.parquet"), Observation()
            found.observe(counted, F.count(F.lit(1)).alias("total")).write.parquet(path)
            self._kept[name] = self._spark.read.schema(found.schema).parquet(path), counted.get["total"]
        return self._kept[name][0]

    def _write_csv(self, found: Found) -> None:
        """Write a table as CSV: a small one, which is at hand, as one file in its order."""
        folder, table = join(self._aside, f"{found.answer.name}.csv"), found.answer.table
        if found.total == len(found.top):
            text = io.StringIO()
            lines = csv.writer(text, lineterminator="\n")
            lines.writerow(table.names)
            lines.writerows([_plain(value) for value in row] for row in found.top)
            self._files.write(join(folder, "part-0.csv"), text.getvalue())
            return
        lists = {
            column.name: F.to_json(column.name) for column in table.columns if column.type.startswith("array")
        }
        found.frame.withColumns(lists).write.csv(folder, header=True, escape='"')

    def finish(self, names: Collection[str], known: Collection[str], page: str, text: str) -> str:
        """Let tables and page take the place of an older report, all of whose tables go; return its path.

        All is written by then, so that a disk which is full leaves the older one as it was, too.
        """
        partly, path = join(self._aside, page), join(self._out, page)
        self._files.write(partly, text)
        for name in (f"{one}{suffix}" for one in known for suffix in _SUFFIXES):
            self._files.delete(join(self._out, _TABLES, name))
            if name.partition(".")[0] in names:
                self._files.rename(join(self._aside, name), join(self._out, _TABLES, name))
        here, there = self._files.local(partly), self._files.local(path)
        if here is not None and there is not None:
            here.replace(there)
        else:
            self._files.delete(path)
            self._files.rename(partly, path)
        self._files.delete(self._aside)
        return path


def _plain(value: object) -> object:
    """Return a value as Spark writes it to CSV, and a list as JSON."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(timespec="milliseconds")
        case list():
            return orjson.dumps(value).decode()
    return value


def check_out(out: str) -> None:
    """See that a report can be written into a folder, if it is on this machine; raises BadOption."""
    if _URL in out:
        return
    for folder in (Path(out), Path(out) / _TABLES):
        make_folder("report", folder)
