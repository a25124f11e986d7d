"""The source of changes under Spark: batch, stream, checkpoints, losses, several registries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sharedroutes.pipeline.schemas import CHANGES, GAP
from sharedroutes.registry.keys import Keys

KEY = Keys("sharedroutes").changes
LIMIT = "1000"


def write(admin: redis.Redis, first: int, last: int, key: str = KEY) -> list[str]:
    """Write entries first-0 to last-0; return their ids."""
    pipeline = admin.pipeline(transaction=False)
    for number in range(first, last + 1):
        record = b'{"kind":"topics","broker":"b","id":0,"epoch":%d,"added":["t1","t2"]}' % number
        pipeline.xadd(key, {"c": record}, id=f"{number}-0")
    pipeline.execute()
    return [f"{number}-0" for number in range(first, last + 1)]


def ids(table: DataFrame) -> list[str]:
    return [row.change_id for row in table.orderBy("registry", "ms", "seq").select("change_id").collect()]


class Sink:
    """A stream that is written into a folder."""

    def __init__(self, spark: SparkSession, folder: Path, **options: Any) -> None:
        self._spark = spark
        self._folder = folder
        self._options = options

    def read(self) -> list[int]:
        """Read what is there; return how many rows each batch has."""
        query: StreamingQuery = (
            self._spark.readStream.format("route_changes")
            .options(**self._options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(self._folder / "data"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        sizes = (progress["numInputRows"] for progress in query.recentProgress)
        return [size for size in sizes if size]

    def table(self) -> DataFrame:
        return self._spark.read.parquet(str(self._folder / "data"))


def test_a_batch_has_the_schema_and_every_change(
    spark: SparkSession, redis_url: str, admin: redis.Redis
) -> None:
    written = write(admin, 1, 5_000)
    table = spark.read.format("route_changes").option("url", redis_url).option("partitions", 2).load()
    assert table.schema == CHANGES.schema
    assert table.rdd.getNumPartitions() == 2
    assert ids(table) == written
    (found,) = table.selectExpr(
        "sum(size(added)) as added", "max(at) as at", "count(problem) as bad"
    ).collect()
    assert (found.added, found.at.timestamp(), found.bad) == (10_000, 5.0, 0)


def test_a_stream_is_read_in_batches_and_goes_on_at_its_checkpoint(
    spark: SparkSession, redis_url: str, admin: redis.Redis, tmp_path: Path
) -> None:
    sink = Sink(spark, tmp_path, url=redis_url, maxChangesPerTrigger=LIMIT)
    written = write(admin, 1, 2_500)
    assert sink.read() == [1_000, 1_000, 500]
    written += write(admin, 2_501, 2_600)
    assert sink.read() == [100]
    assert ids(sink.table()) == written


def test_what_was_lost_since_the_checkpoint_is_an_error_or_a_gap(
    spark: SparkSession, redis_url: str, admin: redis.Redis, tmp_path: Path
) -> None:
    written = write(admin, 1, 10)
    Sink(spark, tmp_path, url=redis_url).read()
    write(admin, 11, 20)
    admin.xtrim(KEY, maxlen=5, approximate=False)
    with pytest.raises(StreamingQueryException, match="no change stands at 10-0 any more"):
        Sink(spark, tmp_path, url=redis_url).read()
    marking = Sink(spark, tmp_path, url=redis_url, onLoss="mark")
    assert marking.read() == [6]
    table = marking.table()
    assert ids(table.where(f"kind <> '{GAP}'")) == [*written, *(f"{number}-0" for number in range(16, 21))]
    (gap,) = table.where(f"kind = '{GAP}'").collect()
    assert (gap.change_id, gap.key, gap.reason) == ("10-0", "16-0", "trimmed")


def test_several_registries_are_one_stream(
    spark: SparkSession, redis_url: str, admin: redis.Redis, tmp_path: Path
) -> None:
    write(admin, 1, 3)
    write(admin, 2, 5, Keys("south").changes)
    listed = f'[{{"url": "{redis_url}"}}, {{"url": "{redis_url}", "namespace": "south"}}]'
    sink = Sink(spark, tmp_path, registries=listed)
    assert sink.read() == [7]
    assert {row.registry: row["count"] for row in sink.table().groupBy("registry").count().collect()} == {
        "sharedroutes": 3,
        "south": 4,
    }
