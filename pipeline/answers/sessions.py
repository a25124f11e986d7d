"""When each replica of a broker was alive, whose it was, and how that ended."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...registry.model import EXPIRED, FORGOTTEN, ChangeKind
from ..tables import table
from .frames import covered, eras, is_forgotten, readable, shaped, who

GONE: Final = "broker gone"
"""The reason of the down with which an agent takes a broker out that it no longer finds."""

_MOVED: Final = r"^has id \d+ now$"
"""The reason of the down of a replica whose address has registered under another id."""

BROKER_SESSIONS: Final = table("""
    broker_sessions: a time in which one owner kept a replica of a broker alive, [begin_ms, end_ms)
    registry, broker, broker_id
    cluster string: cluster name, as the session began
    epoch bigint: of the owner, us of the store's clock
    address string: host:port of the owner, as the session began; null = not known
    began string: up: by its record; unknown: before the first change that is known
    begin_id string: change_id of the up; null = unknown
    begin_ms bigint: when, by the store's clock; of an unknown one: when the knowledge begins
    ended string: clean, gone (its agent no longer found it), expired, fenced (by another address), replaced
        (by the same address, restarted), moved (the address has another id), forgotten, unknown (a gap), open
        (alive at the end)
    reason string: of the down that ended it; null = it was none
    ended_by string: who wrote the record that ended it, and as which user of the store; null = not told
    successor string: of fenced and replaced: the address that took over; else null
    end_id string: change_id of the record that ended it; null = none did
    end_ms bigint: when it was no longer alive: the end of the lease, where that is told, else as told_ms
    told_ms bigint: when the record of the end was written; null = there is none
    lease_ttl_ms bigint: how long a heartbeat lasted, by the last up before the record of its end, or the
        first; null = not told
    lease_ended_ms bigint: of expired: when the lease ended; null = not told
    alive_ms bigint = end_ms - begin_ms
    away_until_ms bigint: until when there was no such replica after it: its next session, when it was
        forgotten, or the end of the knowledge; end_ms = it was not away, or nobody knows
    returned boolean: whether the next session of the replica is known, and nobody forgot it before
""")


def broker_sessions(
    changes: DataFrame, until_ms: int | None = None, *, span: DataFrame | None = None
) -> DataFrame:
    """Return BROKER_SESSIONS from CHANGES (or the stored ones) up to `until_ms`; None = the newest change.

    A repeated up of the same owner goes on with its session. A session that is open at a gap ends there as
    unknown; a down without an up before it ends one that began before what is known. `span` is what the
    changes cover, where that is known already.
    """
    span = covered(changes, until_ms) if span is None else span
    return shaped(_judged(_turns(_events(changes, until_ms, span))), BROKER_SESSIONS)


def _events(changes: DataFrame, until_ms: int | None, span: DataFrame) -> DataFrame:
    """Return every up and down of a replica, with the next time that its broker was forgotten."""
    told = readable(changes, until_ms).where(F.col("kind").isin(ChangeKind.UP, ChangeKind.DOWN))
    # Backwards, because Spark works out a frame that ends with the partition anew for each of its rows.
    later = (
        Window.partitionBy("registry", "broker", "era")
        .orderBy(F.desc("ms"), F.desc("seq"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    mark = F.when(is_forgotten(), F.struct("ms", "seq", "change_id", "by"))
    return (
        eras(told.withColumn("by", who()), span)
        .withColumn("forgotten", F.last(mark, ignorenulls=True).over(later))
        .where(~is_forgotten())
    )


def _turns(events: DataFrame) -> DataFrame:
    """Return a row a session: the record that began it (or ended it, for want of one), and what came next."""
    of_replica = Window.partitionBy("registry", "broker", "broker_id", "era").orderBy("ms", "seq")
    is_up = F.col("kind") == ChangeKind.UP
    before = F.lag(F.struct("kind", "epoch", "address", "lease_ttl_ms", "forgotten")).over(of_replica)
    place = F.struct("ms", "seq")
    forgotten = F.struct("before.forgotten.ms", "before.forgotten.seq")
    was_forgotten = F.col("before.forgotten").isNotNull() & (forgotten < place)
    was_up = F.coalesce((F.col("before.kind") == ChangeKind.UP) & ~was_forgotten, F.lit(col=False))
    same_owner = F.col("before.epoch") == F.col("epoch")
    record = F.struct(
        *("kind", "ms", "seq", "change_id", "reason", "by", "address", "lease_ended_ms", "before", "ends")
    )
    return (
        events.withColumn("before", before)
        .withColumn("begins", (is_up & ~(was_up & same_owner)) | (~is_up & F.col("before").isNull()))
        .withColumn("ends", was_up & ~(is_up & same_owner))
        .where(F.col("begins") | F.col("ends"))
        .withColumn("record", record)
        .withColumn("next", F.lead("record").over(of_replica))
        .where("begins")
        .withColumn("next_up", F.lead(place).over(of_replica))
    )


def _judged(turns: DataFrame) -> DataFrame:
    """Add how each session ended, when, and what came after it."""
    is_known = F.col("kind") == ChangeKind.UP
    end = F.when(~is_known, F.col("record")).when(F.col("next.ends"), F.col("next"))
    by_down = F.col("end.kind") == ChangeKind.DOWN
    return (
        turns.withColumn("end", end)
        .withColumn("ended", _ended())
        .withColumn("began", F.when(is_known, F.lit("up")).otherwise(F.lit("unknown")))
        .withColumn("begin_id", F.when(is_known, F.col("change_id")))
        .withColumn("begin_ms", F.when(is_known, F.col("ms")).otherwise(F.col("era_from_ms")))
        .withColumn("epoch", F.when(is_known | (F.col("ended") != "moved"), F.col("epoch")))
        .withColumn("address", F.when(is_known, F.col("address")))
        .withColumn("reason", F.when(by_down, F.col("end.reason")))
        .withColumn("successor", F.when(F.col("ended").isin("fenced", "replaced"), F.col("end.address")))
        .transform(_times)
    )


def _ended() -> Expression:
    """Return how a session ended, from the record of its end."""
    reason = F.col("end.reason")
    of_down = (
        F.when(reason == EXPIRED, "expired")
        .when(reason == GONE, "gone")
        .when(reason.rlike(_MOVED), "moved")
        .otherwise(F.lit("clean"))
    )
    of_up = F.when(F.col("end.address") == F.col("end.before.address"), "replaced").otherwise(F.lit("fenced"))
    return (
        F.when(F.col("end.kind") == ChangeKind.DOWN, of_down)
        .when(F.col("end").isNotNull(), of_up)
        .when(F.col("forgotten").isNotNull(), "forgotten")
        .when(F.col("is_last"), "open")
        .otherwise(F.lit("unknown"))
    )


def _times(sessions: DataFrame) -> DataFrame:
    """Add when each session ended, and until when the replica was away after it."""
    was_forgotten = F.col("ended") == FORGOTTEN
    lease_ended_ms = F.when(F.col("ended") == "expired", F.col("end.lease_ended_ms"))
    ended, forgot = (
        F.struct(*(f"{whose}.{name}" for name in ("ms", "change_id", "by"))) for whose in ("end", "forgotten")
    )
    end_ms = F.coalesce(F.least(lease_ended_ms, "told_ms"), "told_ms", "era_to_ms")
    is_away = F.col("ended").isin("clean", "gone", "expired", "moved")
    back_ms = F.least("next_up.ms", "forgotten.ms", "era_to_ms")
    until_ms = F.when(is_away, F.greatest("end_ms", back_ms)).otherwise(F.col("end_ms"))
    is_before = F.col("forgotten").isNull() | (F.col("next_up") < F.struct("forgotten.ms", "forgotten.seq"))
    return (
        sessions.withColumn("lease_ended_ms", lease_ended_ms)
        .withColumn("told", F.when(was_forgotten, forgot).otherwise(ended))
        .withColumns(
            {"told_ms": F.col("told.ms"), "end_id": F.col("told.change_id"), "ended_by": F.col("told.by")}
        )
        .withColumn("reason", F.when(was_forgotten, F.lit(FORGOTTEN)).otherwise(F.col("reason")))
        .withColumn("end_ms", F.greatest("begin_ms", end_ms))
        .withColumn("lease_ttl_ms", F.coalesce("end.before.lease_ttl_ms", "lease_ttl_ms"))
        .withColumn("away_until_ms", until_ms)
        .withColumn("returned", F.col("next_up").isNotNull() & is_before)
    )
