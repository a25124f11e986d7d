"""Writes a micro-batch: one job when every record can be read, and one more for those that cannot."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from ..errors import PipelineError
from ..schemas import QUARANTINE, STORED_CHANGES
from ..tables import Table
from .files import Files
from .journal import Entry, newest_entry
from .layout import CHANGES_FOLDER, MAX_DAY_MS, QUARANTINE_FOLDER, BatchName, join
from .publishing import publish, staging_folder

WRITE_OPTIONS: Final = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
"""A folder holds data and nothing else."""

SETTINGS: Final = {
    # The type that every reader of Parquet knows; Spark's default is one of its own past.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

_A_DAY_MS: Final = 86_400_000
_LOG: Final = logging.getLogger(__name__)


class Stopping(Exception):
    """The job is to end: this batch is left for the next start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch that was published."""

    entry: Entry
    rows: int
    quarantined: int
    took_s: float


class Batches:
    """What Spark calls for each micro-batch; a batch that is called again is written once.

    `positions` tells from the number of a batch how far it goes; `done` gets each batch that was published.
    """

    def __init__(
        self,
        files: Files,
        out: str,
        generation: int,
        positions: Callable[[int], Mapping[str, str]],
        done: Callable[[Written], None],
    ) -> None:
        self._files = files
        self._out = out
        self._generation = generation
        self._positions = positions
        self._done = done
        self._newest = newest_entry(files, out)
        self._writing = threading.Lock()
        self._stopping = False

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
        name = BatchName(self._generation, number)
        positions = self._positions(number)
        if self._is_published(name, positions):
            _LOG.info("batch %s was published before the last stop", name)
            return
        began_s = time.monotonic()
        staged = staging_folder(self._out, name)
        rows, quarantined, newest_ms = _write(batch, staged)
        before_ms = self._newest.newest_ms if self._newest is not None else 0
        entry = Entry(name=name, positions=positions, newest_ms=max(before_ms, newest_ms))
        publish(self._files, self._out, staged, entry)
        self._newest = entry
        took_s = time.monotonic() - began_s
        self._done(Written(entry=entry, rows=rows, quarantined=quarantined, took_s=took_s))

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
    _save(observed.where(~is_corrupt), STORED_CHANGES, join(staged, CHANGES_FOLDER))
    found = seen.get
    corrupt = int(found["corrupt"])
    if corrupt:
        _quarantine(batch.where(is_corrupt), corrupt, join(staged, QUARANTINE_FOLDER))
    return int(found["rows"]) - corrupt, corrupt, int(found["newest_ms"] or 0)


def _quarantine(bad: DataFrame, expected: int, folder: str) -> None:
    """Write the records that cannot be read; the registry is read once more for them."""
    seen = Observation()
    _save(bad.observe(seen, F.count(F.lit(1)).alias("rows")), QUARANTINE, folder)
    found = int(seen.get["rows"])
    if found != expected:
        raise PipelineError(
            f"{expected} records could not be read, and {found} when they were read again to set them aside: "
            "the stream was trimmed meanwhile; start again"
        )


def _save(rows: DataFrame, table: Table, folder: str) -> None:
    columns = written_columns(table)
    rows.select(*columns, _day().alias("day")).write.partitionBy("day").options(**WRITE_OPTIONS).parquet(
        folder
    )


def _day() -> Column:
    """Return the UTC day of `ms`, whatever zone the session has."""
    return F.expr(f"string(date_add(date'1970-01-01', int(least(ms, {MAX_DAY_MS}) div {_A_DAY_MS})))")
