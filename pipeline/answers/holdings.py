"""Which brokers hold a topic, and when: each for itself, and the set of them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ...registry.model import ChangeKind
from ..tables import Table
from .frames import covered, each_of, eras, named_after, readable, shaped, with_system

SET: Final = ("set_a", "set_b", "registry")
"""What names a set of brokers: two hashes of 64 bits, so that a row about a set of any size is small."""

TOPIC: Final = ("topic_hash", "registry", "topic")
"""What names a topic: a number first, because names begin alike and take longer to compare."""

BY_TOPIC: Final = ("held", "placed")
"""What is partitioned by topic: outages, availability and lives of topics need no further exchange."""

_PAIR: Final = (*TOPIC, "broker")
_HOLDING: Final = (*_PAIR, "from_ms", "to_ms", "came", "went", "seen")
_LAST: Final = 2**63 - 1
"""Behind each `seq` of a ms."""


@dataclass(eq=False)
class Seen:
    """What changes tell up to a time, and what answers about topics are made from.

    `keep` is what is done with that, by its name, as to write it: several answers begin with the same. From
    `from_ms` on it counts, whatever is known of the time before.
    """

    changes: DataFrame
    routes: DataFrame | None = None
    until_ms: int | None = None
    keep: Callable[[str, DataFrame], DataFrame] = lambda _, frame: frame
    from_ms: int | None = None

    @cached_property
    def span(self) -> DataFrame:
        """What the changes cover."""
        return self.keep("span", covered(self.changes, self.until_ms))

    @cached_property
    def held(self) -> DataFrame:
        """Registry, topic, broker, from_ms, to_ms, and whether the topic is known to have come and gone.

        What goes without having come was there before the first change; so is what ROUTES have and no change
        tells of. A topic stays with its broker while that one is away, and across gaps. When the record
        behind a gap says that it must have come or gone in there, it counts as held throughout that gap: it
        has come, and nobody has `seen` it come.
        """
        return self.keep("held", _holdings(self.changes, self.span, self.routes, self.until_ms))

    @cached_property
    def placed(self) -> DataFrame:
        """Which set of brokers held which topic when, as `placements` says."""
        return self.keep("placed", placements(self.held))

    @cached_property
    def _named(self) -> DataFrame:
        ups = readable(self.changes, self.until_ms).where(F.col("kind") == ChangeKind.UP)
        names = ups.select("registry", "broker", "cluster").distinct()
        named = names.select("registry", F.explode(named_after()).alias("topic")).distinct()
        return self.keep("named", named)

    def shaped(self, topics: DataFrame, table: Table) -> DataFrame:
        """Return rows about topics as the table, with whether each topic is RocketMQ's own."""
        return shaped(with_system(topics, self._named), table)


def _holdings(
    changes: DataFrame, span: DataFrame, routes: DataFrame | None, until_ms: int | None
) -> DataFrame:
    span = F.broadcast(span)
    events = _events(changes, until_ms, span)
    if routes is not None:
        events = events.unionByName(_there(routes, span))
    events = events.withColumn("topic_hash", topic_hash())
    of_pair = Window.partitionBy(*_PAIR).orderBy("ms", "seq")
    held, was = F.col("held"), F.col("was.held")
    is_other_era = F.col("was.era") != F.col("era")
    # `held` is null in the snapshot at the end: it is news only of a topic that nobody saw come.
    is_news = was.isNull() | F.when(held.isNull(), ~was & is_other_era).otherwise(
        (was != held) | is_other_era
    )
    turns = (
        # One exchange for all that is asked of a topic, or of a topic and a broker.
        events.repartition("topic_hash")
        .withColumn("was", F.lag(F.struct("held", "era")).over(of_pair))
        .where(is_news)
        .withColumn("next", F.lead(F.struct("ms", "held", "era")).over(of_pair))
        # What is told to go while it was there has ended what was there: that is told by the row before.
        .where(F.coalesce(held, F.lit(col=False)) | was.isNull() | ~was)
        .join(span, "registry")
    )
    return (
        turns.withColumns({"from_ms": _from_ms(), "to_ms": _to_ms()})
        .withColumn("seen", F.coalesce(held, F.lit(col=False)))
        .withColumn("came", F.col("seen") | was.isNotNull())
        .withColumn("went", F.when(held, F.col("next").isNotNull()).otherwise(held.isNotNull()))
        .select(*_HOLDING)
    )


def topic_hash() -> Column:
    """Return the first part of TOPIC."""
    return F.xxhash64("registry", "topic")


def _from_ms() -> Column:
    """Return when a broker got a topic, from a record and what was told before it."""
    came_in = F.get("gaps", F.col("era") - 1)
    return (
        F.when(F.col("held"), F.col("ms"))
        .when(F.col("was.held").isNull(), F.col("since_ms"))
        .otherwise(came_in["ms"])
    )


def _to_ms() -> Column:
    """Return when a broker lost a topic, from a record and what is told next."""
    went_in = F.get("gaps", F.col("next.era") - 1)
    lost_ms = F.when(F.col("next.held"), went_in["after_ms"]).otherwise(F.col("next.ms"))
    return F.when(F.col("held"), F.coalesce(lost_ms, "until_ms")).otherwise(F.col("ms"))


def placements(held: DataFrame) -> DataFrame:
    """Return SET, TOPIC, size, from_ms, to_ms: the times in which, by holdings, a topic had a set of brokers.

    `is_new`: nobody had the topic before, and it was seen to come; `is_over`: the end of it is known.
    """
    # At one time a broker is once in the set: it comes with one hash, and goes with the same.
    comes = {"ms": F.col("from_ms"), "step": F.lit(1), "is_told": F.col("seen")}
    goes = {"ms": F.col("to_ms"), "step": F.lit(-1), "is_told": F.col("went")}
    # Whoever had it before the first change comes before those that got it in the same ms.
    in_order = Window.partitionBy(*TOPIC).orderBy("ms", F.desc("step"), "is_told")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    is_born = F.when(F.col("size") - F.col("step") == 0, F.struct("ms", "is_told"))
    return (
        held.where("to_ms > from_ms")
        .withColumns({"hash_a": F.xxhash64("broker"), "hash_b": F.xxhash64("broker", F.lit("b"))})
        .select(*TOPIC, "hash_a", "hash_b", each_of(comes, goes))
        .withColumns(
            {
                "size": F.sum("step").over(so_far),
                "set_a": F.bit_xor("hash_a").over(so_far),
                "set_b": F.bit_xor("hash_b").over(so_far),
                "to_ms": F.lead("ms").over(in_order),
                "is_over": F.lead("is_told").over(in_order),
            }
        )
        .withColumn("born", F.last(is_born, ignorenulls=True).over(so_far))
        # What happens in one ms happens at once: only the last of its rows lasts.
        .where((F.col("size") > 0) & (F.col("to_ms") > F.col("ms")))
        .withColumn("is_new", F.col("born.is_told") & (F.col("born.ms") == F.col("ms")))
        .select("set_a", "set_b", *TOPIC, "size", F.col("ms").alias("from_ms"), "to_ms", "is_new", "is_over")
    )


def _events(changes: DataFrame, until_ms: int | None, span: DataFrame) -> DataFrame:
    """Return a row for every topic that a broker is told to have from then on, or no longer to have."""
    told = readable(changes, until_ms).where(F.col("kind").isin(ChangeKind.TOPICS, ChangeKind.DELETED))
    by_operator = F.col("kind") == ChangeKind.DELETED
    whose = F.when(by_operator, F.col("brokers")).otherwise(F.array("broker"))
    came = {"held": F.lit(col=True), "topics": F.col("added")}
    went = {"held": F.lit(col=False), "topics": F.col("removed")}
    events = (
        eras(told, span)
        .select("registry", "ms", "seq", "era", whose.alias("brokers"), each_of(came, went))
        .select("registry", "ms", "seq", "era", "brokers", "held", F.explode("topics").alias("topic"))
        .select("registry", "ms", "seq", "era", "topic", F.explode("brokers").alias("broker"), "held")
    )
    # Never null, so that no join adds a filter of its own below an exchange that is to be the same for all.
    return events.withColumns({name: F.coalesce(name, F.lit("")) for name in ("registry", "topic", "broker")})


def _there(routes: DataFrame, span: DataFrame) -> DataFrame:
    """Return a row for every topic that a broker has in a snapshot, as the last that is known of it."""
    if "problem" in routes.columns:
        routes = routes.where(F.col("problem").isNull())
    last = {"ms": F.col("until_ms"), "seq": F.lit(_LAST), "era": F.size("gaps")}
    return (
        routes.select("registry", "topic", "broker")
        .distinct()
        .join(span, "registry")
        .withColumns({**last, "held": F.lit(None).cast("boolean")})
        .select("registry", "ms", "seq", "era", "topic", "broker", "held")
    )
