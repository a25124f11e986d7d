"""Where topics and queues lie: how evenly, what has no second broker, and who takes new queues."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from ..tables import table
from .frames import is_system, named_after, shaped

BROKER_LOAD: Final = table("""
    placement: a broker and the queues on it; RocketMQ's own topics are not counted
    registry, cluster, broker
    alive boolean: whether its master is alive
    wiped boolean: whether an operator took its write permission
    topics bigint: topics on it
    read_queues bigint: queues of its topics that can be read
    write_queues bigint: queues of its topics that can be written
    over_mean double (of the mean): write queues / mean of the cluster's brokers; 1 = as the mean
    rank int: 1 = the first of its cluster to take new queues; null = it takes none: dead, or wiped
    room bigint: write queues that it lacks to the fullest broker with a rank; null = no rank
""")

CLUSTER_SKEW: Final = table("""
    placement_skew: a cluster, and how evenly write queues lie on its brokers, the dead ones included
    registry, cluster
    brokers bigint: brokers of the cluster that hold any topic
    writable_brokers bigint: those with a live master and the write permission
    topics bigint: topics in the cluster
    write_queues bigint: queues that can be written
    mean double: write queues a broker
    most bigint: write queues of the fullest broker
    most_over_mean double = most / mean; 1 = even; null = there is no queue
    single_broker_topics bigint: topics with one broker to write to in the whole registry, wiped ones aside
    room bigint: write queues to add, on writable brokers, until these have as many each
""")

SINGLE_BROKER_TOPICS: Final = table("""
    single_broker_topics: a topic that one broker of the registry takes, and no other; RocketMQ's own are left
        out
    registry, cluster, topic
    broker string: the only broker that takes messages for it
    alive boolean: whether the broker's master is alive
    write_queues bigint: queues that can be written
""")

_READ: Final = 4
_WRITE: Final = 2
"""The bits of `perm` that let messages out and in (RocketMQ: PermName)."""

_OF: Final = ("registry", "cluster")


def broker_load(routes: DataFrame) -> DataFrame:
    """Return BROKER_LOAD of a ROUTES snapshot, ordered by registry, cluster, broker."""
    loads = (
        _entries(routes)
        .groupBy(*_OF, "broker")
        .agg(
            f.max("alive").alias("alive"),
            f.max("wiped").alias("wiped"),
            f.count_if("is_own").alias("topics"),
            f.sum("reads").alias("read_queues"),
            f.sum("writes").alias("write_queues"),
        )
    )
    takes = f.col("alive") & ~f.col("wiped")
    cluster = Window.partitionBy(*_OF)
    mean = f.avg("write_queues").over(cluster)
    emptiest_first = Window.partitionBy(*_OF, takes).orderBy("write_queues", "topics", "broker")
    fullest = f.max(f.when(takes, f.col("write_queues"))).over(cluster)
    return (
        loads.withColumns(
            {
                "over_mean": f.when(mean > 0, f.col("write_queues") / mean),
                "rank": f.when(takes, f.row_number().over(emptiest_first)),
                "room": f.when(takes, fullest - f.col("write_queues")),
            }
        )
        .select(*BROKER_LOAD.names)
        .orderBy(*_OF, "broker")
    )


def cluster_skew(routes: DataFrame) -> DataFrame:
    """Return CLUSTER_SKEW of a ROUTES snapshot, ordered by registry, cluster."""
    skews = (
        broker_load(routes)
        .groupBy(*_OF)
        .agg(
            f.count("*").alias("brokers"),
            f.count("rank").alias("writable_brokers"),
            f.sum("write_queues").alias("write_queues"),
            f.avg("write_queues").alias("mean"),
            f.max("write_queues").alias("most"),
            f.coalesce(f.sum("room"), f.lit(0)).alias("room"),
        )
    )
    topics = _entries(routes).where("is_own").groupBy(*_OF)
    singles = _singles(routes).groupBy(*_OF).agg(f.count("*").alias("single_broker_topics"))
    return (
        skews.join(topics.agg(f.count_distinct("topic").alias("topics")), [*_OF], "left")
        .join(singles, [*_OF], "left")
        .fillna(0, ["topics", "single_broker_topics"])
        .transform(shaped, CLUSTER_SKEW)
        .orderBy(*_OF)
    )


def single_broker_topics(routes: DataFrame) -> DataFrame:
    """Return SINGLE_BROKER_TOPICS of a ROUTES snapshot, ordered by registry, cluster, topic."""
    return _singles(routes).select(*SINGLE_BROKER_TOPICS.names).orderBy(*_OF, "topic")


def _entries(routes: DataFrame) -> DataFrame:
    """Return the readable rows with what counts: `alive`, `is_own` (not RocketMQ's), `reads`, `writes`."""
    is_own = ~(is_system() | f.array_contains(named_after(), f.col("topic")))

    def queues(bit: int, count: str) -> Expression:
        return f.coalesce(f.when(is_own & (f.col("perm").bitwiseAND(bit) > 0), f.col(count)), f.lit(0))

    return routes.where(f.col("problem").isNull()).withColumns(
        {
            "alive": f.col("master_address").isNotNull(),
            "is_own": is_own,
            "reads": queues(_READ, "read_queue_nums"),
            "writes": queues(_WRITE, "write_queue_nums"),
        }
    )


def _singles(routes: DataFrame) -> DataFrame:
    """Return the topics that one broker takes messages for, with that broker."""
    return (
        _entries(routes)
        .where("writes > 0 AND NOT wiped")
        .groupBy("registry", "topic")
        .agg(
            f.count("*").alias("brokers"),
            *(f.min(name).alias(name) for name in ("cluster", "broker", "alive")),
            f.min("writes").cast("bigint").alias("write_queues"),
        )
        .where("brokers = 1")
    )
