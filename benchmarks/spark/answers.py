"""How long all answers to the history of a registry take.

The history is made by Spark itself, the same in each run, and written to Parquet first, as the ingest would
have. The answers are those of a report, in its order; each is written to Parquet. Memory is that of this
process, the Java process and all workers, sampled while an answer is worked out.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline import SessionConfig, session
from sharedroutes.pipeline.report.gathering import History, answers

from ..kit.figures import Benchmark, Figure, Outcome, at_most
from .made import Size, changes, routes, samples

_SAMPLE_S: Final = 0.5
_MOST_MINUTES: Final = 10.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")

QUICK: Final = Size(changes=200_000, brokers=500, topics=20_000, samples=50_000, clients=50)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the tables stand, by name."""

    spark: SparkSession
    path: Path

    def read(self, name: str) -> DataFrame:
        """Return the table that was written."""
        return self.spark.read.parquet(str(self.path / name))

    def write(self, name: str, frame: DataFrame) -> None:
        """Write a table."""
        frame.write.parquet(str(self.path / name))


def run(size: Size) -> Outcome:
    """Measure; raises JavaMissing."""
    config = SessionConfig(master="local[2]", driver_memory=size.driver_memory)
    spark = session(config)
    try:
        with tempfile.TemporaryDirectory(prefix="sharedroutes-answers-") as path:
            return _measure(size, Folder(spark, Path(path)))
    finally:
        spark.stop()


def _measure(size: Size, folder: Folder) -> Outcome:
    tables = {"changes": changes, "samples": samples, "routes": routes}
    for name, made in tables.items():
        folder.write(name, made(folder.spark, size))
    history = History(
        changes=folder.read("changes"), samples=folder.read("samples"), routes=folder.read("routes")
    )
    took_s, rows = {}, []
    with _Memory() as memory:
        begin_s = time.perf_counter()
        for table, found in answers(history):
            folder.write(table.name, found)
            took_s[table.name] = time.perf_counter() - begin_s
            rows.append(f"{table.name} {folder.read(table.name).count():,}")
            begin_s = time.perf_counter()
    return Outcome(
        [
            *(Figure(name, "s", [s]) for name, s in took_s.items()),
            Figure("all answers", "min", [sum(took_s.values()) / 60], at_most(_MOST_MINUTES)),
            Figure("memory at most", "MB", [memory.most_bytes / 1e6]),
        ],
        [
            f"{size.changes:,} changes of {size.brokers:,} brokers and {size.topics:,} topics",
            f"{size.samples:,} samples of {size.clients:,} clients; local[2], {size.driver_memory} of heap",
            f"rows: {', '.join(rows)}",
        ],
    )


class _Memory:
    """The most memory that this process and its descendants had at once, each for itself alone."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self.most_bytes = max(self.most_bytes, sum(map(_resident_bytes, _family(os.getpid()))))


def _family(pid: int) -> set[int]:
    """Return a process and its descendants."""
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text(encoding="ascii").split():
            found |= _family(int(child))
    return found


def _resident_bytes(pid: int) -> int:
    """Return what a process has in memory and shares with no other; 0 = it has ended."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


BENCHMARK: Final = Benchmark(
    "How long do all answers to a registry's history take?",
    partial(run, Size()),
    partial(run, QUICK),
)
