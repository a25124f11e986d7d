"""How long it took until the end of a broker was known: to the registry, and to the clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...registry.model import MASTER_ID
from ..tables import table
from .frames import each_of, shaped, weighed
from .uptime import failure

_OF_END: Final = {
    "lease ended": "lease_after_ms",
    "told": "told_after_ms",
    "told late": "told_late_ms",
    "rocketmq closed": "rocketmq_closed_after_ms",
    "rocketmq told": "rocketmq_told_after_ms",
    "rocketmq silent": "rocketmq_silent_after_ms",
}
_OF_CLIENT: Final = {"client avoided": "avoided_after_ms", "client knew": "knew_after_ms"}
_PHASES: Final = 1_000_000
_ACCURACY: Final = 10_000
"""Of percentiles: an error of one in so many ranks; exact up to as many values."""

_KEY: Final = ("registry", "broker", "broker_id", "end_id")
"""What names an end."""

AVOIDANCE: Final = table("""
    avoidance: a client that had sent to a broker that ended
    registry, broker, broker_id
    end_id string: change_id of the record of the end
    client string: which client, as in SAMPLES
    since_ms bigint: as in DETECTION
    last_attempt_ms bigint: its last attempt on the broker after that; null = none
    elsewhere_ms bigint: its first attempt elsewhere after that; null = none
    avoided_ms bigint: its first message to another broker after its last attempt on this one; null = none was
        seen
    knew_ms bigint: its first attempt with the change of the end seen; null = none
    misdirected double: its failed attempts on the broker, as many as the samples stand for
    error_ms double (times are off by): how far these times can be off; null = the client's own clock
    avoided_after_ms bigint = avoided_ms - since_ms; null = none was seen
""")

CLIENTS: Final = table("""
    clients: a client, and what it met
    registry string: which registry, as in SAMPLES; null = not told
    client string: which client, as in SAMPLES
    first_at_ms bigint (from): its first sample
    last_at_ms bigint (to): its last sample
    attempts double: attempts that its samples stand for
    failures double: those that failed by fault of the broker
    failure_share double (failed) = failures / attempts
    slowest_ms double: the longest attempt that was recorded, of those that did not fail
    ends bigint (brokers lost): ends of brokers that it had sent to, as in AVOIDANCE
    misdirected double: failed attempts on these, as many as the samples stand for
    latest_avoided_after_ms bigint: the longest time until it avoided one of these
""")

DETECTION: Final = table("""
    detection: an end of a broker that nobody asked for, and when it was known
    registry, broker, broker_id
    end_id string: change_id of the record of the end
    ended string: how, as in BROKER_SESSIONS
    what string: killed or frozen, by FAULTS; null = not told
    fault_ms bigint: when, by FAULTS; null = not told
    heartbeat_from_ms bigint: not before then was its last heartbeat; null = not known
    heartbeat_to_ms bigint: not after then was its last heartbeat; null = not known
    lease_ended_ms bigint: when its lease ended; null = not told
    told_ms bigint: when the record of its end was written
    since_ms bigint: when it happened at the earliest: fault_ms, else heartbeat_to_ms, else told_ms; all the
        `after` columns count from here
    back_ms bigint: when its next session began; null = it did not
    lease_after_ms bigint: lease_ended_ms - since_ms; null = not told
    told_after_ms bigint: told_ms - since_ms; null = nothing but the record is known
    told_late_ms bigint = told_ms - lease_ended_ms: what the sweep added; null = not told
    clients bigint: clients that had sent to the broker; null = there are no samples
    first_avoided_after_ms bigint: until the first of them avoided it; null = none did
    last_avoided_after_ms bigint: until the last of them avoided it; null = none did
    misdirected double: their failed attempts on it, as many as the samples stand for
    rocketmq_closed_after_ms bigint: until a client of RocketMQ would avoid it, had its connections closed;
        null = back before
    rocketmq_told_after_ms bigint: until RocketMQ's name server would drop it, had it gone silent; null = back
        before
    rocketmq_silent_after_ms bigint: until a client of RocketMQ would avoid it, had it gone silent; null =
        back before
""")

DETECTION_SUMMARY: Final = table("""
    detection_summary: a distribution over the ends, or over the clients of them
    registry
    stage string: lease ended, told, told late, first client avoided, client avoided, client knew; computed:
        rocketmq closed, rocketmq told, rocketmq silent
    ends bigint: number of ends, or of clients of them, that reached this stage
    missed bigint: number of those that did not, or of which it is not known
    p50_ms double (half within): half of them took at most so long, from since_ms; told late: from the lease
    p95_ms double (95 % within): 95 % of them
    p99_ms double (99 % within): 99 % of them
    max_ms double (all within): all of them
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServer:
    """How fast RocketMQ's name server and clients are, in ms; each at a random phase of its period."""

    register_ms: int = 30_000
    """How often a broker registers, which is its heartbeat (registerNameServerPeriod)."""

    timeout_ms: int = 120_000
    """How long a registration lasts (DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""

    scan_ms: int = 5_000
    """How often the name server looks for those that have ended (scanNotActiveBrokerInterval)."""

    poll_ms: int = 30_000
    """How often a client asks for its routes (pollNameServerInterval)."""


ROCKETMQ_5: Final = NameServer()
ROCKETMQ_4: Final = NameServer(scan_ms=10_000)


def detection(
    sessions: DataFrame,
    avoided: DataFrame | None = None,
    faults: DataFrame | None = None,
    *,
    name_server: NameServer = ROCKETMQ_5,
) -> DataFrame:
    """Return DETECTION from BROKER_SESSIONS, AVOIDANCE and FAULTS.

    Ends nobody asked for: expired ones, those because the broker was gone, and clean ones of masters that
    FAULTS has killed or frozen. RocketMQ's phases are drawn from the id of the end: the same history gives
    the same numbers.
    """
    since = F.col("since_ms")
    # A fault that is not told of, at an end without a lease: the record is all there is.
    is_record = F.col("fault_ms").isNull() & F.col("heartbeat_to_ms").isNull()
    found = unwanted_ends(sessions, faults).withColumns(
        {
            "lease_after_ms": F.when(~is_record, F.col("lease_ended_ms") - since),
            "told_after_ms": F.when(~is_record, F.col("told_ms") - since),
            **_of_rocketmq(name_server),
        }
    )
    if avoided is not None:
        of_end = avoided.groupBy(*_KEY).agg(
            F.count("*").alias("clients"),
            F.min("avoided_after_ms").alias("first_avoided_after_ms"),
            F.max("avoided_after_ms").alias("last_avoided_after_ms"),
            F.sum("misdirected").alias("misdirected"),
        )
        found = found.join(of_end, [*_KEY], "left").fillna(0, ["clients", "misdirected"])
    return shaped(found, DETECTION)


def detection_summary(found: DataFrame, avoided: DataFrame | None = None) -> DataFrame:
    """Return DETECTION_SUMMARY from DETECTION and AVOIDANCE."""
    used = found.where(F.col("clients") > 0)
    stages = _stages(found, _OF_END).union(_stages(used, {"first client avoided": "first_avoided_after_ms"}))
    if avoided is not None:
        knew = avoided.withColumn("knew_after_ms", F.col("knew_ms") - F.col("since_ms"))
        stages = stages.union(_stages(knew, _OF_CLIENT))
    ranks = {f"p{share}_ms": F.percentile_approx("took_ms", share / 100, _ACCURACY) for share in (50, 95, 99)}
    counted = stages.groupBy("registry", "stage").agg(
        F.count("took_ms").alias("ends"),
        F.count_if(F.col("took_ms").isNull()).alias("missed"),
        *(rank.alias(name) for name, rank in ranks.items()),
        F.max("took_ms").alias("max_ms"),
    )
    return shaped(counted, DETECTION_SUMMARY)


def _of_rocketmq(server: NameServer) -> dict[str, Expression]:
    """Return when RocketMQ would have known, of what it was at the time: any phase of its periods."""
    polled_ms = _phase("poll") * server.poll_ms
    told_ms = server.timeout_ms - _phase("register") * server.register_ms + _phase("scan") * server.scan_ms
    after = {
        "rocketmq_closed_after_ms": polled_ms,
        "rocketmq_told_after_ms": told_ms,
        "rocketmq_silent_after_ms": told_ms + polled_ms,
    }
    never_back = F.col("back_ms").isNull()
    return {
        name: F.when(never_back | (F.col("since_ms") + ms < F.col("back_ms")), F.round(ms))
        for name, ms in after.items()
    }


def _phase(of: str) -> Expression:
    """Return a number in [0, 1) that is the same for the same end."""
    return F.pmod(F.xxhash64(F.lit(of), *_KEY), F.lit(_PHASES)) / F.lit(_PHASES)


def _stages(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Return registry, stage, took_ms."""
    stages = ({"stage": F.lit(stage), "took_ms": F.col(of)} for stage, of in columns.items())
    return rows.select("registry", each_of(*stages))


# --- ends, and what clients did after them ---


def unwanted_ends(sessions: DataFrame, faults: DataFrame | None) -> DataFrame:
    """Return the BROKER_SESSIONS whose end nobody asked for, with what, fault_ms, heartbeat_from_ms,
    heartbeat_to_ms, since_ms and back_ms as in DETECTION.
    """
    ended = F.col("ended")
    ends = sessions.where(ended.isin("expired", "gone", "clean"))
    beats_ms = F.coalesce("lease_ended_ms", "told_ms") - F.col("lease_ttl_ms")
    return (
        _with_faults(ends, faults)
        .where(failure() | F.col("what").isNotNull())
        .withColumn("heartbeat_to_ms", F.when(ended == "expired", beats_ms))
        .withColumn("heartbeat_from_ms", F.when(F.isnotnull("lease_ended_ms"), F.col("heartbeat_to_ms")))
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
    return ends.join(of_end, [*_KEY], "left")


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
        *_KEY,
        "since_ms",
        (F.col("since_ms") - look_ms).alias("from_ms"),
        F.least("back_ms", F.col("told_ms") + look_ms).alias("to_ms"),
        _place(F.col("end_id")).alias("end_place"),
    )
    # Times are met by slots that are as long as what is looked at: a join by range alone tries every pair.
    slot = F.floor(F.col("at_ms") / look_ms)
    slots = F.explode(F.sequence(F.floor(F.col("from_ms") / look_ms), F.floor(F.col("to_ms") / look_ms)))
    renamed = {"broker": "to_broker", "registry": "of_registry"}
    attempts = weighed(samples).withColumn("slot", slot).withColumnsRenamed(renamed)
    to_it = attempts.withColumn("broker", F.col("to_broker"))
    is_meant = F.col("of_registry").isNull() | (F.col("of_registry") == F.col("registry"))
    users = _used(watched.withColumn("slot", slots).join(to_it, ["broker", "slot"]).where(is_meant))
    told = attempts.select("of_registry", "client", "slot", "at_ms", "to_broker", "attempt", "position")
    seen = users.withColumn("slot", slots).join(told, ["client", "slot"]).where(is_meant)
    return shaped(_turned_away(seen), AVOIDANCE)


def _used(attempts: DataFrame) -> DataFrame:
    """Return a row an end and client that sent to it: its last attempt after that, and the failed ones."""
    is_after = F.col("at_ms") - F.col("latency_ms") >= F.col("since_ms")
    in_time = (F.col("at_ms") >= F.col("from_ms")) & (F.col("at_ms") < F.col("to_ms"))
    return (
        attempts.where(in_time)
        .groupBy(*_KEY, "client", "since_ms", "from_ms", "to_ms", "end_place")
        .agg(
            F.max(F.when(is_after, F.col("at_ms"))).alias("last_attempt_ms"),
            F.sum(F.when(is_after & F.col("failed"), F.col("weight")).otherwise(0)).alias("misdirected"),
            F.when(F.bool_and(F.col("error_ms").isNotNull()), F.max("error_ms")).alias("error_ms"),
        )
    )


def _turned_away(seen: DataFrame) -> DataFrame:
    """Return a row an end and client, with what else it did after the end, from all that it did around it."""
    at, is_other = F.col("at_ms"), F.col("to_broker") != F.col("broker")
    turned = is_other & (F.col("attempt") == 1) & (at > F.coalesce("last_attempt_ms", "since_ms"))
    knows = _place(F.col("position")) >= F.col("end_place")
    is_later = (at > F.col("since_ms")) & (at < F.col("to_ms"))
    of_user = ("since_ms", "last_attempt_ms", "misdirected", "error_ms")
    return seen.groupBy(*_KEY, "client", *of_user).agg(
        F.min(F.when(is_later & is_other, at)).alias("elsewhere_ms"),
        F.min(F.when(is_later & turned, at)).alias("avoided_ms"),
        F.min(F.when(is_later & knows, at)).alias("knew_ms"),
    )


def _place(change_id: Expression) -> Expression:
    """Return an id of the stream as what compares like it; null when it is none."""
    parts = F.split(change_id, "-")
    ms, seq = (F.get(parts, number).try_cast("bigint") for number in (0, 1))
    return F.when(ms.isNotNull() & seq.isNotNull(), F.struct(ms.alias("ms"), seq.alias("seq")))


def clients(samples: DataFrame, avoided: DataFrame) -> DataFrame:
    """Return CLIENTS from SAMPLES and AVOIDANCE."""
    failed = F.col("failed")
    sent = (
        weighed(samples)
        .groupBy("registry", "client")
        .agg(
            F.min("at_ms").alias("first_at_ms"),
            F.max("at_ms").alias("last_at_ms"),
            F.sum("weight").alias("attempts"),
            F.sum(F.when(failed, F.col("weight")).otherwise(0.0)).alias("failures"),
            F.max(F.when(~failed, F.col("latency_ms"))).alias("slowest_ms"),
        )
    )
    is_same = F.col("one.registry").isNull() | (F.col("one.registry") == F.col("it.registry"))
    found = (
        sent.alias("one")
        .join(avoided.alias("it"), (F.col("one.client") == F.col("it.client")) & is_same, "left")
        .groupBy(*(f"one.{name}" for name in sent.columns))
        .agg(
            F.count("it.end_id").alias("ends"),
            F.coalesce(F.sum("it.misdirected"), F.lit(0.0)).alias("misdirected"),
            F.max("it.avoided_after_ms").alias("latest_avoided_after_ms"),
        )
    )
    return shaped(found, CLIENTS)
