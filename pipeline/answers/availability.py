"""When topics had no broker, or too few, that took messages; which brokers caused it, and what it cost."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...registry.model import MASTER_ID, ChangeKind
from ..tables import table
from .frames import each_of, eras, in_runs, is_forgotten, no_names, readable, shaped
from .holdings import SET, TOPIC, Seen, topic_hash

_MINUTE_MS: Final = 60_000

TOPIC_OUTAGES: Final = table("""
    topic_outages: a time in which fewer than n of the brokers that hold a topic took messages, [from_ms,
        to_ms)
    registry, topic
    from_ms bigint: when it began, by the store's clock
    to_ms bigint: when it was over, or the end of the knowledge
    lost_ms bigint = to_ms - from_ms
    over boolean: whether its end was seen; false = it lasted until the end of the knowledge, or until its
        brokers were forgotten
    brokers bigint: how many brokers held the topic when it began
    fewest bigint: how many of the brokers took messages at the worst moment
    caused_by array<string>: the brokers whose end, or whose wiping, began it; empty = the topic left who took
        messages
    causes array<string>: how these ended: as `ended` in BROKER_SESSIONS, or wiped; sorted, without repetition
    silent array<string> (silent before): the other brokers of the topic, which took no messages already, each
        with why: `broker-a wiped`; sorted
    system
""")

TOPIC_AVAILABILITY: Final = table("""
    topic_availability: a topic over the whole observation
    registry, topic
    held_ms bigint: how long at least one broker held it, gaps left out
    unknown_ms bigint: how long gaps lasted before or after which a broker held it
    absent_ms bigint (deleted for): how long no broker held it after the first one had, until it came back or
        to the end: no outage; null = one always did
    outages bigint: number of its TOPIC_OUTAGES
    lost_min double: minutes that they lasted
    longest_min double: minutes that the longest one lasted; 0 = none
    availability double: 1 - lost time / held_ms; null = it was never held for a ms
    system
""")

OUTAGE_CAUSES: Final = table("""
    outage_causes: a broker that caused outages of topics; of RocketMQ's own topics it has a row of its own
    registry
    broker string: broker name; empty = no broker did, topics left theirs
    outages bigint: number of TOPIC_OUTAGES that it caused, alone or with others
    topics bigint: number of topics that they hit
    lost_min double: minutes that they lasted, summed over the topics
    causes array<string>: as in TOPIC_OUTAGES, of all of them
    system boolean (RocketMQ's own): whether these topics are RocketMQ's own
""")


def topic_outages(seen: Seen, sessions: DataFrame, *, fewer_than: int = 1) -> DataFrame:
    """Return TOPIC_OUTAGES from what was seen, and the BROKER_SESSIONS of the same changes.

    A broker takes messages for all its topics, unless its master is known to be away, or the broker is wiped:
    the permissions of single topics are not in the changes. What is not known is no outage. A topic on fewer
    than `fewer_than` brokers counts only while one of them takes none, and a new one only once enough have.
    """
    silent = _silences(seen, sessions)
    # A million topics share few sets of brokers: what happened to a set is worked out once for all of them.
    members = _members(seen.placed, seen.held, silent)
    in_time = (F.col("from_ms") < F.col("last_ms")) & (F.col("to_ms") > F.col("first_ms"))
    silences = seen.keep("silences", members.join(silent, ["registry", "broker"]).where(in_time))
    low = seen.keep("low", _low_times(silences, fewer_than))
    outages = _with_names(_of_topics(seen.placed, low), _with_silent(low, silences))
    return seen.shaped(_since(outages, seen.from_ms), TOPIC_OUTAGES)


def _silences(seen: Seen, sessions: DataFrame) -> DataFrame:
    """Return registry, broker, from_ms, to_ms, cause, over: when a broker took no messages."""
    away = sessions.where((F.col("broker_id") == MASTER_ID) & (F.col("away_until_ms") > F.col("end_ms")))
    renamed = {"end_ms": "from_ms", "away_until_ms": "to_ms", "ended": "cause", "returned": "over"}
    found = away.select("registry", "broker", *renamed).withColumnsRenamed(renamed).unionByName(wiped(seen))
    runs = in_runs(found.where("to_ms > from_ms"), ("registry", "broker"), "from_ms", "to_ms")
    return runs.groupBy("registry", "broker", "run").agg(
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
        F.min_by("cause", F.struct("from_ms", "cause")).alias("cause"),
        F.max_by("over", F.struct("to_ms", ~F.col("over"))).alias("over"),
    )


def wiped(seen: Seen) -> DataFrame:
    """Return registry, broker, from_ms, to_ms, cause, over: when brokers had no write permission.

    Who is lifted first was wiped before what is known.
    """
    kind = F.col("kind")
    told = readable(seen.changes, seen.until_ms).where(
        kind.isin(ChangeKind.WIPED, ChangeKind.LIFTED) | is_forgotten()
    )
    of_broker = Window.partitionBy("registry", "broker", "era").orderBy("ms", "seq")
    begins = kind == ChangeKind.WIPED
    found = (
        eras(told, seen.span)
        .withColumn("before", F.lag("kind").over(of_broker))
        .withColumn("next_ms", F.lead("ms").over(of_broker))
        .where(begins | ((kind == ChangeKind.LIFTED) & F.col("before").isNull()))
        .select(
            "registry",
            "broker",
            F.when(begins, F.col("ms")).otherwise(F.col("era_from_ms")).alias("from_ms"),
            F.when(begins, F.coalesce("next_ms", "era_to_ms")).otherwise(F.col("ms")).alias("to_ms"),
            F.lit("wiped").alias("cause"),
            (~begins | F.col("next_ms").isNotNull()).alias("over"),
        )
    )
    return seen.keep("wiped", found)


def _members(placed: DataFrame, held: DataFrame, silent: DataFrame) -> DataFrame:
    """Return SET, size, broker of those brokers of each set that were ever silent, and its life."""
    # Any topic that had these brokers tells which they are: the first by a number, found without sorting.
    also = F.xxhash64("topic", "registry")
    one = {"topic_hash": F.col("topic_hash"), "also": also, "at_ms": F.col("from_ms")}
    place = F.xxhash64("topic_hash", "from_ms")
    brokers = silent.select("registry", "broker").distinct()
    sets = placed.groupBy(*SET).agg(
        F.max("size").alias("size"),
        F.min("from_ms").alias("first_ms"),
        F.max("to_ms").alias("last_ms"),
        *(F.min_by(value, place).alias(name) for name, value in one.items()),
    )
    return (
        held.withColumn("also", also)
        .join(sets.hint("shuffle_hash"), ["topic_hash", "registry", "also"])
        .where((F.col("from_ms") <= F.col("at_ms")) & (F.col("at_ms") < F.col("to_ms")))
        .select(*SET, "size", "broker", "first_ms", "last_ms")
        .join(F.broadcast(brokers), ["registry", "broker"], "left_semi")
        .distinct()
    )


def _low_times(silences: DataFrame, fewer_than: int) -> DataFrame:
    """Return when a set had too few brokers that took messages, in pieces with the same number of them.

    SET, size, low_from_ms, low_to_ms, left (that number), started (who fell silent then, and why), over.
    """
    unknown = F.lit(None)
    falls = {"ms": F.col("from_ms"), "step": F.lit(1), "who": F.struct("broker", "cause"), "over": unknown}
    rises = {"ms": F.col("to_ms"), "step": F.lit(-1), "who": unknown, "over": F.col("over")}
    moments = (
        silences.select(*SET, "size", each_of(falls, rises))
        .repartition("set_a")  # once, for all that follows
        .groupBy(*SET, "ms")
        .agg(
            F.any_value("size").alias("size"),
            F.sum("step").alias("step"),
            F.collect_set("who").alias("started"),
            F.bool_or("over").alias("over"),
        )
    )
    in_order = Window.partitionBy(*SET).orderBy("ms")
    silent_now = F.sum("step").over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    return (
        moments.withColumn("left", F.col("size") - silent_now)
        .withColumn("low_to_ms", F.lead("ms").over(in_order))
        .withColumn("over", F.lead("over").over(in_order))
        .where((F.col("left") < fewer_than) & (F.col("left") < F.col("size")))
        .select(*SET, "size", F.col("ms").alias("low_from_ms"), "low_to_ms", "left", "started", "over")
    )


def _with_silent(low: DataFrame, silences: DataFrame) -> DataFrame:
    """Add to low times which brokers of the set took no messages already when each began, and why."""
    others = F.col("size") - F.col("left") > F.size("started")
    pieces = low.where(others).select(*SET, F.col("low_from_ms").alias("ms"))
    silences = silences.join(pieces.select(*SET).distinct(), [*SET], "left_semi")
    asked = pieces.join(silences.select(*SET, "broker").distinct(), [*SET])
    fall = F.struct("to_ms", "cause").alias("fall")
    falls = silences.select(*SET, "broker", F.col("from_ms").alias("ms"), fall)
    # Who falls just then stands behind the question.
    in_order = Window.partitionBy(*SET, "broker").orderBy("ms", F.col("fall").isNotNull())
    before = F.last("fall", ignorenulls=True).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    found = (
        asked.unionByName(falls, allowMissingColumns=True)
        .withColumn("before", before)
        .where(F.col("fall").isNull() & (F.col("before.to_ms") > F.col("ms")))
        .groupBy(*SET, F.col("ms").alias("low_from_ms"))
        .agg(F.collect_set(F.concat_ws(" ", "broker", "before.cause")).alias("silent"))
    )
    return low.join(found, [*SET, "low_from_ms"], "left")


def _of_topics(placed: DataFrame, low: DataFrame) -> DataFrame:
    """Return the outages of the topics that had a set of brokers while it was low, each with its first piece.

    Numbers alone: there are many pieces, and Spark would sort them for anything longer.
    """
    # A topic that leaves its brokers has no outage any more.
    has_left = F.col("is_over") & (F.col("to_ms") <= F.col("low_to_ms"))
    pieces = (
        placed.join(low.select(*SET, "low_from_ms", "low_to_ms", "left", "over"), [*SET])
        .where((F.col("low_from_ms") < F.col("to_ms")) & (F.col("low_to_ms") > F.col("from_ms")))
        .withColumn("is_born", (F.col("low_from_ms") <= F.col("from_ms")) & F.col("is_new"))
        .withColumn("over", F.col("over") | has_left)
        .withColumn("from_ms", F.greatest("from_ms", "low_from_ms"))
        .withColumn("to_ms", F.least("to_ms", "low_to_ms"))
    )
    runs = in_runs(pieces, TOPIC, "from_ms", "to_ms").groupBy(*TOPIC, "run")
    of_first = ("is_born", "size", "set_a", "set_b", "low_from_ms")
    found = runs.agg(
        *(F.min_by(name, "from_ms").alias(name) for name in of_first),
        F.max("to_ms").alias("to_ms"),
        F.max_by("over", "to_ms").alias("over"),
        F.min("left").alias("fewest"),
        F.min("from_ms").alias("from_ms"),
    )
    return found.where(~F.col("is_born")).withColumnRenamed("size", "brokers")


def _with_names(outages: DataFrame, low: DataFrame) -> DataFrame:
    """Add to outages who began them, and who took no messages already."""
    is_cut = F.col("low_from_ms") < F.col("from_ms")
    fell = F.when(is_cut, F.transform("started", lambda one: F.concat_ws(" ", one["broker"], one["cause"])))
    silent = F.concat(F.coalesce("silent", no_names()), F.coalesce(fell, no_names()))
    started = F.when(is_cut, F.array()).otherwise(F.col("started"))
    return (
        outages.join(low.select(*SET, "low_from_ms", "started", "silent"), [*SET, "low_from_ms"])
        .withColumns({"silent": F.sort_array(silent), "started": started})
        .withColumn("caused_by", F.sort_array("started.broker"))
        .withColumn("causes", F.sort_array(F.array_distinct("started.cause")))
    )


def topic_availability(seen: Seen, outages: DataFrame) -> DataFrame:
    """Return TOPIC_AVAILABILITY from what was seen, and the TOPIC_OUTAGES of it."""
    length_ms = F.col("to_ms") - F.col("from_ms")
    span = F.broadcast(seen.span.select("registry", "gaps", "until_ms"))
    found = (
        _since(seen.placed, seen.from_ms)
        .join(span, "registry")
        .withColumn("unknown_ms", _in_gaps_ms())
        .groupBy(*TOPIC)
        .agg(
            F.sum(length_ms - F.col("unknown_ms")).alias("held_ms"),
            F.sum("unknown_ms").alias("unknown_ms"),
            (F.any_value("until_ms") - F.min("from_ms") - F.sum(length_ms)).alias("absent_ms"),
        )
        .withColumn("absent_ms", F.nullif("absent_ms", F.lit(0)))
    )
    lost = (
        outages.withColumn("topic_hash", topic_hash())
        .groupBy(*TOPIC)
        .agg(
            F.count("*").alias("outages"),
            F.sum("lost_ms").alias("lost_ms"),
            F.max("lost_ms").alias("longest_ms"),
        )
    )
    return seen.shaped(
        found.join(lost, [*TOPIC], "left")
        .fillna(0, ["outages", "lost_ms", "longest_ms"])
        .withColumn("lost_min", F.col("lost_ms") / _MINUTE_MS)
        .withColumn("longest_min", F.col("longest_ms") / _MINUTE_MS)
        .withColumn("availability", 1 - F.try_divide("lost_ms", "held_ms")),
        TOPIC_AVAILABILITY,
    )


def _since(times: DataFrame, from_ms: int | None) -> DataFrame:
    """Cut off what lies before a time of rows with from_ms and to_ms; None = nothing."""
    if from_ms is None:
        return times
    return times.where(F.col("to_ms") > from_ms).withColumn("from_ms", F.greatest("from_ms", F.lit(from_ms)))


def _in_gaps_ms() -> Expression:
    """Return how much of [from_ms, to_ms) lies in gaps, which do not overlap."""
    nothing = F.lit(0).cast("bigint")
    found = F.aggregate(
        "gaps",
        nothing,
        lambda so_far, gap: (
            so_far + F.greatest(F.least("to_ms", gap["after_ms"]) - F.greatest("from_ms", gap["ms"]), nothing)
        ),
    )
    return F.when(F.size("gaps") > 0, found).otherwise(nothing)


def outage_causes(outages: DataFrame) -> DataFrame:
    """Return OUTAGE_CAUSES from TOPIC_OUTAGES."""
    of_broker = outages.select("*", F.explode_outer("caused_by").alias("broker")).fillna("", "broker")
    # What is alike is counted first: Spark takes long to collect lists.
    alike = of_broker.groupBy("registry", "broker", "system", "topic", "causes").agg(
        F.count("*").alias("outages"), F.sum("lost_ms").alias("lost_ms")
    )
    found = alike.groupBy("registry", "broker", "system").agg(
        F.sum("outages").alias("outages"),
        F.count_distinct("topic").alias("topics"),
        (F.sum("lost_ms") / _MINUTE_MS).alias("lost_min"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_set("causes")))).alias("causes"),
    )
    return shaped(found, OUTAGE_CAUSES)
