"""How soon one change is with 200 followers, and what a delivery costs the server.

The receivers are raw connections in one other process: 200 followers in Python would measure the interpreter,
not the server. They wait for what a follower takes a change from: the doorbell with its record. A blocked
XREAD asks again at once, which is part of its price.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any, Final

import redis

from sharedroutes.registry import EmbeddedServer, Registration, RouteStore, TopicConfig
from sharedroutes.registry.plans import ORIGIN

from .kit.figures import Benchmark, Figure, Outcome, at_most, interleave, percentile, ratio
from .kit.processes import Child, running
from .kit.workload import broker, tables, topic_names
from .receivers import SUBSCRIBE, XREAD

_DOORBELL: Final = "doorbell"
_PUBLISH: Final = "bare PUBLISH of the same bytes"
_BLOCKED: Final = "blocked XREADs"
_CHANNEL: Final = "bare"
_END_S: Final = 10.0
_TARGET_MS: Final = 15.0
_TOPICS: Final = 10


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    changes: int = 40
    """In one round of one contestant."""

    followers: int = 200


QUICK: Final = Size(rounds=5, changes=20)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when the other process ends early."""
    with (
        EmbeddedServer() as server,
        RouteStore.from_url(server.url) as store,
        redis.Redis.from_url(server.url) as client,
    ):
        (table,) = tables(topic_names(_TOPICS), 1)
        writer = _Writer(store, store.register(broker(0), table))
        bell = _a_doorbell(store, writer)
        rings = _FanOut(server.url, client, SUBSCRIBE, store.keys.changes, writer.change, size)
        bare = _FanOut(server.url, client, SUBSCRIBE, _CHANNEL, partial(client.publish, _CHANNEL, bell), size)
        blocked = _FanOut(server.url, client, XREAD, store.keys.changes, writer.change, size)
        contestants = {_DOORBELL: rings, _PUBLISH: bare, _BLOCKED: blocked}
        p99 = interleave(size.rounds, {name: one.round for name, one in contestants.items()})
    figures = []
    costs = {}
    for name, one in contestants.items():
        target = at_most(_TARGET_MS) if name == _DOORBELL else None
        costs[name] = Figure(f"{name}, server CPU", "us a delivery", one.cpu_us[1:])
        figures += [
            Figure(f"{name}, p50", "ms", one.p50_ms[1:]),
            Figure(f"{name}, p99", "ms", p99[name], target),
            costs[name],
        ]
    ratios = [ratio(costs[_DOORBELL], costs[other]) for other in (_PUBLISH, _BLOCKED)]
    note = f"{size.followers} receivers; {size.changes} changes a round; a doorbell has {len(bell)} bytes"
    return Outcome([*figures, *ratios], [note])


class _Writer:
    """Gives one topic another number of write queues, again and again."""

    def __init__(self, store: RouteStore, held: Registration) -> None:
        self._store = store
        self._held = held
        self._topic = next(iter(held.topics))
        self._numbers = cycle((3, 5))

    def change(self) -> None:
        table = {**self._held.topics, self._topic: TopicConfig(self._topic, 8, next(self._numbers))}
        self._held = self._store.register(self._held.broker, table, held=self._held)


def _a_doorbell(store: RouteStore, writer: _Writer) -> bytes:
    """Return what a change rings."""
    doorbell = store.doorbell()
    try:
        while doorbell.wait(_END_S) != b"":
            pass  # until it is subscribed
        writer.change()
        message = doorbell.wait(_END_S)
    finally:
        doorbell.close()
    if not message:
        raise RuntimeError("a change did not ring")
    return message


@dataclass
class _FanOut:
    """One way to tell many of a change."""

    url: str
    client: redis.Redis
    mode: str
    key: str
    act: Callable[[], object]
    size: Size
    p50_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def round(self) -> float:
        """Return the p99 (ms) of one round; keep its p50 and the server's CPU a delivery."""
        found: list[float] = []
        arguments = (self.url, self.mode, self.key, self._position(), str(self.size.followers))
        with running("receivers", *arguments) as child:
            receivers = _Receivers(child)
            self._tell(receivers)  # the first one is slower, whatever is told
            before = self._server_us()
            for _ in range(self.size.changes):
                found += self._tell(receivers)
            cpu_us = self._server_us() - before
        self.p50_ms.append(percentile(found, 0.5))
        self.cpu_us.append(cpu_us / len(found))
        return percentile(found, 0.99)

    def _tell(self, receivers: _Receivers) -> list[float]:
        receivers.get_ready()
        begin = time.monotonic_ns()
        self.act()
        return [(arrival - begin) / 1e6 for arrival in receivers.arrivals()]

    def _position(self) -> str:
        last: Any = self.client.xrevrange(self.key, count=1) if self.mode == XREAD else ()
        return last[0][0].decode() if last else ORIGIN

    def _server_us(self) -> float:
        used = self.client.info("cpu")
        return (float(used["used_cpu_user"]) + float(used["used_cpu_sys"])) * 1e6


class _Receivers:
    """The other process, by its standard input and output; both read the same monotonic clock."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def get_ready(self) -> None:
        self._child.tell("next")

    def arrivals(self) -> list[int]:
        return [int(word) for word in self._child.answer().split()]


BENCHMARK: Final = Benchmark(
    "How soon is a change with 200 followers, and what does that cost?",
    partial(run, Size()),
    partial(run, QUICK),
)
