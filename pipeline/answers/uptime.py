"""What the sessions of the brokers come to: availability, reliability, flaps."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..tables import table
from .frames import each_of, shaped

_DAY_MS: Final = 86_400_000
_REPLICA: Final = ("registry", "broker", "broker_id", "cluster")

BROKER_AVAILABILITY: Final = table("""
    broker_availability: a replica of a broker on a day on which it was to be alive
    registry, broker, broker_id, cluster
    day string: UTC day, YYYY-MM-DD
    alive_ms bigint: how long it was alive on that day
    away_ms bigint: how long it was away: after a session, until the next, until it was forgotten, or until
        the end of the knowledge; not after it has moved to another id
    availability double = alive_ms / (alive_ms + away_ms)
""")

CLUSTER_AVAILABILITY: Final = table("""
    cluster_availability: the replicas of a cluster on a day
    registry, cluster
    day string: UTC day, YYYY-MM-DD
    replicas bigint: how many replicas were to be alive on that day
    alive_ms bigint: sum of them all
    away_ms bigint: sum of them all
    availability double = alive_ms / (alive_ms + away_ms)
    master_availability double: the same of the masters alone; null = there were none
""")

BROKER_RELIABILITY: Final = table("""
    broker_reliability: a replica of a broker over the whole observation
    registry, broker, broker_id, cluster
    sessions bigint: number of its sessions
    failures bigint: sessions that expired, or ended because the broker was gone
    stops bigint: sessions that ended clean
    restarts bigint: sessions that were replaced
    takeovers bigint: sessions that were fenced
    flaps bigint: sessions that are in FLAPS
    alive_ms bigint: how long it was alive
    away_ms bigint: how long it was away
    availability double = alive_ms / (alive_ms + away_ms)
    mtbf_s double (between failures): mean time between failures: alive time per failure; null = none failed
    mttr_s double (back after): mean time to return after a failure, of those that returned; null = none did
    longest_away_s double: the longest time that it was away
""")

FLAPS: Final = table("""
    flaps: a session that was too short, or after which the replica was back too soon
    registry, broker, broker_id, cluster
    begin_ms bigint: when the session began
    end_ms bigint: when it ended
    ended string: how, as in BROKER_SESSIONS
    reason string: of the down that ended it; null = it was none
    alive_ms bigint: how long the session lasted
    away_ms bigint: until the next session began; null = none did
    too_short boolean: whether the session lasted less than `short_s`
    soon_back boolean: whether the replica was back within `return_s`
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


def broker_availability(sessions: DataFrame) -> DataFrame:
    """Return BROKER_AVAILABILITY from BROKER_SESSIONS; days are cut at midnight UTC of the store's clock."""
    alive = {"from_ms": F.col("begin_ms"), "to_ms": F.col("end_ms"), "is_alive": F.lit(col=True)}
    away = {"from_ms": F.col("end_ms"), "to_ms": _missed_until_ms(), "is_alive": F.lit(col=False)}
    first, last = (F.to_date(F.timestamp_millis(ms)) for ms in (F.col("from_ms"), F.col("to_ms") - 1))
    midnight_ms = F.unix_millis(F.col("day").cast("timestamp"))
    length_ms = F.least("to_ms", midnight_ms + _DAY_MS) - F.greatest("from_ms", midnight_ms)
    found = (
        sessions.select(*_REPLICA, each_of(alive, away))
        .where("to_ms > from_ms")
        .withColumn("day", F.explode(F.sequence(first, last)))
        .groupBy(*_REPLICA, "day")
        .agg(
            F.sum(F.when(F.col("is_alive"), length_ms).otherwise(0)).alias("alive_ms"),
            F.sum(F.when(F.col("is_alive"), 0).otherwise(length_ms)).alias("away_ms"),
        )
    )
    return shaped(found, BROKER_AVAILABILITY)


def cluster_availability(availability: DataFrame) -> DataFrame:
    """Return CLUSTER_AVAILABILITY from BROKER_AVAILABILITY."""
    alive_ms, away_ms = F.col("alive_ms"), F.col("away_ms")
    master_ms, both_ms = (F.sum(F.when(F.col("broker_id") == 0, ms)) for ms in (alive_ms, alive_ms + away_ms))
    found = availability.groupBy("registry", "cluster", "day").agg(
        F.count_distinct("broker", "broker_id").alias("replicas"),
        F.sum(alive_ms).alias("alive_ms"),
        F.sum(away_ms).alias("away_ms"),
        F.try_divide(master_ms, both_ms).alias("master_availability"),
    )
    return shaped(found, CLUSTER_AVAILABILITY)


def broker_reliability(sessions: DataFrame, *, short_s: float = 60.0, return_s: float = 60.0) -> DataFrame:
    """Return BROKER_RELIABILITY from BROKER_SESSIONS; what a flap is, as in `flaps`."""
    away_ms = _missed_until_ms() - F.col("end_ms")
    failed = failure()
    found = sessions.groupBy("registry", "broker", "broker_id").agg(
        F.max_by("cluster", "begin_ms").alias("cluster"),
        F.count("*").alias("sessions"),
        F.count_if(failed).alias("failures"),
        F.count_if(F.col("ended") == "clean").alias("stops"),
        F.count_if(F.col("ended") == "replaced").alias("restarts"),
        F.count_if(F.col("ended") == "fenced").alias("takeovers"),
        F.count_if(_too_short(short_s) | _soon_back(return_s)).alias("flaps"),
        F.sum("alive_ms").alias("alive_ms"),
        F.sum(away_ms).alias("away_ms"),
        F.avg(F.when(failed & F.col("returned"), away_ms / 1000)).alias("mttr_s"),
        (F.max(away_ms) / 1000).alias("longest_away_s"),
    )
    mtbf_s = F.when(F.col("failures") > 0, F.col("alive_ms") / 1000 / F.col("failures"))
    return shaped(found.withColumn("mtbf_s", mtbf_s), BROKER_RELIABILITY)


def flaps(sessions: DataFrame, *, short_s: float = 60.0, return_s: float = 60.0) -> DataFrame:
    """Return FLAPS from BROKER_SESSIONS: sessions under `short_s`, or followed by another within `return_s`.

    Those that moved are none; one whose begin or end nobody saw is not too short; who was replaced or fenced
    was not away.
    """
    found = sessions.withColumns(
        {
            "away_ms": F.when(F.col("returned"), F.col("away_until_ms") - F.col("end_ms")),
            "too_short": _too_short(short_s),
            "soon_back": _soon_back(return_s),
        }
    )
    return shaped(found.where(F.col("too_short") | F.col("soon_back")), FLAPS)


def failure() -> Expression:
    """Return whether a session of BROKER_SESSIONS ended without anybody's wish."""
    return F.col("ended").isin("expired", "gone")


def _missed_until_ms() -> Expression:
    """Return until when a replica was missed after a session: not after it became another one."""
    return F.when(F.col("ended") == "moved", F.col("end_ms")).otherwise(F.col("away_until_ms"))


def _too_short(short_s: float) -> Expression:
    seen = (F.col("began") == "up") & ~F.col("ended").isin("moved", "unknown", "open")
    return seen & (F.col("alive_ms") < short_s * 1000)


def _soon_back(return_s: float) -> Expression:
    away_ms = F.col("away_until_ms") - F.col("end_ms")
    return F.col("returned") & F.col("ended").isin("clean", "gone", "expired") & (away_ms < return_s * 1000)
