"""When the clients of a broker that ended turned away from it, by what they recorded."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...registry.model import MASTER_ID
from ..tables import Column, Table
from .ends import END, KEY, unwanted_ends
from .frames import shaped, with_registry

__all__ = ["AVOIDANCE", "avoidance"]

AVOIDANCE: Final = Table(
    "avoidance",
    "a client that had sent to a broker that ended",
    (
        *END,
        Column("client", "string", "which client, as in SAMPLES"),
        Column("since_ms", "bigint", "as in DETECTION"),
        Column("last_attempt_ms", "bigint", "its last attempt on the broker after that; null = none"),
        Column("elsewhere_ms", "bigint", "its first attempt elsewhere after that; null = none"),
        Column(
            "avoided_ms",
            "bigint",
            "its first message to another broker after its last attempt on this one; null = none was seen",
        ),
        Column("knew_ms", "bigint", "its first attempt with the change of the end seen; null = none"),
        Column(
            "misdirected", "double", "its failed attempts on the broker, as many as the samples stand for"
        ),
        Column("error_ms", "double", "how far these times can be off; null = the client's own clock"),
        Column("avoided_after_ms", "bigint", "avoided_ms - since_ms; null = none was seen"),
    ),
)


def avoidance(
    sessions: DataFrame, samples: DataFrame, faults: DataFrame | None = None, *, look_s: float = 600.0
) -> DataFrame:
    """Return AVOIDANCE from BROKER_SESSIONS, SAMPLES and FAULTS, of masters.

    A client counts if it sent to the broker within `look_s` before the end or after it; what it did is looked
    at until the broker is back, and for `look_s` after the record at most. A sample that names no registry
    counts for each registry that has such a broker.
    """
    look_ms = round(look_s * 1000)
    ends = unwanted_ends(sessions, faults).where(F.col("broker_id") == MASTER_ID)
    watched = ends.select(
        *KEY,
        "since_ms",
        (F.col("since_ms") - look_ms).alias("from_ms"),
        F.least("back_ms", F.col("told_ms") + look_ms).alias("to_ms"),
        _place(F.col("end_id")).alias("end_place"),
    )
    # Times are met by slots that are as long as what is looked at: a join by range alone tries every pair.
    slot = F.floor(F.col("at_ms") / look_ms)
    slots = F.explode(F.sequence(F.floor(F.col("from_ms") / look_ms), F.floor(F.col("to_ms") / look_ms)))
    attempts = (
        with_registry(samples)
        .withColumn("slot", slot)
        .withColumnsRenamed({"broker": "to_broker", "registry": "of_registry"})
    )
    to_it = attempts.withColumn("broker", F.col("to_broker"))
    is_meant = F.col("of_registry").isNull() | (F.col("of_registry") == F.col("registry"))
    users = _used(watched.withColumn("slot", slots).join(to_it, ["broker", "slot"]).where(is_meant))
    told = attempts.select("of_registry", "client", "slot", "at_ms", "to_broker", "attempt", "position")
    seen = users.withColumn("slot", slots).join(told, ["client", "slot"]).where(is_meant)
    return shaped(_turned_away(users, seen), AVOIDANCE)


def _used(attempts: DataFrame) -> DataFrame:
    """Return a row an end and client that sent to it: its last attempt after that, and the failed ones."""
    is_after = F.col("at_ms") - F.col("latency_ms") >= F.col("since_ms")
    failed = is_after & (F.col("outcome") == "failed")
    in_time = (F.col("at_ms") >= F.col("from_ms")) & (F.col("at_ms") < F.col("to_ms"))
    return (
        attempts.where(in_time)
        .groupBy(*KEY, "client", "since_ms", "from_ms", "to_ms", "end_place")
        .agg(
            F.max(F.when(is_after, F.col("at_ms"))).alias("last_attempt_ms"),
            F.sum(F.when(failed, 1 / F.col("share")).otherwise(0)).alias("misdirected"),
            F.when(F.bool_and(F.col("error_ms").isNotNull()), F.max("error_ms")).alias("error_ms"),
        )
    )


def _turned_away(users: DataFrame, seen: DataFrame) -> DataFrame:
    """Add to the users what else they did after the end."""
    at, is_other = F.col("at_ms"), F.col("to_broker") != F.col("broker")
    turned = is_other & (F.col("attempt") == 1) & (at > F.coalesce("last_attempt_ms", "since_ms"))
    knows = _place(F.col("position")) >= F.col("end_place")
    later = (
        seen.where((at > F.col("since_ms")) & (at < F.col("to_ms")))
        .groupBy(*KEY, "client")
        .agg(
            F.min(F.when(is_other, at)).alias("elsewhere_ms"),
            F.min(F.when(turned, at)).alias("avoided_ms"),
            F.min(F.when(knows, at)).alias("knew_ms"),
        )
    )
    return users.join(later, [*KEY, "client"], "left").withColumn(
        "avoided_after_ms", F.col("avoided_ms") - F.col("since_ms")
    )


def _place(change_id: Expression) -> Expression:
    """Return an id of the stream as what compares like it; null when it is none."""
    parts = F.split(change_id, "-")
    ms, seq = (F.get(parts, number).try_cast("bigint") for number in (0, 1))
    return F.when(ms.isNotNull() & seq.isNotNull(), F.struct(ms.alias("ms"), seq.alias("seq")))
