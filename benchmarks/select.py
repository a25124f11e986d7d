"""What choosing a queue costs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Final, TypeAlias

from sharedroutes.client import RouteClient
from sharedroutes.registry import EmbeddedServer, MessageQueue, RouteStore, TopicConfig

from .harness import Benchmark, Contestant, Figure, Outcome, at_most, interleave, ratio, seconds
from .workload import broker, fill

__all__ = ["BENCHMARK", "Size", "run"]

_TOPIC: Final = "orders"
_QUIET: Final = "select_queue, no faults"
_BY_HAND: Final = "by hand: dict and random.choice, no faults"
_FAULTY: Final = "select_queue, some brokers isolated"
_FAULTY_BY_HAND: Final = "by hand: random.choice of a filtered list"
_ONE_THREAD: Final = "1 thread"
_THREADS: Final = "8 threads, together"
_THREAD_COUNT: Final = 8
_SLOW_S: Final = 20.0
"""Such an answer isolates a broker for 30 s: longer than a round takes."""

Select: TypeAlias = Callable[[str], MessageQueue]


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    selections: int = 200_000
    brokers: int = 8
    queues: int = 8
    """On each broker."""

    isolated: int = 2


QUICK: Final = Size(rounds=5, selections=50_000)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    with (
        EmbeddedServer() as server,
        RouteStore.from_url(server.url) as store,
        RouteClient.from_url(server.url) as quiet,
        RouteClient.from_url(server.url) as faulty,
    ):
        fill(store, [{_TOPIC: TopicConfig(_TOPIC, size.queues, size.queues)}] * size.brokers)
        isolated = frozenset(broker(number).broker_name for number in range(size.isolated))
        by_hand = _ByHand(quiet.subscribe_queues(_TOPIC), isolated)
        alone, together = size.selections, size.selections // _THREAD_COUNT
        contestants: dict[str, Contestant] = {
            _QUIET: partial(_nanoseconds, quiet.select_queue, alone),
            _BY_HAND: partial(_nanoseconds, by_hand.select, alone),
            _FAULTY: partial(_isolate_and_time, faulty, isolated, alone),
            _FAULTY_BY_HAND: partial(_nanoseconds, by_hand.select_healthy, alone),
            _ONE_THREAD: partial(_throughput, quiet.select_queue, 1, alone),
            _THREADS: partial(_throughput, quiet.select_queue, _THREAD_COUNT, together),
        }
        return _judge(size, interleave(size.rounds, contestants))


class _ByHand:
    """What one would write first: a table of lists, and a random element."""

    def __init__(self, queues: Sequence[MessageQueue], isolated: frozenset[str]) -> None:
        self._queues = {_TOPIC: list(queues)}
        self._isolated = isolated

    def select(self, topic: str) -> MessageQueue:
        return random.choice(self._queues[topic])

    def select_healthy(self, topic: str) -> MessageQueue:
        return random.choice(
            [queue for queue in self._queues[topic] if queue.broker_name not in self._isolated]
        )


def _nanoseconds(select: Select, count: int) -> float:
    """Return ns a selection."""
    return seconds(partial(_repeat, select, count)) / count * 1e9


def _repeat(select: Select, count: int) -> None:
    for _ in repeat(None, count):
        select(_TOPIC)


def _isolate_and_time(client: RouteClient, isolated: frozenset[str], count: int) -> float:
    """Return ns a selection; raises RuntimeError when the brokers are not left alone."""
    for name in isolated:
        client.record(name, _SLOW_S)
    figure = _nanoseconds(client.select_queue, count)
    if client.select_queue(_TOPIC).broker_name in isolated:
        raise RuntimeError("an isolated broker was chosen: the round was too slow to be counted")
    return figure


def _throughput(select: Select, threads: int, count: int) -> float:
    """Return millions of selections a second of so many threads, each of which makes `count`."""
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        _repeat(select, count)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    return threads * count / seconds(partial(_join, workers)) / 1e6


def _join(workers: list[threading.Thread]) -> None:
    for worker in workers:
        worker.join()


def _judge(size: Size, values: dict[str, list[float]]) -> Outcome:
    targets = {_QUIET: at_most(400), _FAULTY: at_most(1_500)}
    threaded = (_ONE_THREAD, _THREADS)
    found = {
        name: Figure(name, "M/s" if name in threaded else "ns", rounds, targets.get(name))
        for name, rounds in values.items()
    }
    pairs = ((_QUIET, _BY_HAND), (_FAULTY, _FAULTY_BY_HAND), (_THREADS, _ONE_THREAD))
    return Outcome(
        [*found.values(), *(ratio(found[one], found[other]) for one, other in pairs)],
        [f"{size.brokers} brokers with {size.queues} queues each, {size.isolated} of them isolated"],
    )


BENCHMARK: Final = Benchmark(
    "What does choosing a queue cost, with and without brokers that fail, and from several threads?",
    partial(run, Size()),
    partial(run, QUICK),
)
