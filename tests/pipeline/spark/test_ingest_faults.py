"""An ingest while the disk is full, or the store is away: it says so, and nothing is lost or double."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from sharedroutes.pipeline.ingest import IngestConfig, IngestFailed, ingest
from sharedroutes.registry import EmbeddedServer
from tests.pipeline.ingest_history import add, entries, ids_on, ids_once, write_again

TOO_LITTLE_BYTES = 16_384


@contextmanager
def little_room(spark: SparkSession) -> Iterator[None]:
    """Let Spark's Java write no file that is larger than a few KB: a quota that needs no rights."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc.pid
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (TOO_LITTLE_BYTES, before[1]))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of another process")
def test_a_disk_that_is_full_is_said_and_what_was_there_is_there_once_afterwards(
    spark: SparkSession, redis_url: str, tmp_path: Path
) -> None:
    client = redis.Redis.from_url(redis_url)
    config = IngestConfig(out=str(tmp_path / "out"), url=redis_url, once=True)
    add(client, 10)
    ingest(spark, config)
    before = ids_on(Path(config.out))
    add(client, 5_000)

    with (
        little_room(spark),
        pytest.raises(IngestFailed, match="File too large; make room and start it again"),
    ):
        ingest(spark, config)
    assert ids_on(Path(config.out)) == before
    assert ingest(spark, config).rows == 5_000
    assert ids_on(Path(config.out)) == ids_once(client)


def test_a_store_that_comes_back_with_its_data_leaves_no_trace(
    spark: SparkSession, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    config = IngestConfig(out=str(tmp_path / "out"), url=own_server.url, once=True, patience_s=0)
    with redis.Redis.from_url(own_server.url) as client:
        add(client, 10)
        ingest(spark, config)
        kept = entries(client)
    own_server.kill()
    with pytest.raises(IngestFailed, match="the ingest failed: "):
        ingest(spark, config)
    own_server.start()
    with redis.Redis.from_url(own_server.url) as client:
        write_again(client, kept)
        add(client, 10)
        assert ingest(spark, config).rows == 10
        assert ids_on(Path(config.out)) == ids_once(client)
