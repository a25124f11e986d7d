"""The ends of brokers that nobody asked for, and when they happened at the earliest."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...registry.model import MASTER_ID
from ..tables import Column
from .uptime import failure

__all__ = ["END", "KEY", "unwanted_ends"]

END: Final = (
    Column("registry", "string", "which registry"),
    Column("broker", "string", "broker name"),
    Column("broker_id", "bigint", "0 = master"),
    Column("end_id", "string", "change_id of the record of the end"),
)
"""What names an end."""

KEY: Final = tuple(column.name for column in END)


def unwanted_ends(sessions: DataFrame, faults: DataFrame | None) -> DataFrame:
    """Return the BROKER_SESSIONS whose end nobody asked for, with what, fault_ms, heartbeat_from_ms,
    heartbeat_to_ms, since_ms and back_ms as in DETECTION.
    """
    ended = F.col("ended")
    ends = sessions.where(ended.isin("expired", "clean"))
    is_expired = ended == "expired"
    beats_ms = F.coalesce("lease_ended_ms", "told_ms") - F.col("lease_ttl_ms")
    return (
        _with_faults(ends, faults)
        .where(failure() | F.col("what").isNotNull())
        .withColumn("heartbeat_to_ms", F.when(is_expired, beats_ms))
        .withColumn(
            "heartbeat_from_ms", F.when(F.col("lease_ended_ms").isNotNull(), F.col("heartbeat_to_ms"))
        )
        .withColumn("since_ms", F.coalesce("fault_ms", "heartbeat_to_ms", "told_ms"))
        .withColumn("back_ms", F.when(F.col("returned"), F.col("away_until_ms")))
    )


def _with_faults(ends: DataFrame, faults: DataFrame | None) -> DataFrame:
    """Add what was done to a master last, before the record of its end, and when."""
    if faults is None:
        return ends.withColumns({"fault_ms": F.lit(None).cast("bigint"), "what": F.lit(None).cast("string")})
    done = faults.where(F.col("what").isin("killed", "frozen")).select("registry", "broker", "at_ms", "what")
    masters = ends.where(F.col("broker_id") == MASTER_ID)
    of_end = (
        masters.select("registry", "broker", "begin_ms", "told_ms", "end_id")
        .join(done, ["registry", "broker"])
        .where((F.col("at_ms") >= F.col("begin_ms")) & (F.col("at_ms") <= F.col("told_ms")))
        .groupBy("registry", "broker", "end_id")
        .agg(F.max("at_ms").alias("fault_ms"), F.max_by("what", "at_ms").alias("what"))
        .withColumn("broker_id", F.lit(MASTER_ID).cast("bigint"))
    )
    return ends.join(of_end, [*KEY], "left")
