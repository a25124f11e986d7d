"""How long brokers took, from the samples that clients recorded."""

from __future__ import annotations

from collections.abc import Collection
from math import log
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from ..errors import BadOption
from ..tables import table
from .frames import shaped, weighed

LATENCY: Final = table("""
    latency: attempts to send, by what they are grouped by; a column that they are not grouped by is null
    registry string: which registry, as in SAMPLES; null = not told
    hour timestamp: when the attempts ended: the hour of the store's clock, UTC
    broker, topic
    samples bigint: attempts that were recorded
    attempts double: attempts that they stand for: the sum of 1 / share
    failures double: those that failed by fault of the broker
    errors double: those that ended with an error that is not the broker's fault
    failed_from_ms bigint: when the first of these ended, by the store's clock; null = none failed
    failed_until_ms bigint: when the last of these ended
    failure_share double = failures / attempts
    p50_ms double (half within): half of the attempts that did not fail took at most so long; null = none
    p90_ms double (90 % within): the same for 90 in 100; at most 1 % too high, as are the others
    p99_ms double (99 % within): the same for 99 in 100
    max_ms double (all within): the longest that was recorded of those that did not fail
""")

_BY: Final[tuple[str, ...]] = ("registry", "hour", "broker", "topic")

_PERCENTILES: Final = {"p50_ms": 0.50, "p90_ms": 0.90, "p99_ms": 0.99}

_STEP: Final = 1.01
"""Latencies within one hundredth are counted together, so that memory and time do not grow with samples."""

_LEAST_MS: Final = 1e-3
_ROUNDING: Final = 1e-9


def latency(samples: DataFrame, by: Collection[str] = _BY) -> DataFrame:
    """Return LATENCY of SAMPLES, grouped by any of registry, hour, broker and topic, and ordered by them.

    Brokers of two registries are two, whatever they are called, and so are topics: what is grouped by these
    is grouped by registry, too; samples that name none are a group of their own.

    A percentile is the longest latency that was recorded in the hundredth it falls into. How quickly a
    failure came says nothing of latency, so failures have no part in percentiles, as in the client.
    """
    if unknown := sorted(set(by) - set(_BY)):
        raise BadOption(f"latency: cannot group by {unknown[0]!r}, only by {', '.join(_BY)}")
    wanted = {*by} | ({"registry"} if {"broker", "topic"} & {*by} else set())
    keys = [name for name in _BY if name in wanted]
    return shaped(_with_percentiles(_counted(weighed(samples), keys), keys), LATENCY).orderBy(*_BY)


def _counted(samples: DataFrame, keys: list[str]) -> DataFrame:
    """Count by the keys and by `step`, the hundredth of the latency; null = it failed."""
    failed = f.col("failed")
    step = f.ceil(f.log(f.greatest(f.col("latency_ms"), f.lit(_LEAST_MS))) / log(_STEP))
    return (
        samples.withColumn("hour", f.date_trunc("hour", f.timestamp_millis("at_ms")))
        .withColumn("step", f.when(~failed, step))
        .groupBy(*keys, "step")
        .agg(
            f.count("*").alias("samples"),
            f.sum("weight").alias("attempts"),
            f.sum(f.when(f.col("outcome") == "error", f.col("weight")).otherwise(0.0)).alias("errors"),
            f.max(f.when(~failed, f.col("latency_ms"))).alias("longest_ms"),
            f.min(f.when(failed, f.col("at_ms"))).alias("failed_from_ms"),
            f.max(f.when(failed, f.col("at_ms"))).alias("failed_until_ms"),
        )
    )


def _with_percentiles(counted: DataFrame, keys: list[str]) -> DataFrame:
    """Sum up the hundredths, and find the percentiles among them."""
    answered = f.when(f.col("step").isNotNull(), f.col("attempts")).otherwise(0.0)
    in_order = Window.partitionBy(*keys).orderBy(f.col("step").asc_nulls_first())
    up_to_here = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    all_of_them = in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    reached = f.try_divide(f.sum(answered).over(up_to_here), f.sum(answered).over(all_of_them))
    percentiles = [
        f.min(f.when(f.col("reached") >= share - _ROUNDING, f.col("longest_ms"))).alias(name)
        for name, share in _PERCENTILES.items()
    ]
    return (
        counted.withColumn("reached", reached)
        .groupBy(*keys)
        .agg(
            f.sum("samples").alias("samples"),
            f.sum("attempts").alias("attempts"),
            f.sum(f.when(f.col("step").isNull(), f.col("attempts")).otherwise(0.0)).alias("failures"),
            f.sum("errors").alias("errors"),
            f.min("failed_from_ms").alias("failed_from_ms"),
            f.max("failed_until_ms").alias("failed_until_ms"),
            *percentiles,
            f.max("longest_ms").alias("max_ms"),
        )
    )
