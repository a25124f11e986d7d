"""Batches of changes as Parquet: written aside, published once wherever a kill stops that, and read.

A batch is written below `_staging`, where no reader looks. Its last file, `_ready`, is the journal's entry:
without it the next start deletes what is staged, with it the next start goes on where this one stopped.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ..errors import PipelineError
from ..tables import Table
from . import layout
from .files import HadoopFiles, complete_below, place
from .journal import Entry, Parts, entry_path, newest_entry, nothing_kept, positions_of, prune
from .layout import READY, TABLES, BatchName, batch_folder, day_folder, folder_value, join
from .swaps import Swap

WRITE_OPTIONS: Final = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
"""A folder holds data and nothing else."""

SETTINGS: Final = {
    # The type that every reader of Parquet knows; Spark's default is one of its own past.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

_LOG: Final = logging.getLogger(__name__)
_MISSING: Final = (
    "%s may be missing in %s below %s: a compaction works on it, or was killed, and another one ends it"
)


class Stopping(Exception):
    """The job is to end: this batch is left for the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch that was published."""

    entry: Entry
    rows: int
    quarantined: int
    took_s: float
    """To write and publish it."""

    @property
    def batch(self) -> str:
        """Its name."""
        return str(self.entry.name)


@dataclass(slots=True, eq=False)
class Batches:
    """What Spark calls for each micro-batch; a batch that is called again is written once.

    Spark's checkpoint tells how far each goes; `done` gets each batch that was published.
    """

    files: HadoopFiles
    out: str
    checkpoint: str
    generation: int
    done: Callable[[Written], None]
    _newest: Entry | None = field(init=False)
    _writing: threading.Lock = field(init=False, default_factory=threading.Lock)
    _stopping: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._newest = newest_entry(self.files, self.out)

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Write a batch and publish it; raises Stopping, and PipelineError."""
        with self._writing:
            if self._stopping:
                raise Stopping("the ingest was told to stop")
            self._publish(batch, number)

    def stop(self, wait_s: float) -> None:
        """Take no more batches, and wait for the one that is being written."""
        self._stopping = True
        if self._writing.acquire(timeout=wait_s):
            self._writing.release()

    def _publish(self, batch: DataFrame, number: int) -> None:
        name = BatchName(self.generation, number)
        positions = positions_of(self.files, self.checkpoint, number)
        if self._is_published(name, positions):
            _LOG.info("batch %s was published before the last stop", name)
            return
        began_s = time.monotonic()
        staged = staging_folder(self.out, name)
        rows, quarantined, newest_ms = _write(batch, staged)
        before_ms = self._newest.newest_ms if self._newest is not None else 0
        entry = Entry(name=name, positions=positions, newest_ms=max(before_ms, newest_ms))
        publish(self.files, self.out, staged, entry)
        self._newest = entry
        took_s = time.monotonic() - began_s
        self.done(Written(entry=entry, rows=rows, quarantined=quarantined, took_s=took_s))

    def _is_published(self, name: BatchName, positions: Mapping[str, str]) -> bool:
        """Whether it is the newest one; raises PipelineError when the checkpoint and the output part ways."""
        newest = self._newest
        if newest is None or name > newest.name:
            return False
        if name == newest.name and dict(positions) == dict(newest.positions):
            return True
        raise PipelineError(
            f"batch {name} of the checkpoint is not the one that was published, the newest is {newest.name}: "
            "an older checkpoint was put back; delete it, and the ingest goes on after what is published"
        )


def written_columns(table: Table) -> list[str]:
    """Return the columns that stand in the files; day and batch are folders."""
    return [name for name in table.names if name not in ("day", "batch")]


def _write(batch: DataFrame, staged: str) -> tuple[int, int, int]:
    """Write a batch; return its number of rows without, and with a problem, and its latest `ms`."""
    for name, value in SETTINGS.items():
        batch.sparkSession.conf.set(name, value)  # of the query's own session
    seen = Observation()
    is_corrupt = F.col("problem").isNotNull()
    observed = batch.observe(
        seen,
        F.count(F.lit(1)).alias("rows"),
        F.count(F.col("problem")).alias("corrupt"),
        F.max("ms").alias("newest_ms"),
    )
    _save(observed.where(~is_corrupt), staged, layout.CHANGES_FOLDER)
    found = seen.get
    corrupt = int(found["corrupt"])
    if corrupt:
        _quarantine(batch.where(is_corrupt), corrupt, staged)
    return int(found["rows"]) - corrupt, corrupt, int(found["newest_ms"] or 0)


def _quarantine(bad: DataFrame, expected: int, staged: str) -> None:
    """Write the records that cannot be read; the registry is read once more for them."""
    seen = Observation()
    _save(bad.observe(seen, F.count(F.lit(1)).alias("rows")), staged, layout.QUARANTINE_FOLDER)
    found = int(seen.get["rows"])
    if found != expected:
        raise PipelineError(
            f"{expected} records could not be read, and {found} when they were read again to set them aside: "
            "the stream was trimmed meanwhile; start again"
        )


def _save(rows: DataFrame, staged: str, folder: str) -> None:
    days = rows.select(*written_columns(TABLES[folder]), _day().alias("day"))
    days.write.partitionBy("day").options(**WRITE_OPTIONS).parquet(join(staged, folder))


def _day() -> Column:
    """Return the UTC day of `ms`, whatever zone the session has."""
    return F.expr(
        f"string(date_add(date'1970-01-01', int(least(ms, {layout.MAX_DAY_MS}) div {layout.A_DAY_MS})))"
    )


def staging_folder(out: str, name: BatchName) -> str:
    """Return a new folder to stage a batch in: a killed job that still runs does not know it."""
    return join(out, layout.STAGED_BATCHES, f"{name}-{secrets.token_hex(4)}")


def publish(files: HadoopFiles, out: str, staged: str, entry: Entry) -> None:
    """Make a batch that is completely staged visible, and note it in the journal."""
    entry = replace(entry, parts=_parts(files, staged))
    files.still_alone()  # from here on, whoever finds it publishes it
    files.write(join(staged, READY), entry.to_json())
    _finish(files, out, staged, entry)


def recover(files: HadoopFiles, out: str) -> None:
    """Publish what a job that was killed had ready, and delete what it had not; raises PipelineError."""
    for staged, ready in complete_below(files, join(out, layout.STAGED_BATCHES)):
        _finish(files, out, staged, Entry.read(files, ready))
    prune(files, out)


def _finish(files: HadoopFiles, out: str, staged: str, entry: Entry) -> None:
    for table, day, names in entry.parts or _parts(files, staged):
        place(files, day_folder(staged, table, day), batch_folder(out, table, day, str(entry.name)), names)
    ready, noted = join(staged, READY), entry_path(out, entry.name)
    if files.exists(noted):  # an object store had copied it, and not yet deleted it here
        files.delete(ready)
    else:
        files.rename(ready, noted)
    files.delete(staged)
    prune(files, out)


def _parts(files: HadoopFiles, staged: str) -> Parts:
    """Return what is staged."""
    return [
        (table, day, files.names(day_folder(staged, table, day)))
        for table in TABLES
        for day in folder_value(files.names(join(staged, table)), "day")
    ]


def check_kept(out: str) -> None:
    """See that a folder of this machine holds what was ingested; raises BadOption. Spark need not run."""
    is_url = ":/" in out
    if not is_url and not any(Path(out, name).is_dir() for name in (layout.CHANGES_FOLDER, layout.JOURNAL)):
        raise nothing_kept(out)


def stored_changes(spark: SparkSession, out: str) -> DataFrame:
    """Return the changes below the `out` of an ingest, as STORED_CHANGES; raises BadOption."""
    return _read(spark, out, layout.CHANGES_FOLDER)


def quarantined(spark: SparkSession, out: str) -> DataFrame:
    """Return the records that were set aside, as QUARANTINE; raises BadOption."""
    return _read(spark, out, layout.QUARANTINE_FOLDER)


def _read(spark: SparkSession, out: str, folder: str) -> DataFrame:
    files, table = HadoopFiles(spark, out), TABLES[folder]
    _warn_of_swaps(files, out, folder)
    path = join(out, folder)
    newest = newest_entry(files, out)  # raises for a form that only newer releases know
    if folder_value(files.names(path), "day"):
        return spark.read.schema(table.schema).parquet(path).select(*table.names)
    if newest is None:
        raise nothing_kept(out)
    return spark.createDataFrame([], table.schema)


def _warn_of_swaps(files: HadoopFiles, out: str, folder: str) -> None:
    """Warn of days that a compaction has taken out, to put new ones in their place, or was killed at that."""
    staged = join(out, layout.STAGED_SWAPS)
    for name in files.names(staged):
        ready = join(staged, name, READY)
        try:
            swap = Swap.read(files, ready) if files.exists(ready) else None
        except PipelineError:  # it has ended meanwhile
            continue
        if swap is not None and swap.table == folder:
            _LOG.warning(_MISSING, swap.day, folder, out)
