"""How much changes: per hour, in storms, and in the life of a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...registry.model import ChangeKind
from ..schemas import GAP
from ..tables import table
from .frames import in_runs, readable, shaped, weighed
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

STORMS: Final = table("""
    storms: a time in which brokers registered faster than allowed for
    registry
    begin_ms bigint: the second in which it began, by the store's clock, ms since 1970
    end_ms bigint: the end of the last second of it
    lasted_s bigint = (end_ms - begin_ms) / 1000
    ups bigint (brokers up): number of up
    tables bigint (tables written): number of topics records: parts of tables that were written
    brokers bigint: number of brokers that registered
    peak_per_s bigint (most in a second): most of both in a second
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
    first_used_ms bigint: its first sample; null = none
    last_used_ms bigint: its last sample; null = none
    attempts double: attempts that its samples stand for
    use string: never used: no sample of this life; abandoned: none in their last `quiet_s`; used; null: it is
        gone, or there are too few samples to tell
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


def storms(
    changes: DataFrame, *, more_than: int = 100, within_s: int = 10, until_ms: int | None = None
) -> DataFrame:
    """Return STORMS: more than `more_than` up and topics records in `within_s` seconds, while that goes on.

    Counted by whole seconds; two belong to one storm when less than `within_s` lies between them.
    """
    told = readable(changes, until_ms).where(F.col("kind").isin(ChangeKind.UP, ChangeKind.TOPICS))
    records = told.select("registry", "broker", "kind", F.floor(F.col("ms") / 1000).alias("second"))
    # By second first: a registry is one partition of a window, and its records are too many for that.
    seconds = records.groupBy("registry", "second").agg(F.count("*").alias("records"))
    in_order = Window.partitionBy("registry").orderBy("second")
    is_hot = F.sum("records").over(in_order.rangeBetween(1 - within_s, 0)) > more_than
    # A hot second makes the ones before it, which were counted with it, part of the storm.
    is_stormy = F.bool_or("hot").over(in_order.rangeBetween(0, within_s - 1))
    stormy = seconds.withColumn("hot", is_hot).withColumn("stormy", is_stormy).where("stormy")
    found = (
        records.join(
            in_runs(stormy, ("registry",), "second", F.col("second") + within_s), ["registry", "second"]
        )
        .groupBy("registry", "run")
        .agg(
            (F.min("second") * 1000).alias("begin_ms"),
            ((F.max("second") + 1) * 1000).alias("end_ms"),
            F.count_if(F.col("kind") == ChangeKind.UP).alias("ups"),
            F.count_if(F.col("kind") == ChangeKind.TOPICS).alias("tables"),
            F.count_distinct("broker").alias("brokers"),
            F.max("records").alias("peak_per_s"),
        )
    )
    return shaped(found, STORMS)


def topic_lives(
    changes: DataFrame | Seen,
    samples: DataFrame | None = None,
    *,
    settle_s: float = 3_600.0,
    apart_s: float = 60.0,
    quiet_s: float = 86_400.0,
    until_ms: int | None = None,
) -> DataFrame:
    """Return TOPIC_LIVES of the topics that changes tell of, with what SAMPLES up to `until_ms` tell of use.

    A life goes on when the topic was on no broker for at most `apart_s`: it moves, or was out for a moment.
    Samples that name no registry count in all of them.
    """
    seen = Seen.of(changes, None, until_ms)
    apart_ms = round(apart_s * 1000)
    lives = _lives(seen.held, round(settle_s * 1000), apart_ms)
    if samples is not None:
        samples = weighed(samples)
        if seen.until_ms is not None:
            samples = samples.where(F.col("at_ms") <= seen.until_ms)
        used = _used(lives, samples, max(apart_ms, 1)).crossJoin(F.broadcast(_spans(samples)))
        lives = used.withColumn("use", _use(round(quiet_s * 1000)))
    return seen.shaped(lives, TOPIC_LIVES)


def _used(lives: DataFrame, samples: DataFrame, slot_ms: int) -> DataFrame:
    """Add first_used_ms, last_used_ms and attempts: of the samples that are nearer to a life than to others.

    Samples are counted by slots first. Two lives are further apart than a slot: one ends between them.
    """
    of_slot = samples.groupBy(
        "topic", F.col("registry").alias("told_of"), F.floor(F.col("at_ms") / slot_ms).alias("slot")
    ).agg(
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
        F.sum("weight").alias("sent"),
    )
    of_topic = Window.partitionBy(*TOPIC).orderBy("life")
    middle_ms = (F.lag("last_ms").over(of_topic) + F.col("first_ms")) / 2
    begins = lives.withColumn("from_slot", F.round(middle_ms / slot_ms)).withColumn(
        "to_slot", F.lead("from_slot").over(of_topic)
    )
    is_of_life = (
        (F.col("one.topic") == F.col("it.topic"))
        & (F.col("it.told_of").isNull() | (F.col("it.told_of") == F.col("one.registry")))
        & (F.col("one.from_slot").isNull() | (F.col("it.slot") >= F.col("one.from_slot")))
        & (F.col("one.to_slot").isNull() | (F.col("it.slot") < F.col("one.to_slot")))
    )
    return (
        begins.alias("one")
        .join(of_slot.alias("it"), is_of_life, "left")
        .groupBy(*(f"one.{name}" for name in lives.columns))
        .agg(
            F.min("it.first_ms").alias("first_used_ms"),
            F.max("it.last_ms").alias("last_used_ms"),
            F.sum("it.sent").alias("attempts"),
        )
    )


def _spans(samples: DataFrame) -> DataFrame:
    """Return the one row `spans`: from when to when there are samples of each registry."""
    of_registry = samples.groupBy(F.col("registry").alias("told_of")).agg(
        F.min("at_ms").alias("first_ms"), F.max("at_ms").alias("last_ms")
    )
    return of_registry.agg(F.collect_list(F.struct("told_of", "first_ms", "last_ms")).alias("spans"))


def _use(quiet_ms: int) -> Expression:
    """Return how a topic is used; a topic that is younger than `quiet_ms` may still be."""
    spans = F.filter("spans", lambda one: one["told_of"].isNull() | (one["told_of"] == F.col("registry")))
    first_sample_ms = F.array_min(F.transform(spans, lambda one: one["first_ms"]))
    quiet_from_ms = F.array_max(F.transform(spans, lambda one: one["last_ms"])) - quiet_ms
    born_ms = F.coalesce("created_ms", F.lit(0))
    is_long_enough = (born_ms <= quiet_from_ms) & (first_sample_ms <= quiet_from_ms)
    return (
        F.when(F.col("gone_ms").isNotNull(), None)
        .when(F.col("last_used_ms") >= quiet_from_ms, "used")
        .when(F.col("last_used_ms").isNotNull(), "abandoned")
        .when(is_long_enough & (born_ms >= first_sample_ms), "never used")
        .when(is_long_enough, "abandoned")
    )


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
                "moved": (F.size(came) > 0) & (F.size(left) > 0),
            }
        )
        .drop("holders", "told", "is_created", "is_gone")
    )


def _brokers(chosen: Callable[[Expression], Expression]) -> Expression:
    """Return the names of the holders that are chosen, sorted."""
    return F.sort_array(F.transform(F.filter("holders", chosen), lambda one: one["broker"]))
