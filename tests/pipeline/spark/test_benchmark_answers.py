"""The benchmark of all answers asks for all of them, and each has rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.spark.answers import Folder, Size, history_of
from sharedroutes.pipeline.report import ANSWERS, write_report

SMALL = Size(changes=4_000, brokers=20, topics=200, samples=2_000, clients=5)


@pytest.mark.long
def test_each_answer_of_the_catalogue_is_given_to_the_benchmark_and_has_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    told: list[str] = []
    write_report(history_of(SMALL, Folder(spark, tmp_path)), str(tmp_path / "report"), on_answer=told.append)
    assert told == [*ANSWERS, "page"]
    tables = tmp_path / "report" / "tables"
    empty = [name for name in ANSWERS if spark.read.parquet(str(tables / f"{name}.parquet")).isEmpty()]
    assert empty == []
