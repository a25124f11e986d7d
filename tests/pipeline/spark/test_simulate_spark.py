"""A simulated fleet on Spark: the same answer however the work is shared out, in the documented tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.errors import BadOption
from sharedroutes.pipeline.simulate import (
    HISTOGRAM,
    QUANTILES,
    SIMULATED_FAULTS,
    TOTALS,
    FleetConfig,
    Simulation,
    simulate,
)
from sharedroutes.pipeline.simulate.clients import blocks
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
