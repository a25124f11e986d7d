"""How long does it take to register a broker with 1,000 topics, here and in other registries?

Peers: a registry on redis-py by hand, ZooKeeper, etcd, RocketMQ's name server, and for what the store can do
1,000 SETs of redis-benchmark. Ratio: each of them to a first registration of ours.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..kit import redis_benchmark
from ..kit.figures import Contestant, Outcome, interleave, seconds
from ..kit.registries.all import running
from ..kit.registries.by_hand import BY_HAND
from ..kit.registries.etcd import ETCD
from ..kit.registries.field import LASTING_S, figures_of, limited
from ..kit.registries.name_server import ROCKETMQ
from ..kit.registries.ours import OURS, OURS_ALWAYS, OURS_EVERYSEC
from ..kit.registries.registry import Session, table_of
from ..kit.registries.zookeeper import ZOOKEEPER
from ..kit.workload import Table

WHAT: Final = "registered"
_LIMIT: Final = "redis-benchmark, as many SETs"
_BROKER: Final = "broker-new"
_SETS: Final = 100


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    topics: int = 1_000
    warm_up: int = 20
    """Registrations before the first round: a JVM needs some."""


QUICK: Final = Size(rounds=3, warm_up=2)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    table = table_of(size.topics)
    everyone = (OURS, OURS_EVERYSEC, OURS_ALWAYS, BY_HAND, ZOOKEEPER, ETCD, ROCKETMQ)
    with running(everyone) as field, ExitStack() as stack:
        contestants: dict[str, Contestant] = {}
        for name, one in field.running.items():
            session = stack.enter_context(one.session(LASTING_S))
            session.prepare(table)
            contestants[name] = partial(_milliseconds, session, table)
        limit = limited(field, contestants, _LIMIT, partial(_sets_ms, size), "a registration")
        notes = [*limit, *field.notes]
        for _ in range(size.warm_up):
            for contestant in contestants.values():
                contestant()
        values = interleave(size.rounds, contestants)
    about = [
        f"{size.topics:,} topics of a broker that is new, until the registry has answered",
        f"{_LIMIT}: {size.topics:,} in one pipeline, of {size.topics * _SETS:,}, on our server",
    ]
    return Outcome(figures_of(WHAT, "ms", values), [*about, *notes])


def _milliseconds(session: Session, table: Table) -> float:
    register = session.registering(_BROKER, table)
    ms = seconds(register) * 1_000
    session.leave()
    return ms


def _sets_ms(size: Size, port: int) -> float:
    """Return how long so many SETs take that come together."""
    command = ("SET", "limit:__rand_int__", "broker-000 8 8 6 0")
    rate = redis_benchmark.rate(port, size.topics * _SETS, command, pipeline=size.topics, keys=size.topics)
    return size.topics / rate * 1_000
