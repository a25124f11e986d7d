"""How long it took until the end of a broker was known: to the registry, and to the clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..tables import Column, Table
from .avoidance import AVOIDANCE, avoidance
from .ends import END, KEY, unwanted_ends
from .frames import shaped

__all__ = [
    "AVOIDANCE",
    "DETECTION",
    "DETECTION_SUMMARY",
    "ROCKETMQ_4",
    "ROCKETMQ_5",
    "NameServer",
    "avoidance",
    "detection",
    "detection_summary",
]

_OF_CLIENTS: Final = ("clients", "first_avoided_after_ms", "last_avoided_after_ms", "misdirected")
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

DETECTION: Final = Table(
    "detection",
    "an end of a broker that nobody asked for, and when it was known",
    (
        *END,
        Column("ended", "string", "how, as in BROKER_SESSIONS"),
        Column("what", "string", "killed or frozen, by FAULTS; null = not told"),
        Column("fault_ms", "bigint", "when, by FAULTS; null = not told"),
        Column("heartbeat_from_ms", "bigint", "not before then was its last heartbeat; null = not known"),
        Column("heartbeat_to_ms", "bigint", "not after then was its last heartbeat; null = not known"),
        Column("lease_ended_ms", "bigint", "when its lease ended; null = not told"),
        Column("told_ms", "bigint", "when the record of its end was written"),
        Column(
            "since_ms",
            "bigint",
            "when it happened at the earliest: fault_ms, else heartbeat_to_ms, else told_ms; all the `after` "
            "columns count from here",
        ),
        Column("back_ms", "bigint", "when its next session began; null = it did not"),
        Column("lease_after_ms", "bigint", "lease_ended_ms - since_ms; null = not told"),
        Column("told_after_ms", "bigint", "told_ms - since_ms; null = nothing but the record is known"),
        Column("told_late_ms", "bigint", "told_ms - lease_ended_ms: what the sweep added; null = not told"),
        Column("clients", "bigint", "clients that had sent to the broker; null = there are no samples"),
        Column("first_avoided_after_ms", "bigint", "until the first of them avoided it; null = none did"),
        Column("last_avoided_after_ms", "bigint", "until the last of them avoided it; null = none did"),
        Column("misdirected", "double", "their failed attempts on it, as many as the samples stand for"),
        Column(
            "rocketmq_closed_after_ms",
            "bigint",
            "until a client of RocketMQ would avoid it, had its connections closed; null = back before",
        ),
        Column(
            "rocketmq_told_after_ms",
            "bigint",
            "until RocketMQ's name server would drop it, had it gone silent; null = back before",
        ),
        Column(
            "rocketmq_silent_after_ms",
            "bigint",
            "until a client of RocketMQ would avoid it, had it gone silent; null = back before",
        ),
    ),
)

DETECTION_SUMMARY: Final = Table(
    "detection_summary",
    "a distribution over the ends, or over the clients of them",
    (
        Column("registry", "string", "which registry"),
        Column(
            "stage",
            "string",
            "lease ended, told, told late, first client avoided, client avoided, client knew; computed: "
            "rocketmq closed, rocketmq told, rocketmq silent",
        ),
        Column("ends", "bigint", "number of ends, or of clients of them, that reached this stage"),
        Column("missed", "bigint", "number of those that did not, or of which it is not known"),
        Column(
            "p50_ms", "double", "half of them took at most so long, from since_ms; told late: from the lease"
        ),
        Column("p95_ms", "double", "95 % of them"),
        Column("p99_ms", "double", "99 % of them"),
        Column("max_ms", "double", "all of them"),
    ),
)


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
            "told_late_ms": F.col("told_ms") - F.col("lease_ended_ms"),
            **_of_rocketmq(name_server),
        }
    )
    if avoided is None:
        unknown = dict.fromkeys(_OF_CLIENTS, F.lit(None))
        return shaped(found.withColumns(unknown), DETECTION)
    of_end = avoided.groupBy(*KEY).agg(
        F.count("*").alias("clients"),
        F.min("avoided_after_ms").alias("first_avoided_after_ms"),
        F.max("avoided_after_ms").alias("last_avoided_after_ms"),
        F.sum("misdirected").alias("misdirected"),
    )
    return shaped(found.join(of_end, [*KEY], "left").fillna(0, ["clients", "misdirected"]), DETECTION)


def detection_summary(found: DataFrame, avoided: DataFrame | None = None) -> DataFrame:
    """Return DETECTION_SUMMARY from DETECTION and AVOIDANCE."""
    stages = found.select("registry", F.inline(_stages(_OF_END))).unionByName(
        found.where(F.col("clients") > 0).select(
            "registry", F.inline(_stages({"first client avoided": "first_avoided_after_ms"}))
        )
    )
    if avoided is not None:
        knew = avoided.withColumn("knew_after_ms", F.col("knew_ms") - F.col("since_ms"))
        stages = stages.unionByName(knew.select("registry", F.inline(_stages(_OF_CLIENT))))
    ranks = F.percentile_approx("took_ms", [0.5, 0.95, 0.99], _ACCURACY)
    counted = stages.groupBy("registry", "stage").agg(
        F.count("took_ms").alias("ends"),
        F.count_if(F.col("took_ms").isNull()).alias("missed"),
        ranks.alias("ranks"),
        F.max("took_ms").alias("max_ms"),
    )
    return shaped(
        counted.withColumns({f"p{share}_ms": F.col("ranks")[i] for i, share in enumerate((50, 95, 99))}),
        DETECTION_SUMMARY,
    )


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
    return F.pmod(F.xxhash64(F.lit(of), *KEY), F.lit(_PHASES)) / F.lit(_PHASES)


def _stages(columns: Mapping[str, str]) -> Expression:
    return F.array(
        *(
            F.struct(F.lit(stage).alias("stage"), F.col(column).alias("took_ms"))
            for stage, column in columns.items()
        )
    )
