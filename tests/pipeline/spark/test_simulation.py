"""A simulated fleet on Spark: the same answer however the work is shared out, in the documented tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import DataFrame, SparkSession

from benchmarks.simulation import (
    HISTOGRAM,
    QUANTILES,
    SIMULATED_FAULTS,
    TOTALS,
    FleetConfig,
    Simulation,
    simulate,
)
from benchmarks.simulation.clients import blocks
from benchmarks.simulation.command import simulate as command
from sharedroutes.pipeline.errors import BadOption
from sharedroutes.pipeline.tables import Table

FLEET = FleetConfig(brokers=100, topics=1_000, clients=20_000, hours=30.0)


def _frames(simulation: Simulation) -> list[tuple[Table, DataFrame]]:
    return [
        (TOTALS, simulation.totals),
        (QUANTILES, simulation.quantiles),
        (HISTOGRAM, simulation.histogram),
        (SIMULATED_FAULTS, simulation.faults),
    ]


def test_the_answer_is_the_same_however_many_partitions_there_are(spark: SparkSession) -> None:
    assert blocks(FLEET) == 3
    one, other = (_frames(simulate(spark, FLEET, partitions=count)) for count in (1, 3))
    for (table, mine), (_, theirs) in zip(one, other, strict=True):
        assert mine.schema == table.schema
        found = mine.toArrow()
        assert found.num_rows > 0
        assert found.equals(theirs.toArrow())


def test_another_seed_gives_another_answer(spark: SparkSession) -> None:
    small = replace(FLEET, clients=1_000)
    one, other = simulate(spark, small), simulate(spark, replace(small, seed=2))
    assert one.totals.collect() != other.totals.collect()
    with pytest.raises(BadOption, match="partitions"):
        simulate(spark, small, partitions=0)


def run(*words: object) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words])


def test_a_simulation_prints_its_quantiles_and_leaves_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    config = tmp_path / "fleet.json"
    config.write_text(json.dumps({"brokers": 3, "topics": 5, "clients": 20, "hours": 1}))
    out = tmp_path / "tables"
    ran = run(
        "--config", config, "--seed", 2, "--out", out, "--conf", "spark.sql.session.timeZone=Asia/Tokyo"
    )
    assert ran.exit_code == 0
    assert ran.stderr == f"3 brokers, 5 topics, 20 clients, 1 hours, seed 2\ntables are in {out}\n"
    head, *rows = [line.split() for line in ran.stdout.splitlines()]
    assert head[:3] == ["system", "kind", "measure"]
    assert {row[0] for row in rows} >= {"rocketmq-5", "sharedroutes"}
    names = ("totals", "quantiles", "histogram", "faults")
    assert {path.name for path in out.iterdir()} == {f"{name}.parquet" for name in names}
    assert pq.read_table(out / "quantiles.parquet").num_rows == len(rows)
    # The session was there before: it goes on, with its own settings.
    assert spark.range(3).count() == 3
    assert spark.conf.get("spark.sql.session.timeZone") == zone


def test_what_is_wrong_is_named_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text('{"cities": 3}')
    for words, problem in (
        (("--brokers", "5", "--out", file / "tables"), "--out: nothing can be written to "),
        (("--config", file), "fleet: there is no setting"),
    ):
        ran = run(*words)
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert problem in ran.stderr
