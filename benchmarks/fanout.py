"""How soon one change is with 200 followers, and what a delivery costs the server.

The receivers are raw connections in one other process: 200 followers in Python would measure the interpreter,
not the server. They wait for what a follower takes a change from: the doorbell with its record. A blocked
XREAD asks again at once, which is part of its price.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import IO, Any, Final, cast

import redis

from sharedroutes.registry import EmbeddedServer, Registration, RouteStore, TopicConfig
from sharedroutes.registry.plans import ORIGIN

from .harness import Benchmark, Figure, Outcome, at_most, interleave, percentile, ratio
from .receivers import SUBSCRIBE, XREAD
from .workload import broker, tables, topic_names

__all__ = ["BENCHMARK", "Size", "run"]

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
        with _receivers(*arguments) as receivers:
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

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self._commands = commands
        self._answers = answers

    def get_ready(self) -> None:
        self._commands.write("next\n")
        self._commands.flush()
        self._answer()

    def arrivals(self) -> list[int]:
        return [int(word) for word in self._answer().split()]

    def _answer(self) -> str:
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the receiving process has ended; it wrote the reason to standard error")
        return line


@contextmanager
def _receivers(*arguments: str) -> Iterator[_Receivers]:
    command = (sys.executable, "-m", "benchmarks.receivers", *arguments)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        commands, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        try:
            yield _Receivers(commands, answers)
            commands.close()
            process.wait(_END_S)
        finally:
            process.kill()


BENCHMARK: Final = Benchmark(
    "How soon is a change with 200 followers, and what does that cost?",
    partial(run, Size()),
    partial(run, QUICK),
)
