"""How long does a service wait for the route of a topic, here and in other registries?

Once with nothing known before, from the server; once from what its client keeps in memory. Peers: a registry
on redis-py by hand, ZooKeeper, etcd, RocketMQ's name server and Java client, and for what the store can do a
GET of redis-benchmark. Ratio: each of them to ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..kit import redis_benchmark
from ..kit.figures import Contestant, Outcome, interleave, seconds
from ..kit.registries.all import USUAL, Field, running
from ..kit.registries.field import beat, figures_of, limited, registered
from ..kit.registries.name_server import ROCKETMQ, ROCKETMQ_FAST
from ..kit.registries.registry import TOPIC, Session, table_of, watching
from ..kit.workload import topic_names

COLD: Final = "asked of the server"
CACHED: Final = "read from memory"
_LIMIT: Final = "redis-benchmark, one GET"
_GETS: Final = 5_000
_US: Final = 1e6


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    brokers: int = 4
    topics: int = 1_000
    lookups: int = 40
    """In a round of one of them."""

    cached: int = 100_000
    warm_up: int = 500


QUICK: Final = Size(rounds=3, lookups=15, warm_up=20)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    table = table_of(size.topics)
    of_brokers = {f"broker-{number:03d}": table for number in range(size.brokers)}
    with running(USUAL) as field, registered(field, of_brokers) as sessions:
        contestants: dict[str, Contestant] = {
            name: partial(_cold_us, of_one, size) for name, of_one in sessions.items()
        }
        notes = [*field.notes, *limited(field, contestants, _LIMIT, _get_us, "a lookup")]
        for of_one in sessions.values():
            _each(of_one[0], size.warm_up, size.topics)
        cold = interleave(size.rounds, contestants)
        cached = _cached(field, sessions, size)
    about = [
        f"{_LIMIT}: the mean of {_GETS:,} on our server, one after the other, of keys that are absent",
        f"{size.topics:,} topics, each on {size.brokers} brokers; median of {size.lookups} lookups a round",
        (
            "from memory: what a client's own call returns; kazoo's is TreeCache, whose values are bytes; "
            "etcd's client keeps nothing, so that is a dict by hand; RocketMQ's is Java"
        ),
    ]
    return Outcome([*figures_of(COLD, "us", cold), *figures_of(CACHED, "us", cached)], [*about, *notes])


def _cold_us(sessions: Sequence[Session], size: Size) -> float:
    beat(sessions)
    return _each(sessions[0], size.lookups, size.topics)


def _each(session: Session, lookups: int, topics: int) -> float:
    """Return us a lookup, the median of so many of different topics."""
    names = topic_names(topics - 1) or [TOPIC]
    times = []
    for number in range(lookups):
        lookup = partial(session.lookup, names[number * 7 % len(names)])
        times.append(seconds(lookup) * _US)
    return statistics.median(times)


def _cached(field: Field, sessions: dict[str, list[Session]], size: Size) -> dict[str, list[float]]:
    with ExitStack() as stack:
        contestants: dict[str, Contestant] = {}
        for name, one in field.running.items():
            beat(sessions[name])
            soon = ROCKETMQ_FAST if one.registry is ROCKETMQ else one.registry  # it begins at once
            watcher = stack.enter_context(watching(soon, one.server.address, TOPIC))
            watcher.cached_us(size.cached)
            contestants[name] = partial(watcher.cached_us, size.cached)
        return interleave(size.rounds, contestants)


def _get_us(port: int) -> float:
    return _US / redis_benchmark.rate(port, _GETS, ("GET", "key:__rand_int__"), pipeline=1, keys=100)
