"""How long do all answers to a registry's history take?

The history is made by Spark itself, the same in each run, and written to Parquet first, as the ingest would
have; it comes with samples, routes, faults and an objective, so that every answer there is can be given. What
is measured is the report on it: all answers as tables, and the page. Memory is that of this process, the Java
process and all workers, sampled meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sharedroutes.pipeline import SessionConfig, session
from sharedroutes.pipeline.report import History, write_report
from sharedroutes.pipeline.schemas import CHANGES, FAULTS, ROUTES, SAMPLES
from sharedroutes.pipeline.tables import Table

from ..kit.figures import Figure, Outcome, at_most
from ..kit.usage import peak_memory, shared_mb

_SAMPLE_S: Final = 0.5
_MOST_MINUTES: Final = 4.0
_MOST_MB: Final = 3_000.0
_START_MS: Final = 1_700_000_000_000
_STEP_MS: Final = 250
"""Between two changes: 10,000,000 of them are 29 days."""

_TURNS: Final = 20
"""Changes of a broker from one up to the next: up, its topics again and again, and at last down."""

_LIFTED_EVERY: Final = 500
"""One in so many changes is an operator's, who gives a write permission back."""

_TOGETHER: Final = 10
"""One in so many pairs of brokers goes down at once; the others take turns."""

_TTL_MS: Final = 10_000
_ADDED: Final = 4
"""Topics that a record brings; the next one takes half of them away, and the one after it changes one."""

_OBJECTIVE: Final = 99.9
_DRILLS: Final = 10
"""One in so many leases that expired did so because somebody killed the broker."""

_ALONE: Final = 100
"""One in so many topics is at the first broker of its pair only."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    changes: int = 10_000_000
    brokers: int = 10_000
    topics: int = 1_000_000
    samples: int = 2_000_000
    clients: int = 1_000
    driver_memory: str = "1536m"


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
    history = history_of(size, folder)
    begun_s: dict[str, float] = {}
    with peak_memory(shared_mb, _SAMPLE_S) as peak_mb:
        done = write_report(
            history,
            str(folder.path / "report"),
            on_answer=lambda name: begun_s.update({name: time.perf_counter()}),
        )
        end_s = time.perf_counter()
    ends_s = [*[*begun_s.values()][1:], end_s]
    took_s = {name: after_s - at_s for (name, at_s), after_s in zip(begun_s.items(), ends_s, strict=True)}
    return Outcome(
        [
            *(Figure(name, "s", [s]) for name, s in took_s.items()),
            Figure("all answers", "min", [sum(took_s.values()) / 60], at_most(_MOST_MINUTES)),
            Figure("memory at most", "MB", peak_mb, at_most(_MOST_MB)),
        ],
        [
            f"{size.changes:,} changes of {size.brokers:,} brokers and {size.topics:,} topics",
            f"{size.samples:,} samples of {size.clients:,} clients; local[2], {size.driver_memory} of heap",
            f"page: {Path(done.page).stat().st_size / 1000:,.0f} kB",
        ],
    )


def history_of(size: Size, folder: Folder) -> History:
    """Write a history that all answers can be given to; return it as it stands there."""
    tables = {"changes": _changes, "samples": _samples, "routes": _routes, "faults": _faults}
    for name, made in tables.items():
        folder.write(name, made(folder.spark, size))
    changes, samples, routes, faults = map(folder.read, tables)
    return History(
        changes=changes,
        samples=samples,
        routes=routes,
        faults=faults,
        slo=_OBJECTIVE,
        until_ms=_START_MS + size.changes * _STEP_MS,
    )


def _changes(spark: SparkSession, size: Size) -> DataFrame:
    """Return a history in which pairs of brokers hold the same topics, and each broker comes and goes."""
    number, turn, broker, pair = F.col("id"), F.col("turn"), F.col("broker_no"), F.col("pair")
    apart = F.when(pair % _TOGETHER == 0, 0).otherwise(broker % 2 * (_TURNS // 2))
    step = (turn + pair + apart) % _TURNS
    ms = _START_MS + number * _STEP_MS
    is_up, is_down = step == 0, step == _TURNS - 1
    is_expired = is_down & (_hash("expired", number) % 2 == 0)
    is_lifted = number % _LIFTED_EVERY == _LIFTED_EVERY - 1
    what = F.when(is_up, "up").when(is_down, "down").when(is_lifted, "lifted").otherwise("topics")
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
    return _as(rows, CHANGES, values)


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
        "latency_ms": F.lit(1.0) + _hash("latency", number) % 1_000 / 100,
        "outcome": F.when(failed, "failed").otherwise("ok"),
        "isolated": F.lit(col=False),
        "attempt": F.lit(1),
        "position": F.concat(ms - 100, F.lit("-0")),
        "share": F.lit(0.01),
    }
    rows = spark.range(size.samples, numPartitions=8)
    return _as(rows, SAMPLES, values)


def _routes(spark: SparkSession, size: Size) -> DataFrame:
    """Return the topics of each pair of brokers, nearly all at both of them, with 4 to 11 queues."""
    number = F.col("id")
    of_pair = 2 * size.topics // size.brokers
    pair, second = F.floor(number / (2 * of_pair)), number % 2
    topic = pair * of_pair + F.floor(number % (2 * of_pair) / 2)
    values = {
        "registry": F.lit("r"),
        "broker": F.format_string("broker-%05d", 2 * pair + second),
        "cluster": F.concat(F.lit("cluster-"), pair % 20),
        "topic": F.concat(F.lit("topic-"), topic),
        "read_queue_nums": 4 + topic % 8,
        "write_queue_nums": 4 + topic % 8,
        "perm": F.lit(6),
        "topic_sys_flag": F.lit(0),
        "order": F.lit(col=False),
        "topic_filter_type": F.lit("SINGLE_TAG"),
        "wiped": F.lit(col=False),
        "live_ids": F.array(F.lit(0)),
        "master_address": F.concat(F.lit("host:"), 2 * pair + second),
    }
    rows = spark.range(2 * size.topics, numPartitions=8).where((second == 0) | (topic % _ALONE != 0))
    return _as(rows, ROUTES, values)


def _faults(spark: SparkSession, size: Size) -> DataFrame:
    """Return the kills of some brokers whose leases expired, each a second after the last heartbeat."""
    ended = _changes(spark, size).where(
        (F.col("reason") == "expired") & (_hash("drill", F.col("ms")) % _DRILLS == 0)
    )
    values = {
        "registry": F.col("registry"),
        "at_ms": F.col("lease_ended_ms") - _TTL_MS + 1_000,
        "broker": F.col("broker"),
        "what": F.lit("killed"),
    }
    return _as(ended, FAULTS, values)


def _as(rows: DataFrame, table: Table, values: dict[str, Column]) -> DataFrame:
    """Return rows with the columns of a table; those without a value are null."""
    return rows.select(
        *(values.get(one.name, F.lit(None)).cast(one.type).alias(one.name) for one in table.columns)
    )


def _hash(of: str, number: Column) -> Column:
    return F.pmod(F.xxhash64(F.lit(of), number), F.lit(1 << 40))
