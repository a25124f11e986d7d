"""The pipeline on a real cluster of Spark: from the wheel alone, and through kills of its processes."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.fix_spark import need_java
from tests.pipeline.ingest_kills import Child, check, child, everything, writing
from tests.pipeline.processes.test_submit import bare_python, submit, zipped_wheel
from tests.pipeline.spark_cluster import Cluster, cluster

CHANGES: Final = 12_000
TOPICS: Final = "broker,topic,read_queue_nums,write_queue_nums\nbroker-b,orders,8,8\nbroker-b,bills,4,4\n"


@pytest.mark.timeout(1_800)
def test_its_commands_run_on_a_cluster_whose_machines_do_not_have_the_package(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    need_java()
    wheel, python = zipped_wheel(tmp_path), bare_python(tmp_path)
    (tmp_path / "topics.csv").write_text(TOPICS, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (
        cluster(tmp_path / "cluster", environment) as spark,
        RouteStore.from_url(own_server.url) as store,
    ):
        broker = Broker("broker-a", "10.0.0.1:10911", 0, "c1")
        store.register(broker, {"orders": TopicConfig("orders", 4, 4)})
        said = {}
        for command in (
            ("ingest", "--once", "--redis", own_server.url, "--out", tmp_path / "history"),
            ("report", "--changes", tmp_path / "history", "--routes", own_server.url, "--out", "report"),
            ("load", tmp_path / "topics.csv", "--cluster", "c1", "--redis", own_server.url),
        ):
            said[command[0]] = submit(spark.url, wheel, python, *command)
            assert _ran_on_workers(spark.folder), command
    assert "topics: 2 added" in said["load"]
    found = ds.dataset(tmp_path / "history" / "changes", partitioning="hive").to_table(columns=["kind"])
    assert sorted(found["kind"].to_pylist()) == ["topics", "up"]
    assert "broker-a" in (tmp_path / "report" / "report.html").read_text(encoding="utf-8")


def _ran_on_workers(folder: Path) -> bool:
    """Whether a task of the newest job ran on a worker: it fetches the package with its first task."""
    newest = max(path.name for path in folder.glob("worker-*/app-*"))
    return any(folder.glob(f"worker-*/{newest}/*/sharedroutes.zip"))


@pytest.mark.timeout(1_800)
def test_each_change_is_there_once_after_kills_of_executors_driver_and_master(
    own_server: EmbeddedServer, tmp_path: Path, spark: SparkSession
) -> None:
    out, rng = tmp_path / "out", random.Random(1)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with cluster(tmp_path / "cluster", environment) as of_spark:
        with writing(own_server.url, CHANGES, 40):
            with child(own_server.url, out, "endless", of_spark.url) as running:
                for _ in range(2):
                    _go_on(running)
                    of_spark.kill_executors(1)
                _go_on(running)
                everything(running, rng)
            with child(own_server.url, out, "endless", of_spark.url) as running:
                _go_on(running)
                _restart_master(of_spark)
                of_spark.kill_executors(2)  # only a master that knows the job gives it others
                _go_on(running)
        with child(own_server.url, out, "once", of_spark.url) as running:
            running.line("done")
    assert check(out, own_server.url, spark) == CHANGES


def _go_on(running: Child) -> None:
    for _ in range(2):
        running.line("batch")


def _restart_master(of: Cluster) -> None:
    of.kill_master()
    of.start_master()
    of.await_workers()
