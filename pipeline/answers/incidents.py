"""Which incidents there were, and what is left of each topic's error budget."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..tables import table
from .frames import in_runs, shaped

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_NAMED: Final = 20
"""So many of the brokers of an incident are named."""

_LISTS: Final = ("caused_by", "causes", "silent")
"""What the parts of an incident name, of which it has each name once."""

_WINDOWS: Final = {"burn_1h": (_HOUR_MS, 14.4), "burn_6h": (6 * _HOUR_MS, 6.0)}
"""How long each is, and from where on a budget burns too fast in it (Google's SRE workbook).

That is 2 % of a month's budget in an hour, or 5 % in six.
"""

INCIDENTS: Final = table("""
    incidents: brokers that failed and topics that lost theirs, one soon after the other
    registry
    from_ms bigint: when it began, by the store's clock
    to_ms bigint: when all were back, or the end of the knowledge
    lasted_ms bigint = to_ms - from_ms
    over boolean: whether all that it hit was seen to come back
    brokers array<string>: who failed, or took topics away; sorted; the first 20 of them
    broker_count bigint (brokers in all): how many brokers these were
    silent array<string> (silent before): who took no messages already, as in TOPIC_OUTAGES; the first 20
    failures bigint: ends of replicas that nobody asked for, as in DETECTION
    outages bigint (topic outages): TOPIC_OUTAGES of topics that are not RocketMQ's own
    lost_min double (topic time lost): minutes that they lasted, summed over the topics
    causes array<string>: as in TOPIC_OUTAGES, and how brokers ended; sorted
    misdirected double (misdirected sends): as in DETECTION; null = there are no samples
""")

TOPIC_BUDGETS: Final = table("""
    topic_budgets: a topic and its error budget: the time that it may be out and still meet the objective
    registry, topic
    availability double: as in TOPIC_AVAILABILITY
    budget_min double: (1 - objective) of the minutes that it was held
    lost_min double: minutes that it was out
    left_min double = budget_min - lost_min; negative = the objective is missed
    spent double (budget spent) = lost_min / budget_min
    burn_1h double: how many times too fast the budget was spent in the last hour
    burn_6h double: the same of the last six hours
    verdict string: missed; burning: burn_1h from 14.4 on, or burn_6h from 6 on, or it is out at the end; met
    system
""")


def incidents(ends: DataFrame, outages: DataFrame, span: DataFrame, *, apart_s: float = 60.0) -> DataFrame:
    """Return INCIDENTS from DETECTION and TOPIC_OUTAGES: what begins within `apart_s` is one of them.

    `span` says until when each registry was observed (`until_ms`).
    """
    one = F.lit(1).cast("bigint")
    of_ends = ends.join(F.broadcast(span.select("registry", "until_ms")), "registry").withColumns(
        {
            "from_ms": F.coalesce("lease_ended_ms", "told_ms"),
            "to_ms": F.coalesce("back_ms", "until_ms"),
            "over": F.col("back_ms").isNotNull(),
            "failures": one,
            "caused_by": F.array("broker"),
            "causes": F.array("ended"),
        }
    )
    of_topics = outages.where(~F.col("system")).withColumn("outages", one)
    events = of_ends.unionByName(of_topics, allowMissingColumns=True)
    # Of seconds first: a registry is one partition of a window.
    second = F.floor(F.col("from_ms") / 1000).alias("second")
    lists = [F.sort_array(F.array_distinct(F.flatten(F.collect_set(name)))).alias(name) for name in _LISTS]
    # What is alike is summed up before: Spark takes long to collect lists.
    alike = events.groupBy(second, "registry", *_LISTS).agg(*_sums())
    by_second = alike.groupBy("second", "registry").agg(*_sums(), *lists)
    runs = in_runs(by_second, ("registry",), "from_ms", F.col("from_ms") + round(apart_s * 1000))
    found = runs.groupBy("registry", "run").agg(*_sums(), *lists)
    others = F.filter("silent", lambda one: ~F.array_contains("caused_by", F.substring_index(one, " ", 1)))
    return shaped(
        found.fillna(0, ["failures", "outages", "lost_ms"]).withColumns(
            {
                "brokers": F.slice("caused_by", 1, _NAMED),
                "broker_count": F.size("caused_by"),
                "silent": F.slice(others, 1, _NAMED),
                "lost_min": F.col("lost_ms") / _MINUTE_MS,
            }
        ),
        INCIDENTS,
    )


def _sums() -> tuple[Expression, ...]:
    """Return what events, or sums of them, come to, but for their causes."""
    return (
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.bool_and("over").alias("over"),
        F.sum("failures").alias("failures"),
        F.sum("outages").alias("outages"),
        F.sum("lost_ms").alias("lost_ms"),
        F.sum("misdirected").alias("misdirected"),
    )


def topic_budgets(
    availability: DataFrame, outages: DataFrame, span: DataFrame, *, objective: float
) -> DataFrame:
    """Return TOPIC_BUDGETS of an objective such as 0.999 from TOPIC_AVAILABILITY and TOPIC_OUTAGES.

    `span` says until when each registry was observed (`until_ms`): the windows end there.
    """
    is_out = F.bool_or(~F.col("over") & (F.col("to_ms") >= F.col("until_ms"))).alias("is_out")
    recent = (
        outages.join(F.broadcast(span.select("registry", "until_ms")), "registry")
        .groupBy("registry", "topic")
        .agg(*(_lost_in(ms).alias(name) for name, (ms, _) in _WINDOWS.items()), is_out)
    )
    held_min = F.col("held_ms") / _MINUTE_MS
    allowed = F.lit(1 - objective)
    # An outage that lasts, however short yet, is no objective met.
    burning = reduce(or_, (F.col(name) >= limit for name, (_, limit) in _WINDOWS.items()), F.col("is_out"))
    burn = {
        name: F.coalesce(F.try_divide(name, F.least("held_ms", F.lit(ms))) / allowed, F.lit(0.0))
        for name, (ms, _) in _WINDOWS.items()
    }
    return shaped(
        availability.where("held_ms > 0")
        .join(recent, ["registry", "topic"], "left")
        .withColumn("budget_min", held_min * allowed)
        .withColumns(burn)
        .withColumn(
            "verdict",
            F.when(F.col("lost_min") > F.col("budget_min"), "missed")
            .when(burning, "burning")
            .otherwise("met"),
        ),
        TOPIC_BUDGETS,
    )


def _lost_in(window_ms: int) -> Expression:
    """Return how much of outages lies in the last part of the observation."""
    begin_ms = F.col("until_ms") - window_ms
    return F.sum(F.greatest(F.col("to_ms") - F.greatest("from_ms", begin_ms), F.lit(0)))
