"""How much changes: per hour, and in the life of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...registry.model import FORGOTTEN, ChangeKind
from ..schemas import GAP
from ..tables import table
from .frames import brokers_of, in_runs, is_forgotten, no_names, readable, shaped, who
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

OPERATIONS: Final = table("""
    operations: what an operator did: to a broker, to a topic, or to the fronts
    registry
    at_ms bigint: when, by the store's clock
    did string: wiped, lifted, forgotten, deleted, settings
    brokers array<string>: which brokers it is about
    topics array<string>: which topics were deleted
    by string: who did it: an operator's command, or a front and who asked it; and as which user of the store;
        null = not told
""")

TOPIC_LIVES: Final = table("""
    topic_lives: a life of a topic that was created, deleted or moved while changes were seen
    registry, topic
    life int: 1 = the first that is known; the next one begins after more than `apart_s` on no broker
    created_ms bigint: when its first broker got it; in a gap: when the gap began; null = before the first
        change
    gone_ms bigint: when its last broker lost it; in a gap: when the gap was over; null = it is still there
    gone_for_ms bigint: until its next life began, or to the end; null = it is still there
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


def operations(changes: DataFrame, until_ms: int | None = None) -> DataFrame:
    """Return OPERATIONS of the changes up to `until_ms`: what only operators do."""
    kind = F.col("kind")
    of_operators = kind.isin(ChangeKind.WIPED, ChangeKind.LIFTED, ChangeKind.DELETED, ChangeKind.SETTINGS)
    told = readable(changes, until_ms).where(of_operators | is_forgotten())
    columns = {
        "at_ms": F.col("ms"),
        "did": F.when(is_forgotten(), FORGOTTEN).otherwise(kind),
        "brokers": brokers_of(),
        "topics": F.coalesce("removed", no_names()),
        "by": who(),
    }
    return shaped(told.withColumns(columns), OPERATIONS)


def topic_lives(seen: Seen, *, settle_s: float = 3_600.0, apart_s: float = 60.0) -> DataFrame:
    """Return TOPIC_LIVES of the topics that changes tell of.

    A life goes on when the topic was on no broker for at most `apart_s`: it moves, or was out for a moment.
    """
    return seen.shaped(_lives(seen, round(settle_s * 1000), round(apart_s * 1000)), TOPIC_LIVES)


def _lives(seen: Seen, settle_ms: int, apart_ms: int) -> DataFrame:
    """Return a row a life, from holdings: when it came and went, which brokers have it, came, and left."""
    of_life = (*TOPIC, "life")
    of_broker = (
        in_runs(seen.held, TOPIC, "from_ms", F.col("to_ms") + apart_ms)
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
    next_ms = F.lead("first_ms").over(Window.partitionBy(*TOPIC).orderBy("life"))
    gone_for_ms = F.coalesce("next_ms", "until_ms") - F.col("last_ms")
    # What only a snapshot of the routes has, no change tells of.
    return (
        of_topic.withColumn("next_ms", next_ms)
        .join(F.broadcast(seen.span.select("registry", "until_ms")), "registry")
        .where("told")
        .withColumns(
            {
                "created_ms": F.when(F.col("is_created"), F.col("first_ms")),
                "gone_ms": F.when(F.col("is_gone"), F.col("last_ms")),
                "gone_for_ms": F.when(F.col("is_gone"), gone_for_ms),
                "brokers": has_it,
                "came": came,
                "left": left,
            }
        )
        .withColumn("moved", (F.size("came") > 0) & (F.size("left") > 0))
    )


def _brokers(chosen: Callable[[Expression], Expression]) -> Expression:
    """Return the names of the holders that are chosen, sorted."""
    return F.sort_array(F.filter("holders", chosen)["broker"])
