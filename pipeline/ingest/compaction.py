"""Makes of the many small files of a day that is over a few large ones, and drops the oldest days."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ..errors import BadOption, IngestFailed, PipelineError, failure
from ..sources.options import check_number
from ..tables import Table
from . import layout
from .batches import written_columns
from .files import HadoopFiles, only_one
from .journal import Entry, kept
from .layout import TABLES, BatchName, batch_folder, day_folder, folder_value, is_compacted, join
from .swaps import NEW, Swap, drop_day, recover_swaps, staged_swap, swap_in

_NAME: Final = "compact"
_KEY: Final = ("registry", "change_id", "kind")
_ORDER: Final = ("registry", "ms", "seq")
_FILE: Final = ".parquet"
_OPTIONS: Final = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", "compression": "zstd"}
"""A folder holds data and nothing else."""

_SETTINGS: Final = {
    # The type that every reader of Parquet knows; Spark's default is one of its own past.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Else Spark takes each small file for 4 MB of work, and has a task for 32 of them.
    "spark.sql.files.openCostInBytes": "65536",
}
_MIN_FILE_BYTES: Final = 1 << 20
_MAX_FILE_BYTES: Final = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactConfig:
    """What is compacted, and what is kept; raises BadOption for what makes no sense."""

    out: str
    """The `out` of the ingest."""

    keep_days: int = 0
    """Days to keep, the one of the newest change included; 0 = all."""

    file_bytes: int = 128 << 20
    """About how large a file is to be."""

    def __post_init__(self) -> None:
        if not self.out:
            raise BadOption.of(_NAME, "out", "names no folder")
        check_number(_NAME, "keep_days", self.keep_days, 0, 100_000)
        check_number(_NAME, "file_bytes", self.file_bytes, _MIN_FILE_BYTES, _MAX_FILE_BYTES)


@dataclass(frozen=True, slots=True)
class DayCompacted:
    """A day of a table that is one folder now."""

    table: str
    day: str
    rows: int
    duplicates: int
    """Rows that were left out, because they stood there already."""

    folders: int
    """That it was before."""

    bytes_before: int
    bytes_after: int


@dataclass(slots=True)
class CompactSummary:
    """What a compaction did."""

    compacted: list[DayCompacted] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    """Days that are gone, as `table/day`."""


def compact(
    spark: SparkSession, config: CompactConfig, *, on_day: Callable[[DayCompacted], object] = lambda _: None
) -> CompactSummary:
    """Put one folder in the place of the batches of each day that is over; return what was done.

    An ingest may run meanwhile, another compaction may not. What a killed one left is finished or undone
    first. Raises PipelineError, also when rows would be lost: then nothing is changed.
    """
    files = HadoopFiles(spark, config.out)
    kept(files, config.out)  # else a folder of somebody else would get a lock
    with only_one("compaction", files, config.out):
        recover_swaps(files, config.out)
        newest = kept(files, config.out)
        summary = CompactSummary()
        _drop(files, config, newest, summary)
        session = spark.newSession()
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        work = _Compaction(session, files, config, newest)
        try:
            for done in work.days():
                summary.compacted.append(done)
                on_day(done)
        except PipelineError:
            raise
        except Exception as error:  # Spark's, and Java's, which are not of Spark's classes
            raise failure(error, "the compaction", IngestFailed) from error
        return summary


def _drop(files: HadoopFiles, config: CompactConfig, newest: Entry, summary: CompactSummary) -> None:
    """Delete the days that are not to be kept, by the day of the newest change."""
    if not config.keep_days:
        return
    kept_days = timedelta(days=config.keep_days - 1)
    first_kept = (date.fromisoformat(newest.newest_day) - kept_days).isoformat()
    for table in TABLES:
        for day in _days(files, config.out, table):
            if day < first_kept:
                drop_day(files, config.out, table, day)
                summary.dropped.append(f"{table}/{day}")


@dataclass(frozen=True, slots=True)
class _Compaction:
    """One run; only batches that are published are touched: no replay writes those again."""

    spark: SparkSession
    files: HadoopFiles
    config: CompactConfig
    newest: Entry

    def days(self) -> Iterable[DayCompacted]:
        """Compact day by day."""
        for table in TABLES:
            for day in _days(self.files, self.config.out, table):
                if day < self.newest.newest_day:
                    yield from self._day(table, day)

    def _day(self, table: str, day: str) -> Iterable[DayCompacted]:
        out = self.config.out
        batches = self._published(table, day)
        if not batches or (len(batches) == 1 and is_compacted(batches[0])):
            return
        folders = [batch_folder(out, table, day, name) for name in batches]
        self._check_whole(day_folder(out, table, day))
        bytes_before = self.files.size(day_folder(out, table, day))
        staged = staged_swap(out)
        new = join(staged, NEW)
        try:
            rows, duplicates = self._write(TABLES[table], folders, bytes_before, new)
            bytes_after = self.files.size(new)
        except BaseException:
            self.files.delete(staged)
            raise
        name = layout.compacted_name(batches)
        swap_in(self.files, out, staged, Swap(table=table, day=day, batch=name, replaced=frozenset(batches)))
        yield DayCompacted(table, day, rows, duplicates, len(batches), bytes_before, bytes_after)

    def _published(self, table: str, day: str) -> list[str]:
        """Return the batches of a day that the journal has, and those of earlier compactions."""
        names = folder_value(self.files.names(day_folder(self.config.out, table, day)), "batch")
        batches = {name: BatchName.parse(name) for name in names}
        return [name for name, of in batches.items() if is_compacted(name) or (of and of <= self.newest.name)]

    def _write(self, table: Table, folders: list[str], size: int, new: str) -> tuple[int, int]:
        """Write the rows of some folders, each once; return how many there are, and how many were double."""
        before = self._read(table, *folders)
        key: list[str] = [name for name in _KEY if name in table.names]
        rows, distinct = _counts(before, key)
        unique = before.dropDuplicates(key) if distinct < rows else before
        parts = max(1, math.ceil(size / self.config.file_bytes))
        spread = unique.repartitionByRange(parts, *_ORDER) if parts > 1 else unique.repartition(1)
        ordered = spread.sortWithinPartitions(*_ORDER, "change_id")
        ordered.write.options(**_OPTIONS).parquet(new)
        after = self._read(table, new).count()
        if after != distinct:
            raise PipelineError(
                f"the compaction wrote {after} rows where there are {distinct}: nothing was changed"
            )
        return after, rows - distinct

    def _check_whole(self, folder: str) -> None:
        """Raise PipelineError for an empty file: Spark passes over it, as if there never were rows."""
        empty = self.files.first_empty(join(folder, "*", f"*{_FILE}"))
        if empty is not None:
            raise PipelineError(
                f"{empty} is empty, so what it held is lost: nothing was changed; put it back from a backup, "
                "or delete it"
            )

    def _read(self, table: Table, *folders: str) -> DataFrame:
        schema = StructType([table.schema[name] for name in written_columns(table)])
        return self.spark.read.schema(schema).parquet(*folders)


def _counts(rows: DataFrame, key: list[str]) -> tuple[int, int]:
    """Return the number of rows, and of different keys among them."""
    total, distinct = rows.groupBy(*key).count().agg(F.sum("count"), F.count("*")).collect()[0]
    return total or 0, distinct


def _days(files: HadoopFiles, out: str, table: str) -> list[str]:
    return [day for day in folder_value(files.names(join(out, table)), "day") if _is_day(day)]


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
