"""How long does a simulated day of 10,000 brokers and 1,000,000 clients take?

A fleet of 10,000 brokers, 1,000,000 topics and 1,000,000 clients is played on two cores with all systems
that are compared by default, once with the usual rates of faults, once with ten times as many. The memory
is that of all processes: this one, Spark's, and its workers; what they share is counted once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from pyspark.sql import SparkSession

from sharedroutes.pipeline import SessionConfig, session

from ..kit.figures import Figure, Outcome, at_most, seconds
from ..kit.usage import peak_memory, shared_mb
from ..simulation import FaultModel, FleetConfig, Happening, Simulation, simulate

_SESSION: Final = SessionConfig(
    master="local[2]",
    app_name="sharedroutes-benchmark",
    driver_memory="1g",
    log_level="OFF",
    settings={"spark.ui.showConsoleProgress": "false"},
)
_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    brokers: int = 10_000
    topics: int = 1_000_000
    clients: int = 1_000_000
    hours: float = 24.0
    busier: float = 10.0
    """How many times as many faults the second day has."""


QUICK: Final = Size(brokers=10, topics=1_000, clients=1_000)


def run(size: Size) -> Outcome:
    """Measure; raises JavaMissing."""
    usual = FleetConfig(brokers=size.brokers, topics=size.topics, clients=size.clients, hours=size.hours)
    busy = replace(usual, faults=_busier(usual.faults, size.busier))
    spark = session(_SESSION)
    try:
        simulate(spark, replace(usual, clients=1))  # starts the workers
        figures = [*_measured(spark, "usual faults", usual), *_measured(spark, "many faults", busy)]
    finally:
        spark.stop()
    notes = [
        f"{size.brokers:,} brokers, {size.topics:,} topics, {size.clients:,} clients, {size.hours:g} hours",
        f"{len(usual.systems)} systems, the same faults for each; many faults: {size.busier:g} times as many",
        "a meeting: a client that uses a broker while it is away",
    ]
    return Outcome(figures, notes)


def _busier(faults: FaultModel, times: float) -> FaultModel:
    def busier(happening: Happening) -> Happening:
        return replace(happening, per_hour=happening.per_hour * times)

    return FaultModel(**{field.name: busier(getattr(faults, field.name)) for field in fields(faults)})


def _measured(spark: SparkSession, name: str, config: FleetConfig) -> list[Figure]:
    found: list[Simulation] = []
    with peak_memory(shared_mb, _LOOK_S) as peak_mb:
        took_s = seconds(lambda: found.append(simulate(spark, config)))
    all_kinds = found[0].totals.where("kind = 'all'").collect()
    return [
        Figure(f"{name}, faults", "", [all_kinds[0].faults]),
        Figure(f"{name}, meetings", "", [all_kinds[0].met]),
        Figure(f"{name}, played in", "minutes", [took_s / 60], at_most(10)),
        Figure(f"{name}, peak memory of all processes", "MB", peak_mb),
    ]
