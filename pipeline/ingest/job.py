"""The ingest itself: a streaming query that is watched, stopped between batches, and begun again."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import IngestFailed, failure, store_is_away
from .batches import Batches, Written, recover
from .config import SOURCE, IngestConfig
from .files import HadoopFiles, make_folder, only_one
from .headroom import Headroom, Watch
from .journal import begin, check_registries, newest_entry, starting_position

_POLL_S: Final = 0.1
_LOOK_S: Final = 2.0
"""How often the streams are looked at while nothing is published."""

_LAST_BATCH_S: Final = 60.0
"""How long a batch that is being written may take to end when the ingest is to stop."""

_BEGIN_AGAIN_S: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """A batch that was published, and where the ingest stands."""

    written: Written
    total_rows: int
    """Of this run, so far."""

    headroom: tuple[Headroom, ...]
    """Of each registry that could be asked lately: how far the ingest is behind, and how near the trim."""


@dataclass(slots=True)
class IngestSummary:
    """What a run has published."""

    batches: int = 0
    rows: int = 0
    quarantined: int = 0
    positions: Mapping[str, str] = field(default_factory=dict)


def ingest(
    spark: SparkSession,
    config: IngestConfig,
    *,
    stop: threading.Event | None = None,
    on_progress: Callable[[IngestProgress], object] = lambda _: None,
) -> IngestSummary:
    """Keep the changes of registries as Parquet below `config.out`, each once; return what was published.

    It ends when `stop` is set (between two batches), with `config.once` when all is read; `on_progress` is
    called in this thread after each batch. Raises ChangesLost, IngestFailed and PipelineError.
    """
    files = HadoopFiles(spark, config.out)
    if (folder := files.local(config.out)) is not None:
        make_folder("ingest", folder)
    with only_one("ingest", files, config.out), Watch(config.sources(), config.kept, config.warn_at) as watch:
        recover(files, config.out)
        check_registries(files, config.out, [registry.name for registry in config.sources()])
        generation = begin(files, config.out, config.checkpoint_folder)
        newest = newest_entry(files, config.out)
        summary = IngestSummary(positions=newest.positions if newest else {})
        job = _Job(spark, config, files, generation, watch, on_progress, summary)
        job.run(stop or threading.Event())
        return summary


@dataclass(slots=True)
class _Job:
    """One run."""

    spark: SparkSession
    config: IngestConfig
    files: HadoopFiles
    generation: int
    watch: Watch
    on_progress: Callable[[IngestProgress], object]
    summary: IngestSummary
    written: queue.SimpleQueue[Written] = field(default_factory=queue.SimpleQueue)
    headroom: tuple[Headroom, ...] = ()
    looked_s: float = -_LOOK_S
    away_since_s: float | None = None

    def run(self, stop: threading.Event) -> None:
        """Run until the end, and begin again while the store is away; raises as ingest."""
        while not self._ends(stop):
            stop.wait(_BEGIN_AGAIN_S)
            recover(self.files, self.config.out)

    def _ends(self, stop: threading.Event) -> bool:
        """Run one query; return whether that was all, or the store went away."""
        config = self.config
        batches = Batches(self.files, config.out, config.checkpoint_folder, self.generation, self.written.put)
        try:
            query = self._query(batches)
            try:
                self._follow(query, stop)
            finally:
                # A batch that is being written is let finish, the next one is left for the next start.
                batches.stop(_LAST_BATCH_S)
                query.stop()
                while self._reported():
                    pass
        except PySparkException as error:
            failed = failure(error, "the ingest", IngestFailed)
            if not self._bears(error):
                raise failed from error
            _LOG.warning("%s; trying again", failed)
            return stop.is_set()
        return True

    def _query(self, batches: Batches) -> StreamingQuery:
        config = self.config
        names = [registry.name for registry in config.sources()]
        options = config.source_options(starting_position(self.summary.positions, names))
        rows = self.spark.readStream.format(SOURCE).options(**options).load()
        writer = rows.writeStream.foreachBatch(batches)
        writer = writer.option("checkpointLocation", config.checkpoint_folder)
        if config.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{round(config.trigger_s * 1_000)} milliseconds").start()

    def _follow(self, query: StreamingQuery, stop: threading.Event) -> None:
        """Return when the query has ended or is to be stopped; raises what it failed with."""
        while not stop.is_set():
            self._look()
            if not self._reported(_POLL_S) and not query.isActive:
                query.awaitTermination()  # raises what the query failed with
                return

    def _bears(self, error: PySparkException) -> bool:
        """Whether the store is away, and not for too long yet."""
        now_s = time.monotonic()
        self.away_since_s = self.away_since_s or now_s
        return store_is_away(error) and now_s - self.away_since_s < self.config.patience_s

    def _look(self, every_s: float = _LOOK_S) -> None:
        """Look at the streams when it is time, and see to the lock."""
        now_s = time.monotonic()
        if now_s - self.looked_s >= every_s:
            self.looked_s = now_s
            self.files.still_alone()
            self.headroom = self.watch.look(self.summary.positions)
            if len(self.headroom) == len(self.config.sources()):  # one that is away holds up all of them
                self.away_since_s = None

    def _reported(self, wait_s: float = 0.001) -> bool:
        """Tell about a batch that was published; return whether there was one."""
        try:
            written = self.written.get(timeout=wait_s)
        except queue.Empty:
            return False
        self.summary.batches += 1
        self.summary.rows += written.rows
        self.summary.quarantined += written.quarantined
        self.summary.positions = written.entry.positions
        self._look(0.0)  # what was known before the batch is out of date
        self.on_progress(IngestProgress(written, self.summary.rows, self.headroom))
        return True
