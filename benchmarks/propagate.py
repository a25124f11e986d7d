"""How soon another process sees a change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Final

import redis

from sharedroutes.registry import EmbeddedServer, Registration, RouteStore, TopicConfig

from .kit.figures import Benchmark, Contestant, Figure, Outcome, at_most, interleave, percentile, ratio
from .kit.processes import Child, running
from .kit.workload import broker, tables, topic_names
from .watcher import PING, POLL_S

_CHANGE: Final = "change seen, p50"
_BARE: Final = "bare pub/sub ping, p50"
_CHANNEL: Final = "ping"


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    changes: int = 300
    topics: int = 100
    """Of the broker, one of which changes."""


QUICK: Final = Size(changes=30)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when the other process ends early."""
    names = topic_names(size.topics)
    (table,) = tables(names, 1)
    with (
        EmbeddedServer() as server,
        RouteStore.from_url(server.url) as store,
        redis.Redis.from_url(server.url) as client,
    ):
        writer = _Writer(store, store.register(broker(0), table), names[0])
        with running("watcher", server.url, names[0], _CHANNEL) as child:
            watcher = _Watcher(child)
            contestants: dict[str, Contestant] = {
                _CHANGE: partial(writer.change, watcher),
                _BARE: partial(_ping, client, watcher),
            }
            values = interleave(size.changes, contestants)
    change = Figure(_CHANGE, "ms", values[_CHANGE], at_most(1))
    bare = Figure(_BARE, "ms", values[_BARE])
    return Outcome(
        [
            change,
            Figure("change seen, p99", "ms", [percentile(change.rounds, 0.99)]),
            bare,
            Figure("bare pub/sub ping, p99", "ms", [percentile(bare.rounds, 0.99)]),
            ratio(change, bare),
        ],
        [f"{size.changes} changes; the route is looked at every {POLL_S * 1e6:.0f} us and the timer's slack"],
    )


class _Watcher:
    """The other process, by its standard input and output; both read the same monotonic clock."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def milliseconds(self, waits_for: str, act: Callable[[], object]) -> float:
        """Let the other process wait for something, do it, and return how long the other took to see it."""
        self._child.tell(waits_for)
        begin = time.monotonic_ns()
        act()
        return (int(self._child.answer()) - begin) / 1e6


class _Writer:
    """Gives one topic another number of write queues, again and again."""

    def __init__(self, store: RouteStore, held: Registration, topic: str) -> None:
        self._store = store
        self._held = held
        self._topic = topic
        self._numbers = cycle((3, 5))

    def change(self, watcher: _Watcher) -> float:
        number = next(self._numbers)
        return watcher.milliseconds(str(number), partial(self._write, number))

    def _write(self, number: int) -> None:
        table = {**self._held.topics, self._topic: TopicConfig(self._topic, 8, number)}
        self._held = self._store.register(self._held.broker, table, held=self._held)


def _ping(client: redis.Redis, watcher: _Watcher) -> float:
    return watcher.milliseconds(PING, partial(client.publish, _CHANNEL, b""))


BENCHMARK: Final = Benchmark(
    "How soon does another process see a change?", partial(run, Size()), partial(run, QUICK)
)
