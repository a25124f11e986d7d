"""How fast the history of a registry is answered: sessions, availability, detection and churn.

The history is made by Spark itself, the same in each run: brokers that register, write their topics, expire
or stop, and come back. It is written to Parquet first, as the ingest would have; every answer reads it from
there and writes its table to Parquet again, which is what a report does. Memory is that of this process, the
Java process and all workers, sampled while an answer is worked out.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sharedroutes.pipeline import SessionConfig, session
from sharedroutes.pipeline.answers.availability import outage_causes, topic_availability, topic_outages
from sharedroutes.pipeline.answers.churn import churn, storms, topic_lives
from sharedroutes.pipeline.answers.detection import avoidance, detection, detection_summary
from sharedroutes.pipeline.answers.sessions import broker_sessions
from sharedroutes.pipeline.answers.uptime import (
    broker_availability,
    broker_reliability,
    cluster_availability,
    flaps,
)
from sharedroutes.pipeline.schemas import CHANGES, SAMPLES

from .harness import Benchmark, Figure, Outcome, at_most, seconds

__all__ = ["BENCHMARK", "Size", "run"]

_START_MS: Final = 1_700_000_000_000
_STEP_MS: Final = 250
"""Between two changes: 10,000,000 of them are 29 days."""

_TURNS: Final = 20
"""Changes of a broker from one up to the next: up, its topics again and again, and at last down."""

_TOGETHER: Final = 10
"""One in so many pairs of brokers goes down at once; the others take turns."""

_TTL_MS: Final = 10_000
_ADDED: Final = 4
"""Topics that a record brings; the next one takes half of them away, and the one after it changes one."""

_SAMPLE_S: Final = 0.5
_MOST_MINUTES: Final = 10.0
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")

Answers: TypeAlias = dict[str, Callable[["Folder"], DataFrame]]


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    changes: int = 10_000_000
    brokers: int = 10_000
    topics: int = 1_000_000
    samples: int = 2_000_000
    clients: int = 1_000
    driver_memory: str = "4g"


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

    def answer(self, name: str, answer: Callable[[Folder], DataFrame]) -> None:
        """Work out a table from those that stand there, and write it."""
        self.write(name, answer(self))


_ANSWERS: Final[Answers] = {
    "broker_sessions": lambda of: broker_sessions(of.read("changes")),
    "broker_availability": lambda of: broker_availability(of.read("broker_sessions")),
    "cluster_availability": lambda of: cluster_availability(of.read("broker_availability")),
    "broker_reliability": lambda of: broker_reliability(of.read("broker_sessions")),
    "flaps": lambda of: flaps(of.read("broker_sessions")),
    "topic_outages": lambda of: topic_outages(of.read("changes"), of.read("broker_sessions")),
    "topic_availability": lambda of: topic_availability(of.read("changes"), of.read("topic_outages")),
    "outage_causes": lambda of: outage_causes(of.read("topic_outages")),
    "avoidance": lambda of: avoidance(of.read("broker_sessions"), of.read("samples"), look_s=60),
    "detection": lambda of: detection(of.read("broker_sessions"), of.read("avoidance")),
    "detection_summary": lambda of: detection_summary(of.read("detection"), of.read("avoidance")),
    "churn": lambda of: churn(of.read("changes")),
    "storms": lambda of: storms(of.read("changes")),
    "topic_lives": lambda of: topic_lives(of.read("changes"), of.read("samples")),
}
"""In the order in which one needs the other."""


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
    folder.write("changes", _changes(folder.spark, size))
    folder.write("samples", _samples(folder.spark, size))
    figures, total_s, rows = [], 0.0, []
    with _Memory() as memory:
        for name, answer in _ANSWERS.items():
            took_s = seconds(partial(folder.answer, name, answer))
            total_s += took_s
            figures.append(Figure(name, "changes/s", [size.changes / took_s]))
            rows.append(f"{name} {folder.read(name).count():,}")
    return Outcome(
        [
            *figures,
            Figure("all answers", "min", [total_s / 60], at_most(_MOST_MINUTES)),
            Figure("memory at most", "MB", [memory.most_bytes / 1e6]),
        ],
        [
            f"{size.changes:,} changes of {size.brokers:,} brokers and {size.topics:,} topics",
            f"{size.samples:,} samples of {size.clients:,} clients; local[2], {size.driver_memory} of heap",
            f"rows: {', '.join(rows)}",
        ],
    )


def _changes(spark: SparkSession, size: Size) -> DataFrame:
    """Return a history in which pairs of brokers hold the same topics, and each broker comes and goes."""
    number, turn, broker, pair = F.col("id"), F.col("turn"), F.col("broker_no"), F.col("pair")
    apart = F.when(pair % _TOGETHER == 0, 0).otherwise(broker % 2 * (_TURNS // 2))
    step = (turn + pair + apart) % _TURNS
    ms = _START_MS + number * _STEP_MS
    is_up, is_down = step == 0, step == _TURNS - 1
    is_expired = is_down & (_hash("expired", number) % 2 == 0)
    what = F.when(is_up, "up").when(is_down, "down").otherwise("topics")
    no_names = F.array().cast("array<string>")  # no column is made before there is a session
    names = F.when(what == "topics", _topics(turn, pair, size)).otherwise(no_names)
    values = {
        "registry": F.lit("r"),
        "change_id": F.concat(ms, F.lit("-0")),
        "ms": ms,
        "seq": F.lit(0),
        "at": F.timestamp_millis(ms),
        "kind": what,
        "broker": F.format_string("broker-%05d", broker),
        "broker_id": F.lit(0),
        "epoch": turn,
        "cluster": F.concat(F.lit("cluster-"), pair % 20),
        "address": F.concat(F.lit("host:"), broker),
        "reason": F.when(is_expired, "expired").when(is_down, "agent stopped").otherwise(""),
        "added": F.when(turn % 3 == 0, names).otherwise(no_names),
        "removed": F.when(turn % 3 == 1, F.slice(names, 1, _ADDED // 2)).otherwise(no_names),
        "changed": F.when(turn % 3 == 2, F.slice(names, _ADDED, 1)).otherwise(no_names),
        "lease_ttl_ms": F.when(is_up, F.lit(_TTL_MS)),
        "lease_ended_ms": F.when(is_expired, ms - _hash("late", number) % 50),
    }
    rows = (
        spark.range(size.changes, numPartitions=16)
        .withColumn("turn", F.floor(number / size.brokers))
        .withColumn("broker_no", number % size.brokers)
        .withColumn("pair", F.floor(F.col("broker_no") / 2))
    )
    return rows.select(
        *(values.get(one.name, F.lit(None)).cast(one.type).alias(one.name) for one in CHANGES.columns)
    )


def _topics(turn: Column, pair: Column, size: Size) -> Column:
    """Return the topics that are dealt with in three turns of a pair of brokers, which has its own ones."""
    of_pair = 2 * size.topics // size.brokers
    first = F.floor(turn / 3) * _ADDED
    return F.transform(
        F.sequence(F.lit(0), F.lit(_ADDED - 1)),
        lambda i: F.concat(F.lit("topic-"), (pair * of_pair + (first + i) % of_pair).cast("string")),
    )


def _samples(spark: SparkSession, size: Size) -> DataFrame:
    """Return attempts of clients, all through the history."""
    number = F.col("id")
    ms = _START_MS + number * (size.changes * _STEP_MS // size.samples)
    failed = _hash("failed", number) % 10 == 0
    values = {
        "registry": F.lit(None),
        "client": F.concat(F.lit("client-"), _hash("client", number) % size.clients),
        "at_ms": ms,
        "error_ms": F.lit(1.0),
        "topic": F.concat(F.lit("topic-"), _hash("topic", number) % size.topics),
        "broker": F.format_string("broker-%05d", _hash("broker", number) % size.brokers),
        "latency_ms": F.lit(2.0),
        "outcome": F.when(failed, "failed").otherwise("ok"),
        "isolated": F.lit(col=False),
        "attempt": F.lit(1),
        "position": F.concat(ms - 100, F.lit("-0")),
        "share": F.lit(0.01),
    }
    rows = spark.range(size.samples, numPartitions=8)
    return rows.select(*(values[one.name].cast(one.type).alias(one.name) for one in SAMPLES.columns))


def _hash(of: str, number: Column) -> Column:
    return F.pmod(F.xxhash64(F.lit(of), number), F.lit(1 << 40))


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
    "How long do sessions, availability, detection and churn of a registry's history take?",
    partial(run, Size()),
    partial(run, QUICK),
)
