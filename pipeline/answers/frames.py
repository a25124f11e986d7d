"""What all answers share: the shape of a table, places in the stream, and what the changes cover."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..schemas import GAP
from ..tables import Table

__all__ = ["covered", "eras", "readable", "shaped"]


def shaped(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of the table, in its order and with its types."""
    return frame.select(*(F.col(column.name).cast(column.type) for column in table.columns))


def readable(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return the changes that could be read, up to the end of the observation."""
    if "problem" in changes.columns:
        changes = changes.where(F.col("problem").isNull())
    return changes if until_ms is None else changes.where(F.col("ms") <= until_ms)


def covered(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return a row a registry: since_ms, until_ms, and the gaps between them, in order.

    A gap is `ms` and `seq` of the last change before it, and `after_ms` of the first one after it.
    """
    is_gap = F.col("kind") == GAP
    after_ms = F.split("key", "-")[0].try_cast("bigint")
    gap = F.struct("ms", "seq", F.greatest("ms", after_ms).alias("after_ms"))
    newest = F.max("ms") if until_ms is None else F.lit(until_ms).cast("bigint")
    return (
        readable(changes, until_ms)
        .groupBy("registry")
        .agg(
            F.min(F.when(~is_gap, F.col("ms"))).alias("since_ms"),
            newest.alias("until_ms"),
            F.sort_array(F.collect_set(F.when(is_gap, gap))).alias("gaps"),
        )
        .withColumn("since_ms", F.coalesce("since_ms", "until_ms"))
    )


def eras(rows: DataFrame, changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Add to rows with registry, ms and seq what lies between two gaps around them.

    `era` counts the gaps before the row; what is known goes from `era_from_ms` to `era_to_ms`, which is
    `is_last` when no gap ends it.
    """
    number, count = F.col("era"), F.size("gaps")
    before: Column = F.filter(
        "gaps", lambda gap: F.struct(gap["ms"], gap["seq"]) < F.struct(F.col("ms"), F.col("seq"))
    )
    return (
        rows.join(F.broadcast(covered(changes, until_ms)), "registry")
        .withColumn("era", F.size(before))
        .withColumn("is_last", number == count)
        .withColumn(
            "era_from_ms",
            F.when(number == 0, F.col("since_ms")).otherwise(F.try_element_at("gaps", number)["after_ms"]),
        )
        .withColumn(
            "era_to_ms",
            F.when(F.col("is_last"), F.col("until_ms")).otherwise(F.try_element_at("gaps", number + 1)["ms"]),
        )
        .drop("gaps", "since_ms", "until_ms")
    )
