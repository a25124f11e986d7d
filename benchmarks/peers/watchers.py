"""When does the last of many clients know of a change, and what do they take of the server?

The clients are sockets in one other process, which do what the libraries do: `kit/registries/wires.py`.
Peers: a registry on redis-py by hand, ZooKeeper, etcd, RocketMQ's name server. Ratio: each to ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Final

from ..kit.figures import Figure, Outcome, interleave, percentile
from ..kit.registries.all import Running, running
from ..kit.registries.by_hand import BY_HAND
from ..kit.registries.crowd import arrivals_ms, crowd
from ..kit.registries.etcd import ETCD
from ..kit.registries.field import beat, figures_of, named, registered
from ..kit.registries.name_server import ROCKETMQ, ROCKETMQ_FAST
from ..kit.registries.ours import OURS
from ..kit.registries.registry import TOPIC, Registry, Session, table_of
from ..kit.registries.zookeeper import ZOOKEEPER
from ..kit.usage import cpu_s, resident_mb

LAST: Final = "last client knows"
HALF: Final = "half of the clients know"
MEMORY: Final = "memory of the server"
BEFORE: Final = "memory of the server before"
CHANGE_CPU: Final = "CPU of the server for the change"
IDLE_CPU: Final = "CPU of the server while nothing changes"
_BROKER: Final = "broker-000"


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 3
    watchers: int = 1_000
    topics: int = 100
    idle_s: float = 3.0
    name_server: Registry = ROCKETMQ


QUICK: Final = Size(rounds=1, watchers=250, idle_s=1.0, name_server=ROCKETMQ_FAST)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when the other process ends early."""
    everyone = (OURS, BY_HAND, ZOOKEEPER, ETCD, size.name_server)
    with running(everyone) as field_, registered(field_, {_BROKER: table_of(size.topics)}) as sessions:
        crowds = {name: _Crowd(one, sessions[name], size) for name, one in field_.running.items()}
        last = interleave(size.rounds, {name: one.round for name, one in crowds.items()})
    figures = figures_of(LAST, "ms", last)
    for what, unit in ((HALF, "ms"), (MEMORY, "MB"), (CHANGE_CPU, "ms"), (IDLE_CPU, "% of a core")):
        figures += [Figure(named(what, name), unit, one.found[what][1:]) for name, one in crowds.items()]
    figures += [Figure(named(BEFORE, name), "MB", [one.before_mb]) for name, one in crowds.items()]
    return Outcome(figures, [*_notes(size), *field_.notes])


def _notes(size: Size) -> Sequence[str]:
    return [
        f"{size.watchers:,} clients of one topic in one process, connected anew in each round",
        (
            "ours: two connections each, which read the stream's tail and the leases each second, and the "
            "topic after a doorbell; by hand: the message is believed; ZooKeeper: the row is read and "
            "watched again; "
            "etcd: the event has the row; RocketMQ: the route is asked for at the interval"
        ),
        "one process receives for all, and shares the cores with the server",
    ]


@dataclass
class _Crowd:
    """The clients of one registry."""

    one: Running
    sessions: Sequence[Session]
    size: Size
    numbers: Iterator[int] = field(default_factory=lambda: cycle((3, 5)))
    found: dict[str, list[float]] = field(
        default_factory=lambda: {what: [] for what in (HALF, MEMORY, CHANGE_CPU, IDLE_CPU)}
    )
    before_mb: float = field(init=False)

    def __post_init__(self) -> None:
        self.before_mb = resident_mb(self.one.server.pid)

    def round(self) -> float:
        """Return when the last one knew (ms); keep what else was found."""
        beat(self.sessions)
        registry, server = self.one.registry, self.one.server
        with crowd(registry.name, server.address, _BROKER, self.size.watchers) as clients:
            before_s = cpu_s(server.pid)
            clients.send(["idle", self.size.idle_s])
            clients.await_ready()
            between_s = cpu_s(server.pid)
            times = arrivals_ms(clients, self._change)
            after_s = cpu_s(server.pid)
            self.found[MEMORY].append(resident_mb(server.pid))
        self.found[IDLE_CPU].append((between_s - before_s) / self.size.idle_s * 100)
        self.found[CHANGE_CPU].append((after_s - between_s) * 1_000)
        self.found[HALF].append(percentile(times, 0.5))
        return max(times)

    def _change(self) -> None:
        self.sessions[0].change(replace(table_of(1)[TOPIC], write_queue_nums=next(self.numbers)))
