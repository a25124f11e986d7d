"""What the sessions of the brokers come to: availability, reliability, flaps."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..tables import table
from .frames import shaped

BROKER_RELIABILITY: Final = table("""
    broker_reliability: a replica of a broker over the whole observation
    registry, broker, broker_id, cluster
    sessions bigint: number of its sessions
    failures bigint: sessions that expired, or ended because the broker was gone
    stops bigint: sessions that ended clean
    restarts bigint: sessions that were replaced
    takeovers bigint: sessions that were fenced
    flaps bigint: sessions that lasted less than `short_s`, or after which it was back within `return_s`
    alive_ms bigint: how long it was alive
    away_ms bigint: how long it was away: after a session, until the next, until it was forgotten, or until
        the end of the knowledge; not after it has moved to another id
    availability double = alive_ms / (alive_ms + away_ms)
    mtbf_s double (between failures): mean time between failures: alive time per failure; null = none failed
    mttr_s double (back after): mean time to return after a failure, of those that returned; null = none did
    longest_away_s double: the longest time that it was away
""")


def observed(sessions: DataFrame, from_ms: int | None) -> DataFrame:
    """Return BROKER_SESSIONS as of an observation that begins at a time; None = with the first change.

    What ended before then, and was away in it, has no length, and is `earlier`: no end that counts.
    """
    if from_ms is None:
        return sessions
    begin = F.lit(from_ms)
    is_before = F.col("end_ms") < begin
    return (
        sessions.where((F.col("end_ms") >= begin) | (_missed_until_ms() > begin))
        .withColumn("ended", F.when(is_before, "earlier").otherwise(F.col("ended")))
        .withColumn("began", F.when(F.col("begin_ms") < begin, "unknown").otherwise(F.col("began")))
        .withColumns({name: F.greatest(name, begin) for name in ("begin_ms", "end_ms")})
        .withColumn("alive_ms", F.col("end_ms") - F.col("begin_ms"))
    )


def broker_reliability(sessions: DataFrame, *, short_s: float = 60.0, return_s: float = 60.0) -> DataFrame:
    """Return BROKER_RELIABILITY from BROKER_SESSIONS.

    Those that moved are no flaps; one whose begin or end nobody saw is not too short; who was replaced or
    fenced was not away.
    """
    away_ms = _missed_until_ms() - F.col("end_ms")
    failed = failure()
    found = sessions.groupBy("registry", "broker", "broker_id").agg(
        F.max_by("cluster", "begin_ms").alias("cluster"),
        F.count("*").alias("sessions"),
        F.count_if(failed).alias("failures"),
        F.count_if(F.col("ended") == "clean").alias("stops"),
        F.count_if(F.col("ended") == "replaced").alias("restarts"),
        F.count_if(F.col("ended") == "fenced").alias("takeovers"),
        F.count_if(_flap(short_s, return_s)).alias("flaps"),
        F.sum("alive_ms").alias("alive_ms"),
        F.sum(away_ms).alias("away_ms"),
        F.avg(F.when(failed & F.col("returned"), away_ms / 1000)).alias("mttr_s"),
        (F.max(away_ms) / 1000).alias("longest_away_s"),
    )
    mtbf_s = F.when(F.col("failures") > 0, F.col("alive_ms") / 1000 / F.col("failures"))
    return shaped(found.withColumn("mtbf_s", mtbf_s), BROKER_RELIABILITY)


def failure() -> Expression:
    """Return whether a session of BROKER_SESSIONS ended without anybody's wish."""
    return F.col("ended").isin("expired", "gone")


def _missed_until_ms() -> Expression:
    """Return until when a replica was missed after a session: not after it became another one."""
    return F.when(F.col("ended") == "moved", F.col("end_ms")).otherwise(F.col("away_until_ms"))


def _flap(short_s: float, return_s: float) -> Expression:
    seen = (F.col("began") == "up") & ~F.col("ended").isin("moved", "unknown", "open")
    away = F.col("returned") & F.col("ended").isin("clean", "gone", "expired")
    away_ms = F.col("away_until_ms") - F.col("end_ms")
    return seen & (F.col("alive_ms") < short_s * 1000) | away & (away_ms < return_s * 1000)
