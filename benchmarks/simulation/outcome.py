"""The tables that a simulation gives."""

from __future__ import annotations

from typing import Final

from sharedroutes.pipeline.tables import Column, Table

__all__ = ["ALL", "HISTOGRAM", "MEASURES", "QUANTILES", "SIMULATED_FAULTS", "TABLES", "TOTALS"]

ALL: Final = "all"
"""The kind of a row that is about faults of every kind."""

MEASURES: Final = ("avoid_s", "exposed_s", "misdirected", "misdirected_client")
"""avoid_s: from the fault until the client's routes lack the broker, had the broker stayed away; where that
never comes, `never` counts it. exposed_s: until its routes lack it, or its fault memory leaves it alone, or
the broker is back, whichever is first. misdirected: sends of one client to the broker in one fault.
misdirected_client: of one client in the whole run, 0 included."""

_SYSTEM: Final = Column("system", "string", "name of the system: see FleetConfig.systems")
_KIND: Final = Column("kind", "string", "kind of fault: crash, hang, lost, restart; `all` = every kind")
_MEASURE: Final = Column(
    "measure", "string", "avoid_s, exposed_s (seconds), misdirected, misdirected_client (sends)"
)

TOTALS: Final = Table(
    "simulated_totals",
    "a system and a kind of fault: how much came of it",
    (
        _SYSTEM,
        _KIND,
        Column("faults", "bigint", "faults of brokers"),
        Column("met", "bigint", "pairs of a fault and a client that uses the broker"),
        Column("avoided", "bigint", "of these: the client's routes lacked the broker before it was back"),
        Column(
            "never", "bigint", "of these: its routes would never have lacked it, however long it stayed away"
        ),
        Column("misdirected", "bigint", "sends to a broker that was dead or hung"),
        Column("per_client_hour", "double", "misdirected sends a client and an hour"),
        Column("client_hours", "double", "clients times hours"),
    ),
)

QUANTILES: Final = Table(
    "simulated_quantiles",
    "a measure of a system for a kind of fault, over all pairs of a fault and a client that uses the broker",
    (
        _SYSTEM,
        _KIND,
        _MEASURE,
        Column("count", "bigint", "values"),
        Column("never", "bigint", "pairs beside them for which it never comes: above every value"),
        Column("mean", "double", "mean of the values; null = there is none"),
        Column(
            "p50", "double", "the median, `never` among it; null = never; up to 0.5 % too high, as the others"
        ),
        Column("p90", "double", "90 % are not above"),
        Column("p95", "double", "95 % are not above"),
        Column("p99", "double", "99 % are not above"),
        Column("max", "double", "the largest of the values; null = there is none"),
    ),
)

HISTOGRAM: Final = Table(
    "simulated_histogram",
    "a bin of a measure's distribution that is not empty",
    (
        _SYSTEM,
        _KIND,
        _MEASURE,
        Column("low", "double", "values are above this, or 0; null = never"),
        Column("high", "double", "values are not above this; null = never"),
        Column("count", "bigint", "values in the bin"),
    ),
)

SIMULATED_FAULTS: Final = Table(
    "simulated_faults",
    "a system and a fault of a broker",
    (
        _SYSTEM,
        Column("fault", "bigint", "number of the fault, in order of broker and time"),
        Column("broker", "bigint", "number of the broker"),
        Column("kind", "string", "crash, hang, lost, restart"),
        Column("began_s", "double", "seconds since the start of the run"),
        Column("lasted_s", "double", "seconds until the broker was back"),
        Column("met", "bigint", "clients that use the broker"),
        Column("avoided", "bigint", "of these: its routes lacked the broker before it was back"),
        Column("never", "bigint", "of these: its routes would never have lacked it, ever"),
        Column("misdirected", "bigint", "sends to it while it was away"),
        Column("mean_exposed_s", "double", "mean of exposed_s over the clients; null = nobody uses it"),
        Column("max_exposed_s", "double", "the largest; null = nobody uses it"),
    ),
)

TABLES: Final = (TOTALS, QUANTILES, HISTOGRAM, SIMULATED_FAULTS)
"""All of them."""
