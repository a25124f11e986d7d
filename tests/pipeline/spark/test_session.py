"""The session runs with the pipeline's settings, and its workers with this interpreter."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from sharedroutes.pipeline.session import SessionConfig


def test_the_workers_run_the_interpreter_of_this_process(spark: SparkSession) -> None:
    executables = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    assert executables == [sys.executable]


def test_times_are_utc(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_setting_of_the_caller_goes_before_all_others() -> None:
    config = SessionConfig(settings={"spark.sql.shuffle.partitions": "9"})
    assert config.spark_settings()["spark.sql.shuffle.partitions"] == "9"


def test_without_a_master_spark_runs_here_unless_spark_submit_says_otherwise() -> None:
    assert SessionConfig().spark_settings()["spark.master"] == "local[*,4]"
    assert "spark.master" not in SessionConfig().spark_settings(submitted=True)
    named = SessionConfig(master="yarn").spark_settings(submitted=True)
    assert named["spark.master"] == "yarn"


def test_a_cluster_gets_no_settings_of_a_laptop() -> None:
    settings = SessionConfig(master="spark://host:7077").spark_settings()
    assert "spark.driver.bindAddress" not in settings
    assert "spark.driver.memory" not in settings
