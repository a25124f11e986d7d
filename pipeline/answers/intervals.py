"""Intervals of time, [from_ms, to_ms): cut into days, and joined where they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["DAY_MS", "by_day", "in_runs"]

DAY_MS: Final = 86_400_000


def by_day(intervals: DataFrame) -> DataFrame:
    """Cut intervals at midnight UTC; `day_ms` is when the day of a piece began. Empty ones are left out."""
    day = F.lit(DAY_MS)
    first, last = F.floor(F.col("from_ms") / day), F.floor((F.col("to_ms") - 1) / day)
    return (
        intervals.where("to_ms > from_ms")
        .withColumn("day", F.explode(F.sequence(first, last)))
        .withColumn("day_ms", F.col("day") * day)
        .withColumn("from_ms", F.greatest("from_ms", "day_ms"))
        .withColumn("to_ms", F.least("to_ms", F.col("day_ms") + day))
        .drop("day")
    )


def in_runs(intervals: DataFrame, by: Sequence[str], *, touching: bool) -> DataFrame:
    """Number the runs of intervals that overlap, per `by`, in the column `run`; or that are `touching`."""
    in_order = Window.partitionBy(*by).orderBy("from_ms", "to_ms")
    covered_ms = F.max("to_ms").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins: Column = F.col("from_ms") > covered_ms if touching else F.col("from_ms") >= covered_ms
    return intervals.withColumn("begins", F.coalesce(begins, F.lit(col=True)).cast("int")).withColumn(
        "run", F.sum("begins").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    )
