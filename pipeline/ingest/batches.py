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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from ..errors import PipelineError
from ..tables import Table
from . import layout
from .files import HadoopFiles, complete_below, place
from .journal import Entry, Parts, entry_path, newest_entry, nothing_kept, positions_of, prune
from .layout import READY, TABLES, BatchName, batch_folder, day_folder, folder_value, join
from .swaps import Swap

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
        rows = batch.toArrow()
        newest_ms = max(self._newest.newest_ms if self._newest else 0, pc.max(rows["ms"]).as_py() or 0)
        parts = stage(self.files, rows, staged)
        entry = Entry(name=name, positions=positions, newest_ms=newest_ms, parts=parts)
        publish(self.files, self.out, staged, entry)
        self._newest = entry
        took_s = time.monotonic() - began_s
        good = rows["problem"].null_count
        self.done(Written(entry=entry, rows=good, quarantined=len(rows) - good, took_s=took_s))

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


def stage(files: HadoopFiles, rows: pa.Table, staged: str) -> Parts:
    """Write the rows of a batch, a file for each day, and those with a problem apart; return their names."""
    is_corrupt = rows["problem"].is_valid()
    days = pc.divide(pc.min_element_wise(rows["ms"], layout.MAX_DAY_MS), layout.A_DAY_MS)
    masks = {layout.CHANGES_FOLDER: pc.invert(is_corrupt), layout.QUARANTINE_FOLDER: is_corrupt}
    parts = []
    for table, is_its in masks.items():
        for number in days.filter(is_its).unique().to_pylist():
            found = rows.filter(pc.and_(is_its, pc.equal(days, number)))
            sink = pa.BufferOutputStream()
            pq.write_table(found.select(written_columns(TABLES[table])), sink, store_schema=False)
            day, name = layout.day_of(number * layout.A_DAY_MS), f"{secrets.token_hex(8)}.parquet"
            files.create(join(day_folder(staged, table, day), name), sink.getvalue())
            parts.append((table, day, [name]))
    return parts


def staging_folder(out: str, name: BatchName) -> str:
    """Return a new folder to stage a batch in: a killed job that still runs does not know it."""
    return join(out, layout.STAGED_BATCHES, f"{name}-{secrets.token_hex(4)}")


def publish(files: HadoopFiles, out: str, staged: str, entry: Entry) -> None:
    """Make a batch that is completely staged visible, and note it in the journal."""
    files.still_alone()  # from here on, whoever finds it publishes it
    files.write(join(staged, READY), entry.to_json())
    _finish(files, out, staged, entry)


def recover(files: HadoopFiles, out: str) -> None:
    """Publish what a job that was killed had ready, and delete what it had not; raises PipelineError."""
    for staged, ready in complete_below(files, join(out, layout.STAGED_BATCHES)):
        _finish(files, out, staged, Entry.read(files, ready))
    prune(files, out)


def _finish(files: HadoopFiles, out: str, staged: str, entry: Entry) -> None:
    for table, day, names in entry.parts:
        place(files, day_folder(staged, table, day), batch_folder(out, table, day, str(entry.name)), names)
    ready, noted = join(staged, READY), entry_path(out, entry.name)
    if files.exists(noted):  # an object store had copied it, and not yet deleted it here
        files.delete(ready)
    else:
        files.rename(ready, noted)
    files.delete(staged)
    prune(files, out)


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
