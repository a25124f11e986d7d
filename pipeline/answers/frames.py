"""What all answers share: the shape of a table, what the changes cover, intervals of time, RocketMQ's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ...registry.checks import REPLY_TOPIC, SYSTEM_PREFIX, SYSTEM_TOPICS
from ...registry.codec import OF_NO_TABLE
from ...registry.model import FORGOTTEN, ChangeKind
from ..schemas import GAP
from ..tables import Table


def shaped(frame: DataFrame, table: Table) -> DataFrame:
    """Return the columns of the table, in its order and with its types.

    What the frame lacks follows by its formula, or is null.
    """
    there = {*frame.columns}
    return frame.select(
        *(
            (F.col(one.name) if one.name in there else _follows(one.formula)).cast(one.type).alias(one.name)
            for one in table.columns
        )
    )


def _follows(formula: str) -> Column:
    above, division, below = formula.partition(" / ")
    return F.try_divide(F.expr(above), F.expr(below)) if division else F.expr(above or "null")


def each_of(*rows: Mapping[str, Column]) -> Column:
    """Make several rows of one: what each has in which column."""
    structs = (F.struct(*(value.alias(name) for name, value in row.items())) for row in rows)
    return F.inline(F.array(*structs))


def readable(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return the changes that could be read, up to the end of the observation."""
    if "problem" in changes.columns:
        changes = changes.where(F.col("problem").isNull())
    return changes if until_ms is None else changes.where(F.col("ms") <= until_ms)


def no_names() -> Column:
    """Return an empty list of names."""
    return F.array().cast("array<string>")


def is_forgotten() -> Column:
    """Whether a change tells that an operator has forgotten a broker."""
    return (F.col("kind") == ChangeKind.DOWN) & (F.col("reason") == FORGOTTEN)


def brokers_of() -> Column:
    """Return the brokers that a change is about; none = it is about no table."""
    of_operator = F.when(F.col("kind") == ChangeKind.DELETED, F.coalesce("brokers", no_names()))
    return of_operator.when(F.col("kind").isin(*OF_NO_TABLE), no_names()).otherwise(F.array("broker"))


def who() -> Column:
    """Return who wrote a change, and as which user of the store; null = neither is told."""
    told = (F.nullif(name, F.lit("")) for name in ("by", "user"))
    return F.nullif(F.concat_ws(" as ", *told), F.lit(""))


def weighed(samples: DataFrame) -> DataFrame:
    """Return SAMPLES with what they stand for (`weight`), and whether they `failed`.

    Registry is null where none is named: also in those that were kept without that column.
    """
    told = F.nullif("registry", F.lit("")) if "registry" in samples.columns else F.lit(None).cast("string")
    failed = F.col("outcome") == "failed"
    return samples.withColumns({"registry": told, "weight": 1 / F.col("share"), "failed": failed})


def is_system() -> Column:
    """Whether the topic of a row is RocketMQ's own by its name alone."""
    return F.lower("topic").startswith(SYSTEM_PREFIX) | F.col("topic").isin(*SYSTEM_TOPICS)


def named_after() -> Column:
    """Return the topics that have the name of the broker or of the cluster of a row: RocketMQ's own, too."""
    names = "broker", "cluster"
    return F.array(*names, *(F.concat(name, F.lit(REPLY_TOPIC)) for name in names))


def with_system(topics: DataFrame, named: DataFrame) -> DataFrame:
    """Add `system` to rows about topics: whether the topic is RocketMQ's own, by its name or in `named`."""
    own = F.broadcast(named.withColumn("own", F.lit(col=True)))
    system = is_system() | F.col("own").isNotNull()
    return topics.join(own, ["registry", "topic"], "left").withColumn("system", system).drop("own")


def covered(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return a row a registry: since_ms, until_ms, newest_ms, and the gaps between them, in order.

    A gap is `ms` and `seq` of the last change before it, and `after_ms` of the first one after it; until_ms,
    when there is none.
    """
    told = readable(changes, until_ms)
    is_gap = F.col("kind") == GAP
    after_ms = F.greatest("ms", F.split("key", "-")[0].try_cast("bigint"))
    gap = F.struct("ms", "seq", F.when(F.col("key") != "", after_ms).alias("after_ms")).alias("gap")
    gaps = told.where(is_gap).select("registry", gap)
    newest = F.max("ms") if until_ms is None else F.lit(until_ms).cast("bigint")
    spans = told.groupBy("registry").agg(
        F.min(F.when(~is_gap, F.col("ms"))).alias("since_ms"),
        newest.alias("until_ms"),
        F.max("ms").alias("newest_ms"),
        F.sort_array(F.collect_set(F.when(is_gap, gap))).alias("gaps"),
    )
    return (
        spans.join(F.broadcast(_first_after(told.where(~is_gap), gaps)), "registry", "left")
        .withColumn("gaps", F.transform("gaps", _whole))
        .withColumn("since_ms", F.coalesce("since_ms", "until_ms"))
        .drop("firsts")
    )


def _first_after(told: DataFrame, gaps: DataFrame) -> DataFrame:
    """Return registry, firsts: the gaps that do not tell their end, and `first_ms` of the change behind."""
    is_open = F.col("gap.after_ms").isNull()
    is_behind = F.struct("ms", "seq") > F.struct("gap.ms", "gap.seq")
    return (
        told.join(F.broadcast(gaps.where(is_open)), "registry")
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


def eras(rows: DataFrame, span: DataFrame) -> DataFrame:
    """Add to rows with registry, ms and seq what lies between two gaps around them, by what is covered.

    `era` counts the gaps before the row; what is known goes from `era_from_ms` to `era_to_ms`, which is
    `is_last` when no gap ends it.
    """
    before: Column = F.filter(
        "gaps", lambda gap: F.struct(gap["ms"], gap["seq"]) < F.struct(F.col("ms"), F.col("seq"))
    )
    return (
        rows.join(F.broadcast(span), "registry")
        .withColumn("era", F.size(before))
        .withColumn("is_last", F.col("era") == F.size("gaps"))
        .withColumn("era_from_ms", F.get(F.concat(F.array("since_ms"), "gaps.after_ms"), F.col("era")))
        .withColumn("era_to_ms", F.get(F.concat("gaps.ms", F.array("until_ms")), F.col("era")))
        .drop("gaps", "since_ms", "until_ms", "newest_ms")
    )


def in_runs(times: DataFrame, by: Sequence[str], begin: str, until: Column | str) -> DataFrame:
    """Number the runs of times, per `by`, in the column `run`: the next begins after all are over."""
    in_order = Window.partitionBy(*by).orderBy(begin)
    so_far = F.max(until).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.coalesce(F.col(begin) > so_far, F.lit(col=True))
    return times.withColumn("begins", begins.cast("int")).withColumn(
        "run", F.sum("begins").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    )
