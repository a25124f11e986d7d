"""The ingest on a real Spark: each change once, for Spark and for who lists all files."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow.dataset as ds
import pytest
import redis
from pyspark.sql import SparkSession

from sharedroutes.pipeline.errors import BadOption, ChangesLost, PipelineError
from sharedroutes.pipeline.ingest import (
    IngestConfig,
    IngestProgress,
    ingest,
    quarantined,
    stored_changes,
)
from sharedroutes.pipeline.schemas import QUARANTINE, STORED_CHANGES
from sharedroutes.registry import EmbeddedServer
from tests.pipeline.ingest_history import STREAM, add, entries, ids_on, ids_once, record
from tests.support import wait_until

NOON_MS = 1_790_078_400_000
"""2026-09-22 12:00 UTC."""

A_DAY_MS = 86_400_000


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


@pytest.fixture
def config(redis_url: str, tmp_path: Path) -> IngestConfig:
    return IngestConfig(out=str(tmp_path / "out"), url=redis_url, once=True)


def ids_in_spark(spark: SparkSession, out: str) -> Counter[str]:
    return Counter(row.change_id for row in stored_changes(spark, out).select("change_id").collect())


def test_changes_stand_by_day_and_batch_and_what_cannot_be_read_beside_them(
    spark: SparkSession, client: redis.Redis, config: IngestConfig
) -> None:
    out = Path(config.out)
    midnight_ms = NOON_MS + A_DAY_MS // 2
    add(client, 20, ms=midnight_ms - 10)
    client.xadd(STREAM, {"c": "{"}, id=f"{midnight_ms + 100}-0")
    client.xadd(STREAM, {"c": b'{"kind":"of another version","broker":"b"}'}, id=f"{midnight_ms + 101}-0")
    told: list[IngestProgress] = []

    done = ingest(spark, config, on_progress=told.append)

    assert (done.batches, done.rows, done.quarantined) == (1, 20, 2)
    assert done.positions == {"sharedroutes": f"{midnight_ms + 101}-0"}
    (progress,) = told
    assert (progress.written.batch, progress.total_rows, progress.written.quarantined) == (
        "0001-000000000000",
        20,
        2,
    )
    assert [room.unread for room in progress.headroom] == [0]
    days = {path.name: len(list(path.rglob("*.parquet"))) for path in (out / "changes").iterdir()}
    assert days == {"day=2026-09-22": 1, "day=2026-09-23": 1}
    seen = ds.dataset(str(out / "changes"), partitioning="hive").to_table()
    assert set(seen.column_names) == set(STORED_CHANGES.names)
    stored = stored_changes(spark, config.out)
    assert tuple(stored.columns) == STORED_CHANGES.names
    assert stored.where("day = '2026-09-23'").count() == 10
    aside = quarantined(spark, config.out)
    assert tuple(aside.columns) == QUARANTINE.names
    assert min(row.record for row in aside.collect()) == "{"
    assert ids_on(out) + ids_on(out, "quarantine") == ids_once(client)


def test_the_next_run_goes_on_after_the_last_and_a_checkpoint_that_is_gone_is_no_harm(
    spark: SparkSession, client: redis.Redis, config: IngestConfig
) -> None:
    add(client, 30)
    first = ingest(spark, config)
    idle = ingest(spark, config)
    assert (idle.rows, idle.positions) == (0, first.positions)  # else it would be taken for far behind
    add(client, 20)
    shutil.rmtree(config.checkpoint_folder)

    assert ingest(spark, config).rows == 20
    add(client, 10)
    assert ingest(spark, config).rows == 10
    assert ids_on(Path(config.out)) == ids_once(client)
    batches = {row.batch for row in stored_changes(spark, config.out).select("batch").collect()}
    assert sorted(batches) == ["0001-000000000000", "0002-000000000000", "0002-000000000001"]


def test_several_registries_go_on_each_at_its_own_place(
    spark: SparkSession, client: redis.Redis, config: IngestConfig
) -> None:
    listed = [{"name": name, "url": config.url, "namespace": name} for name in ("north", "south")]
    both = replace(config, url="", registries=orjson.dumps(listed).decode())
    add(client, 10, stream="{north}:changes", ms=NOON_MS)
    add(client, 10, stream="{south}:changes", ms=NOON_MS + A_DAY_MS)
    ingest(spark, both)
    shutil.rmtree(both.checkpoint_folder)
    add(client, 5, stream="{north}:changes", ms=NOON_MS + 10)
    add(client, 5, stream="{south}:changes", ms=NOON_MS + A_DAY_MS + 10)

    assert ingest(spark, both).rows == 10
    expected = ids_once(client, "{north}:changes") + ids_once(client, "{south}:changes")
    assert ids_on(Path(both.out)) == expected


def test_it_is_stopped_between_batches_and_outlives_a_store_that_was_away(
    spark: SparkSession, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    config = IngestConfig(out=str(tmp_path / "out"), url=own_server.url, trigger_s=0.1, on_loss="mark")
    stop = threading.Event()
    told: list[IngestProgress] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(ingest, spark, config, stop=stop, on_progress=told.append)
        with redis.Redis.from_url(own_server.url) as client:
            add(client, 10)
        wait_until(lambda: told, timeout_s=60, description="the first batch")
        own_server.kill()
        own_server.start()
        with redis.Redis.from_url(own_server.url) as client:
            add(client, 10)
        try:
            wait_until(lambda: told[-1].total_rows >= 21, timeout_s=60, description="a batch with a gap")
        finally:
            stop.set()
        done = running.result()
    assert done.rows == 21
    kinds = Counter(row.kind for row in stored_changes(spark, config.out).select("kind").collect())
    assert kinds == {"topics": 20, "gap": 1}


def test_a_store_that_was_emptied_is_an_error_or_a_gap_as_it_is_wanted(
    spark: SparkSession, client: redis.Redis, config: IngestConfig
) -> None:
    add(client, 10)
    ingest(spark, config)
    last = entries(client)[-1][0].decode()
    client.delete(STREAM)
    add(client, 5)

    with pytest.raises(ChangesLost, match=f"no change stands at {last} any more"):
        ingest(spark, config)
    assert ingest(spark, replace(config, on_loss="mark")).rows == 6
    gaps = stored_changes(spark, config.out).where("kind = 'gap'").select("change_id", "reason").collect()
    assert [(gap.change_id, gap.reason) for gap in gaps] == [(last, "emptied")]
    add(client, 5)
    assert ingest(spark, config).rows == 5


def test_who_wants_no_corrupt_records_is_told_and_can_go_on_later(
    spark: SparkSession, client: redis.Redis, config: IngestConfig
) -> None:
    client.xadd(STREAM, {"c": record(1)})
    client.xadd(STREAM, {"other": "x"})
    with pytest.raises(PipelineError, match="has no field `c`"):
        ingest(spark, replace(config, on_corrupt="fail"))
    done = ingest(spark, config)
    assert (done.rows, done.quarantined) == (1, 1)


def test_an_option_that_the_source_refuses_is_named(spark: SparkSession, config: IngestConfig) -> None:
    with pytest.raises(BadOption, match=r"^ingest: on_loss: 'shrug' is none of fail, mark$"):
        ingest(spark, replace(config, on_loss="shrug"))


def test_two_do_not_write_below_the_same_folder(spark: SparkSession, config: IngestConfig) -> None:
    stop, began = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        endless = replace(config, once=False, trigger_s=0.1)
        running = pool.submit(ingest, spark, endless, stop=stop, on_progress=lambda _: began.set())
        with redis.Redis.from_url(config.url) as client:
            add(client, 1)
        try:
            wait_until(began.is_set, timeout_s=60, description="the first batch")
            with pytest.raises(PipelineError, match="another ingest works below"):
                ingest(spark, config)
        finally:
            stop.set()
        assert running.result().rows == 1
