"""Plays a fleet on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.tables import Table

from .checks import check_count
from .clients import blocks
from .config import FleetConfig
from .faults import draw_faults
from .outcome import HISTOGRAM, QUANTILES, SIMULATED_FAULTS, TOTALS
from .results import faults_table, histogram_table, quantiles_table, totals_table
from .source import FORMAT, FleetSource
from .tally import Tally

__all__ = ["Simulation", "simulate"]

_TASKS_PER_CORE: Final = 4
_MOST_TASKS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Simulation:
    """What came of a fleet; each frame has the columns of the table that is named."""

    config: FleetConfig
    totals: DataFrame
    """TOTALS, by system and kind."""

    quantiles: DataFrame
    """QUANTILES, by system, kind and measure."""

    histogram: DataFrame
    """HISTOGRAM, by system, kind, measure and bin."""

    faults: DataFrame
    """SIMULATED_FAULTS, by system and fault."""


def simulate(spark: SparkSession, config: FleetConfig, *, partitions: int | None = None) -> Simulation:
    """Play a fleet; it is done when this returns. `partitions`: None = four for each of Spark's cores.

    The answer is the same for any number of partitions. Raises BadOption.
    """
    if partitions is None:
        partitions = min(blocks(config), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    check_count("partitions", partitions, 1, _MOST_TASKS)
    spark.dataSource.register(FleetSource)
    reader = spark.read.format(FORMAT).option("config", config.to_json()).option("partitions", partitions)
    faults = draw_faults(config)
    tally = Tally(len(config.systems), len(faults))
    for content in reader.load().toArrow().column("tally"):
        tally.merge_bytes(content.as_py())
    return Simulation(
        config,
        _frame(spark, TOTALS, totals_table(config, faults, tally)),
        _frame(spark, QUANTILES, quantiles_table(config, faults, tally)),
        _frame(spark, HISTOGRAM, histogram_table(config, faults, tally)),
        _frame(spark, SIMULATED_FAULTS, faults_table(config, faults, tally)),
    )


def _frame(spark: SparkSession, table: Table, content: pa.Table) -> DataFrame:
    return spark.createDataFrame(content, schema=table.schema)
