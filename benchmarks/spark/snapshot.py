"""How long does Spark take to read a table of 1,000,000 entries, and to load one?

Peers: one thread of redis-py with HGETALL, and a pipeline of Lua scripts that check nothing. Ratio: Spark
to each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import redis
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.load import LoadSummary, Target, load
from sharedroutes.pipeline.session import SessionConfig, session
from sharedroutes.registry import EmbeddedServer, RegistryConfig
from sharedroutes.registry.codec import encode_config
from sharedroutes.registry.keys import Keys

from ..kit.figures import Figure, Outcome, at_most, interleave, ratio, seconds
from ..kit.workload import Table, broker, spread, topic_names

_READ: Final = "snapshot through Spark"
_HGETALL: Final = "one thread, redis-py HGETALL"
_LOAD: Final = "bulk load through Spark"
_BARE: Final = "bare pipelined Lua write"

_BROKERS_PER_TOPIC: Final = 4
_CHUNK: Final = 300
_CALLS_A_PIPELINE: Final = 10

_BARE_TABLE: Final = "redis.call('HSET', KEYS[1], unpack(ARGV))"
_BARE_INDEX: Final = """
local words = {}
for i = 1, #KEYS do
  words[2 * i - 1], words[2 * i] = KEYS[i], ARGV[i]
end
redis.call('MSET', unpack(words))
"""
"""The route indexes, ready-made with the rows of all brokers: each is written once."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 3
    brokers: int = 100
    topics_a_broker: int = 10_000


QUICK: Final = Size(rounds=2, brokers=10)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError and JavaMissing."""
    entries = size.brokers * size.topics_a_broker
    of_brokers = spread(topic_names(entries // _BROKERS_PER_TOPIC), _BROKERS_PER_TOPIC, size.brokers)
    spark = session(SessionConfig(app_name="benchmark", settings={"spark.ui.showConsoleProgress": "false"}))
    try:
        with (
            EmbeddedServer() as server,
            redis.Redis.from_url(server.url) as client,
            tempfile.TemporaryDirectory() as folder,
        ):
            return _measure(size, of_brokers, spark, server.url, client, Path(folder))
    finally:
        spark.stop()


def _measure(
    size: Size,
    of_brokers: Sequence[Table],
    spark: SparkSession,
    url: str,
    client: redis.Redis,
    folder: Path,
) -> Outcome:
    parquet = str(folder / "topics.parquet")
    _write_parquet(of_brokers, parquet)
    bare = _BareWrite(client, of_brokers)
    keys = Keys(RegistryConfig().namespace)

    def fill() -> float:
        client.flushall()
        return seconds(partial(_load, spark, parquet, Target(url=url), sum(map(len, of_brokers))))

    def read() -> float:
        frame = spark.read.format("routes").option("url", url).load()
        return seconds(partial(_read, frame, sum(map(len, of_brokers))))

    # The load leaves behind what is read.
    contestants = {
        _BARE: bare.seconds,
        _LOAD: fill,
        _READ: read,
        _HGETALL: lambda: seconds(partial(_hgetall, client, keys, len(of_brokers))),
    }
    values = interleave(size.rounds, contestants)
    found = {name: Figure(name, "s", rounds) for name, rounds in values.items()}
    return Outcome(
        [
            *found.values(),
            ratio(found[_LOAD], found[_BARE], at_most(3)),
            ratio(found[_READ], found[_HGETALL]),
        ],
        [
            f"{size.brokers} brokers of {size.topics_a_broker:,} topics, each topic on {_BROKERS_PER_TOPIC}",
            "snapshot: read, decoded and aggregated in Spark; HGETALL: bytes in a dict, nothing decoded",
            "bulk load: from Parquet, every row checked, every table fenced; the session is running",
            "bare write: HSET of the tables and MSET of ready-made indexes, arguments made beforehand",
            f"bare write: {_CHUNK} topics a call, {_CALLS_A_PIPELINE} calls a pipeline, nothing checked",
        ],
    )


def _write_parquet(of_brokers: Sequence[Table], path: str) -> None:
    columns: dict[str, list[object]] = {
        "broker": [], "topic": [], "read_queue_nums": [], "write_queue_nums": [], "perm": []
    }  # fmt: skip
    for number, table in enumerate(of_brokers):
        columns["broker"] += [broker(number).broker_name] * len(table)
        columns["topic"] += table
        columns["read_queue_nums"] += [config.read_queue_nums for config in table.values()]
        columns["write_queue_nums"] += [config.write_queue_nums for config in table.values()]
        columns["perm"] += [config.perm for config in table.values()]
    pq.write_table(pa.table(columns), path, row_group_size=100_000)


def _load(spark: SparkSession, parquet: str, target: Target, entries: int) -> None:
    done: LoadSummary = load(spark, spark.read.parquet(parquet), target)
    if done.added != entries:
        raise AssertionError(f"{done.added} of {entries} were loaded")


def _read(frame: DataFrame, entries: int) -> None:
    (row,) = frame.selectExpr("count(topic)", "sum(read_queue_nums)", "count(problem)").collect()
    if row[0] != entries or row[2]:
        raise AssertionError(f"{row[0]} of {entries} were read, {row[2]} with a problem")


def _hgetall(client: redis.Redis, keys: Keys, brokers: int) -> None:
    for number in range(brokers):
        client.hgetall(keys.broker_topics(broker(number).broker_name))


class _BareWrite:
    """The same tables and indexes in chunks, and none of the checks."""

    def __init__(self, client: redis.Redis, of_brokers: Sequence[Table]) -> None:
        self._client = client
        keys = Keys(RegistryConfig().namespace)
        self._tables: list[tuple[str, list[str | bytes]]] = []
        rows: dict[str, list[bytes]] = {}
        for number, table in enumerate(of_brokers):
            name = broker(number).broker_name
            encoded = [(topic, encode_config(config)) for topic, config in table.items()]
            for topic, config in encoded:
                rows.setdefault(topic, []).append(name.encode() + b" " + config)
            for start in range(0, len(encoded), _CHUNK):
                words = [word for pair in encoded[start : start + _CHUNK] for word in pair]
                self._tables.append((keys.broker_topics(name), words))
        indexes = [(keys.topic(topic), b"\n".join(of)) for topic, of in rows.items()]
        self._indexes = [indexes[start : start + _CHUNK] for start in range(0, len(indexes), _CHUNK)]

    def seconds(self) -> float:
        """Return how long it takes to write all of it into an empty server."""
        self._client.flushall()
        table, index = (self._client.script_load(script) for script in (_BARE_TABLE, _BARE_INDEX))
        calls = [(table, 1, key, *words) for key, words in self._tables]
        calls += [
            (index, len(part), *[key for key, _ in part], *[value for _, value in part])
            for part in self._indexes
        ]
        return seconds(partial(self._write, calls))

    def _write(self, calls: Sequence[tuple[object, ...]]) -> None:
        for start in range(0, len(calls), _CALLS_A_PIPELINE):
            pipeline = self._client.pipeline(transaction=False)
            for call in calls[start : start + _CALLS_A_PIPELINE]:
                pipeline.execute_command("EVALSHA", *call)
            pipeline.execute()
