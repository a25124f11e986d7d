"""How soon does another process know of a change, here and in other registries?

Peers: a registry on redis-py by hand, ZooKeeper, etcd, RocketMQ's name server with its Java clients. Beside
each, what that server needs for the least that one can ask it. Ratios: a change to that, and each to ours.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Final

from ..kit.figures import Figure, Outcome, interleave, percentile, ratio, seconds
from ..kit.registries.all import Running, running
from ..kit.registries.by_hand import BY_HAND
from ..kit.registries.etcd import ETCD
from ..kit.registries.field import beat, figures_of, named, registered
from ..kit.registries.name_server import FAST_POLL_S, ROCKETMQ, ROCKETMQ_FAST
from ..kit.registries.ours import OURS, OURS_ALWAYS, OURS_EVERYSEC
from ..kit.registries.registry import TOPIC, Registry, Session, Watcher, table_of, watching
from ..kit.registries.zookeeper import ZOOKEEPER

CHANGE: Final = "change known, p50"
CHANGE_P99: Final = "change known, p99"
PING: Final = "least request, p50"
_BROKER: Final = "broker-000"
_POLLERS: Final = {ROCKETMQ.name, ROCKETMQ_FAST.name}


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 20
    changes: int = 15
    """In a round of one of them; where clients poll, one."""

    topics: int = 100
    polled: int = 1
    """Changes with RocketMQ's own interval of 30 s, after the rounds; 0 = none."""

    poll_s: float = FAST_POLL_S


QUICK: Final = Size(rounds=2, changes=6, polled=0)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when another process ends early."""
    everyone = (OURS, OURS_EVERYSEC, OURS_ALWAYS, BY_HAND, ZOOKEEPER, ETCD, ROCKETMQ_FAST)
    table = {_BROKER: table_of(size.topics)}
    with running(everyone) as field_, registered(field_, table) as sessions:
        with ExitStack() as stack:
            contestants = {
                name: _Changes(
                    stack.enter_context(watching(one.registry, one.server.address, TOPIC)),
                    sessions[name],
                    1 if name in _POLLERS else size.changes,
                )
                for name, one in field_.running.items()
            }
            change = interleave(size.rounds, {name: one.round for name, one in contestants.items()})
        if size.polled and ROCKETMQ_FAST.name in field_.running:
            one = field_.running[ROCKETMQ_FAST.name]
            polled = _polled(ROCKETMQ, one, sessions[ROCKETMQ_FAST.name], size)
            contestants[ROCKETMQ.name], change[ROCKETMQ.name] = polled, polled.medians
    return Outcome(_figures(change, contestants), [*_notes(size), *field_.notes])


def _polled(registry: Registry, one: Running, sessions: Sequence[Session], size: Size) -> _Changes:
    """Let clients with another interval look at the same name server."""
    with watching(registry, one.server.address, TOPIC) as watcher:
        found = _Changes(watcher, sessions, 1)
        for _ in range(size.polled + 1):  # the first does not count
            found.medians.append(found.round())
        del found.medians[0]
        return found


@dataclass
class _Changes:
    """Changes of one registry's topic."""

    watcher: Watcher
    sessions: Sequence[Session]
    count: int
    numbers: Iterator[int] = field(default_factory=lambda: cycle((3, 5)))
    rounds: list[list[float]] = field(default_factory=list)
    pings: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)

    def round(self) -> float:
        """Return the median (ms) of one round; keep all of it, and what the least request takes."""
        session = self.sessions[0]
        beat(self.sessions)
        found: list[float] = []
        times = []
        for _ in range(self.count):
            found += self._change(session)
            times.append(seconds(session.ping) * 1_000)
        self.rounds.append(found)
        self.pings.append(percentile(times, 0.5))
        return percentile(found, 0.5)

    def _change(self, session: Session) -> list[float]:
        number = next(self.numbers)
        self.watcher.expect(_BROKER, number)
        config = replace(table_of(1)[TOPIC], write_queue_nums=number)
        begin_ns = time.monotonic_ns()
        session.change(config)
        return [(at_ns - begin_ns) / 1e6 for at_ns in self.watcher.seen()]


def _figures(change: dict[str, list[float]], contestants: dict[str, _Changes]) -> list[Figure]:
    pings = {name: one.pings[1:] for name, one in contestants.items()}
    all_ms = {
        name: [ms for of_round in one.rounds[1:] for ms in of_round] for name, one in contestants.items()
    }
    p50 = figures_of(CHANGE, "ms", change)
    least = [Figure(named(PING, name), "ms", ms) for name, ms in pings.items() if name != ROCKETMQ.name]
    by_name = {figure.name: figure for figure in [*p50, *least]}
    return [
        *p50,
        *(Figure(named(CHANGE_P99, name), "ms", [percentile(ms, 0.99)]) for name, ms in all_ms.items()),
        *least,
        *(
            ratio(by_name[named(CHANGE, name)], by_name[named(PING, name)])
            for name in contestants
            if name not in _POLLERS
        ),
    ]


def _notes(size: Size) -> list[str]:
    return [
        f"{size.rounds} rounds of {size.changes} changes of one topic of {size.topics:,}; a process watches",
        (
            "RocketMQ: 10 clients in one process whose polls are spread over the interval, a change a round; "
            "one that sends learns of a broker that is gone by its first message that fails"
        ),
    ]
