"""What all answers share: the shape of a table, places in the stream, and what the changes cover."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..schemas import GAP
from ..tables import Table

__all__ = ["covered", "eras", "readable", "shaped", "with_registry"]


def shaped(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of the table, in its order and with its types."""
    return frame.select(*(F.col(column.name).cast(column.type) for column in table.columns))


def readable(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return the changes that could be read, up to the end of the observation."""
    if "problem" in changes.columns:
        changes = changes.where(F.col("problem").isNull())
    return changes if until_ms is None else changes.where(F.col("ms") <= until_ms)


def with_registry(samples: DataFrame) -> DataFrame:
    """Return SAMPLES with null where no registry is named: also those that were kept without that column."""
    told = F.nullif("registry", F.lit("")) if "registry" in samples.columns else F.lit(None).cast("string")
    return samples.withColumn("registry", told)


def covered(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return a row a registry: since_ms, until_ms, and the gaps between them, in order.

    A gap is `ms` and `seq` of the last change before it, and `after_ms` of the first one after it; until_ms,
    when there is none.
    """
    told = readable(changes, until_ms)
    is_gap = F.col("kind") == GAP
    after_ms = F.greatest("ms", F.split("key", "-")[0].try_cast("bigint"))
    ends = F.when(F.col("key") != "", after_ms)
    newest = F.max("ms") if until_ms is None else F.lit(until_ms).cast("bigint")
    spans = told.groupBy("registry").agg(
        F.min(F.when(~is_gap, F.col("ms"))).alias("since_ms"),
        newest.alias("until_ms"),
        F.sort_array(F.collect_set(F.when(is_gap, F.struct("ms", "seq", ends.alias("after_ms"))))).alias(
            "gaps"
        ),
    )
    return (
        spans.join(F.broadcast(_first_after(told.where(~is_gap), spans)), "registry", "left")
        .withColumn("gaps", F.transform("gaps", _whole))
        .withColumn("since_ms", F.coalesce("since_ms", "until_ms"))
        .drop("firsts")
    )


def _first_after(told: DataFrame, spans: DataFrame) -> DataFrame:
    """Return registry, firsts: the gaps that do not tell their end, and `first_ms` of the change behind."""
    is_open = F.col("gap.after_ms").isNull()
    gaps = spans.select("registry", F.explode("gaps").alias("gap")).where(is_open).select("registry", "gap")
    is_behind = F.struct("ms", "seq") > F.struct("gap.ms", "gap.seq")
    return (
        told.join(F.broadcast(gaps), "registry")
        .where(is_behind)
        .groupBy("registry", "gap")
        .agg(F.min("ms").alias("first_ms"))
        .groupBy("registry")
        .agg(F.collect_list(F.struct("gap", "first_ms")).alias("firsts"))
    )


def _whole(gap: Column, number: Column) -> Column:
    """Return a gap with its end: no later than what is observed, and than the next gap begins."""
    first = F.filter("firsts", lambda one: one["gap"] == gap)
    after_ms = F.coalesce(gap["after_ms"], F.get(first, 0)["first_ms"], F.col("until_ms"))
    next_ms = F.get("gaps", number + 1)["ms"]
    return gap.withField("after_ms", F.least(after_ms, next_ms, "until_ms"))


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
