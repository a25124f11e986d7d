"""How much changes: per hour, and in the life of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...registry.model import ChangeKind
from ..schemas import GAP
from ..tables import table
from .frames import in_runs, readable, shaped
from .holdings import TOPIC, Seen

_HOUR_MS: Final = 3_600_000

CHURN: Final = table("""
    churn: the changes of a kind that concern a broker, in an hour
    registry
    hour_ms bigint: when the hour began, by the store's clock, ms since 1970
    kind string: as in CHANGES; gap is none
    broker string: broker name; empty with deleted and kv
    changes bigint: number of changes
    added bigint: with topics: number of topics that were added
    changed bigint: with topics: number of topics that changed
    removed bigint: with topics and deleted: number of topics that went
""")

TOPIC_LIVES: Final = table("""
    topic_lives: a life of a topic that was created, deleted or moved while changes were seen
    registry, topic
    life int: 1 = the first that is known; the next one begins after more than `apart_s` on no broker
    created_ms bigint: when its first broker got it; in a gap: when the gap began; null = before the first
        change
    gone_ms bigint: when its last broker lost it; in a gap: when the gap was over; null = it is still there
    brokers array<string>: who has it at the end, or had it last; sorted
    came array<string>: brokers that got it later than `settle_s` after the first; sorted
    left array<string>: brokers that lost it for good while another kept it; sorted
    moved boolean: whether brokers came and others left
    system
""")


def churn(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return CHURN of the changes up to `until_ms`; sum over `broker` or `kind` for the others."""
    hour_ms = (F.floor(F.col("ms") / _HOUR_MS) * _HOUR_MS).alias("hour_ms")
    of_topics = F.col("kind").isin(ChangeKind.TOPICS, ChangeKind.DELETED)
    found = (
        readable(changes, until_ms)
        .where(F.col("kind") != GAP)
        .groupBy("registry", hour_ms, "kind", F.coalesce("broker", F.lit("")).alias("broker"))
        .agg(
            F.count("*").alias("changes"),
            *(
                F.sum(F.when(of_topics, F.coalesce(F.size(names), F.lit(0))).otherwise(0)).alias(names)
                for names in ("added", "changed", "removed")
            ),
        )
    )
    return shaped(found, CHURN)


def topic_lives(
    changes: DataFrame | Seen,
    *,
    settle_s: float = 3_600.0,
    apart_s: float = 60.0,
    until_ms: int | None = None,
) -> DataFrame:
    """Return TOPIC_LIVES of the topics that changes tell of.

    A life goes on when the topic was on no broker for at most `apart_s`: it moves, or was out for a moment.
    """
    seen = Seen.of(changes, None, until_ms)
    return seen.shaped(_lives(seen.held, round(settle_s * 1000), round(apart_s * 1000)), TOPIC_LIVES)


def _lives(held: DataFrame, settle_ms: int, apart_ms: int) -> DataFrame:
    """Return a row a life, from holdings: when it came and went, which brokers have it, came, and left."""
    of_life = (*TOPIC, "life")
    of_broker = (
        in_runs(held, TOPIC, "from_ms", F.col("to_ms") + apart_ms)
        .withColumnRenamed("run", "life")
        .groupBy(*of_life, "broker")
        .agg(
            F.min("from_ms").alias("from_ms"),
            F.max("to_ms").alias("to_ms"),
            # Only the first time of a broker can begin, and only the last one end, without a record.
            F.bool_and("came").alias("came"),
            F.bool_and("went").alias("went"),
            F.bool_or(F.col("seen") | F.col("came") | F.col("went")).alias("told"),
        )
    )
    of_topic = of_broker.groupBy(*of_life).agg(
        F.min("from_ms").alias("first_ms"),
        F.max("to_ms").alias("last_ms"),
        F.bool_and("came").alias("is_created"),
        F.bool_and("went").alias("is_gone"),
        F.bool_or("told").alias("told"),
        F.collect_list(F.struct("broker", "from_ms", "to_ms", "came", "went")).alias("holders"),
    )
    has_it = _brokers(
        lambda one: F.when(F.col("is_gone"), one["to_ms"] == F.col("last_ms")).otherwise(~one["went"])
    )
    came = _brokers(lambda one: one["came"] & (one["from_ms"] > F.col("first_ms") + settle_ms))
    # A topic that goes from all its brokers goes from one after the other.
    left = _brokers(
        lambda one: one["went"] & (~F.col("is_gone") | (one["to_ms"] < F.col("last_ms") - settle_ms))
    )
    # What only a snapshot of the routes has, no change tells of.
    return (
        of_topic.where("told")
        .withColumns(
            {
                "created_ms": F.when(F.col("is_created"), F.col("first_ms")),
                "gone_ms": F.when(F.col("is_gone"), F.col("last_ms")),
                "brokers": has_it,
                "came": came,
                "left": left,
            }
        )
        .withColumn("moved", (F.size("came") > 0) & (F.size("left") > 0))
        .drop("holders", "told", "is_created", "is_gone")
    )


def _brokers(chosen: Callable[[Expression], Expression]) -> Expression:
    """Return the names of the holders that are chosen, sorted."""
    return F.sort_array(F.filter("holders", chosen)["broker"])
