"""What it costs a client to know many topics: CPU of a full refresh, memory, and round trips.

The client runs in a process of its own, with nothing that other measurements left behind. CPU is that of all
threads but the one that measures, which the by-hand versions run on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import redis

from sharedroutes.registry import EmbeddedServer, RegistryConfig, RouteStore

from .cached import BY_HAND, CPU, LOOKED_UP, MGET, RESIDENT, ROUTES, TO_SEND, TRACED, TRIPS
from .kit.figures import Benchmark, Figure, Outcome, at_most, ratio
from .kit.workload import fill, fill_hashes, spread, topic_names

_CONFIG: Final = RegistryConfig(lease_ttl_s=3_600)


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 9
    topics: int = 10_000
    brokers: int = 100
    brokers_per_topic: int = 8
    topics_of_trips: int = 1_000


QUICK: Final = Size(rounds=3)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and CalledProcessError when the other process fails."""
    of_brokers = spread(topic_names(size.topics), size.brokers_per_topic, size.brokers)
    with (
        EmbeddedServer() as server,
        RouteStore.from_url(server.url, _CONFIG) as store,
        redis.Redis.from_url(server.url) as client,
    ):
        fill(store, of_brokers)
        fill_hashes(client, of_brokers)
        cpu = _measured(server.url, CPU, size.topics, size.rounds)
        traced = _measured(server.url, TRACED, size.topics, 1)
        resident = _measured(server.url, RESIDENT, size.topics, 1)
        trips = _measured(server.url, TRIPS, size.topics_of_trips, size.rounds)
    ms = {name: Figure(f"CPU of a refresh, {name}", "ms", rounds) for name, rounds in cpu.items()}
    ms[ROUTES] = Figure(ms[ROUTES].name, "ms", cpu[ROUTES], at_most(60))
    targets = {name: at_most(2_048) for name in (ROUTES, LOOKED_UP)}
    return Outcome(
        [
            *ms.values(),
            *(ratio(ms[ROUTES], ms[other]) for other in (BY_HAND, MGET)),
            *(
                Figure(f"memory a topic, {name}", "B", traced[name], targets.get(name))
                for name in (ROUTES, LOOKED_UP, BY_HAND, TO_SEND)
            ),
            *(
                Figure(f"resident memory a topic, {name}", "B", resident[name])
                for name in (ROUTES, LOOKED_UP, TO_SEND)
            ),
            Figure(
                f"round trips of a refresh of {size.topics_of_trips:,} topics", "", trips[ROUTES], at_most(5)
            ),
        ],
        [
            f"{size.topics:,} topics, each on {size.brokers_per_topic} of {size.brokers} brokers",
            "by hand: the same rows, and no leases",
            "memory: what Python's allocators gave out (tracemalloc); resident: what the process grew by",
        ],
    )


def _measured(url: str, what: str, topics: int, rounds: int) -> dict[str, list[float]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = (sys.executable, "-m", "benchmarks.cached", url, what, str(topics), str(rounds))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: Any = json.loads(done.stdout)
    return {str(name): [float(value) for value in values] for name, values in found.items()}


BENCHMARK: Final = Benchmark(
    "What does it cost a client to know many topics and to read all of them again?",
    partial(run, Size()),
    partial(run, QUICK),
)
