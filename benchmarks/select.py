"""What does choosing a queue cost, with and without brokers that fail, and from several threads?

Peers: a dict and random.choice by hand, and RocketMQ's MQFaultStrategy in Java. Ratios: select_queue to
each of them, with faults to without, 10,000 queues to 8, and eight threads to one.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from sharedroutes.client import RouteClient
from sharedroutes.registry import EmbeddedServer, MessageQueue, RouteStore, TopicConfig

from .kit.figures import Contestant, Figure, Outcome, at_least, at_most, interleave, ratio, seconds
from .kit.rocketmq import FAULTY, QUIET, JavaAbsent, java_selection
from .kit.workload import LASTING, broker, fill

_TOPIC: Final = "orders"
_WIDE: Final = "orders-wide"
_NARROW: Final = "orders-narrow"
_QUIET: Final = "select_queue, no faults"
_BY_HAND: Final = "by hand: dict and random.choice, no faults"
_JAVA: Final = "RocketMQ's MQFaultStrategy, no faults"
_FAULTY: Final = "select_queue, some brokers isolated"
_FAULTY_BY_HAND: Final = "by hand: random.choice of a filtered list"
_FAULTY_JAVA: Final = "RocketMQ's MQFaultStrategy, some brokers isolated"
_LOOKUP: Final = "route(), known"
_PLAIN_GET: Final = "by hand: dict.get"
_THREADS: Final = "select_queue, by 8 threads together"
_PLAIN_THREADS: Final = "by hand: dict.get, by 8 threads together"
_SLOW_S: Final = 20.0
"""Such an answer isolates a broker for 30 s: longer than a round takes."""

_TARGETS: Final = {_QUIET: at_most(250), _FAULTY: at_most(1_000), _LOOKUP: at_most(300)}
_FLAT: Final = at_most(1.25)
"""The larger of two sizes may cost so many times the smaller: more than the rounds scatter."""

_GETS_A_SELECTION: Final = 6
"""So that both take about as long."""

_NO_SLOWER: Final = at_least(0.97)
"""Of several threads to one: 1, less the up to 2 % that a dict.get loses too, which shares nothing that is
written, for the interpreter hands over every 5 ms; and less 1 % by which the median scatters from run to run.
By CPU: some thread always runs, so more time than that on the clock is what other processes took."""

Select: TypeAlias = Callable[[str], Any]

Work: TypeAlias = Callable[[int], object]
"""Does something so many times."""

_THREAD_COUNT: Final = 8

_PIN: Final = hasattr(os, "sched_setaffinity")


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    selections: int = 200_000
    together: int = 4_000_000
    """Selections of all threads: each is to have many turns, which last 5 ms (sys.getswitchinterval)."""

    brokers: int = 8
    queues: int = 8
    """On each broker."""

    wide_queues: int = 10_000
    """Of all brokers; compared with a topic that has one on each."""

    isolated: int = 2
    java_selections: int = 2_000_000
    java: bool = True
    """Whether RocketMQ's client is measured too, which Maven fetches."""


QUICK: Final = Size(rounds=5, selections=50_000, together=1_000_000, java=False)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    notes = [f"{size.brokers} brokers with {size.queues} queues each, {size.isolated} of them isolated"]
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer())
        store = stack.enter_context(RouteStore.from_url(server.url, LASTING))
        fill(store, [{topic.topic_name: topic for topic in _topics(size)}] * size.brokers)
        quiet, faulty = (stack.enter_context(RouteClient.from_url(server.url)) for _ in range(2))
        threads = _threads(size, quiet)
        contestants = _ours(size, quiet, faulty) | {name: of.round for name, of in threads.items()}
        try:
            contestants |= _javas(stack, size)
        except JavaAbsent as reason:
            notes.append(f"not compared with RocketMQ's Java client: {reason}")
        values = interleave(size.rounds, contestants)
    ours, plain = (threads[name].figures() for name in (_THREADS, _PLAIN_THREADS))
    by_cpu = replace(ours.cpu, target=_NO_SLOWER)
    return Outcome([*_figures(size, values), ours.wall, by_cpu, *plain], notes)


def _javas(stack: ExitStack, size: Size) -> dict[str, Contestant]:
    if not size.java:
        raise JavaAbsent("that is left out of a quick run")
    java = stack.enter_context(java_selection(size.brokers, size.queues, size.isolated))
    return {
        _JAVA: partial(java.nanoseconds, QUIET, size.java_selections),
        _FAULTY_JAVA: partial(java.nanoseconds, FAULTY, size.java_selections),
    }


def _topics(size: Size) -> Iterable[TopicConfig]:
    for topic, queues in ((_TOPIC, size.queues), (_WIDE, size.wide_queues // size.brokers), (_NARROW, 1)):
        yield TopicConfig(topic, queues, queues)


def _ours(size: Size, quiet: RouteClient, faulty: RouteClient) -> dict[str, Contestant]:
    isolated = frozenset(broker(number).broker_name for number in range(size.isolated))
    by_hand = _ByHand(quiet.subscribe_queues(_TOPIC), isolated)
    table = quiet.get([_TOPIC])
    alone = size.selections
    contestants: dict[str, Contestant] = {
        _QUIET: partial(_nanoseconds, quiet.select_queue, _TOPIC, alone),
        _BY_HAND: partial(_nanoseconds, by_hand.select, _TOPIC, alone),
        _FAULTY: partial(_isolate_and_time, faulty, isolated, _TOPIC, alone),
        _FAULTY_BY_HAND: partial(_nanoseconds, by_hand.select_healthy, _TOPIC, alone // 10),
        _LOOKUP: partial(_nanoseconds, quiet.route, _TOPIC, alone),
        _PLAIN_GET: partial(_nanoseconds, table.get, _TOPIC, alone),
    }
    for topic, what in zip((_NARROW, _WIDE), _widths(size), strict=True):
        contestants[f"{_QUIET}, {what}"] = partial(_nanoseconds, quiet.select_queue, topic, alone)
        contestants[f"{_FAULTY}, {what}"] = partial(_isolate_and_time, faulty, isolated, topic, alone)
    return contestants


def _threads(size: Size, client: RouteClient) -> dict[str, Together]:
    get = client.get([_TOPIC]).get
    return {
        _THREADS: Together("select_queue", partial(_repeat, client.select_queue, _TOPIC), size.together),
        _PLAIN_THREADS: Together(
            "dict.get", partial(_repeat, get, _TOPIC), size.together * _GETS_A_SELECTION
        ),
    }


def _widths(size: Size) -> tuple[str, str]:
    return f"{size.brokers} queues", f"{size.wide_queues:,} queues"


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


def _nanoseconds(select: Select, topic: str, count: int) -> float:
    """Return ns a call."""
    select(topic)  # what is made once for a topic is not part of it
    return seconds(partial(_repeat, select, topic, count)) / count * 1e9


def _repeat(select: Select, topic: str, count: int) -> None:
    for _ in repeat(None, count):
        select(topic)


def _isolate_and_time(client: RouteClient, isolated: frozenset[str], topic: str, count: int) -> float:
    """Return ns a selection; raises RuntimeError when the brokers are not left alone."""
    for name in isolated:
        client.record(name, _SLOW_S)
    figure = _nanoseconds(client.select_queue, topic, count)
    if client.select_queue(topic).broker_name in isolated:
        raise RuntimeError("an isolated broker was chosen: the round was too slow to be counted")
    return figure


def _figures(size: Size, values: dict[str, list[float]]) -> list[Figure]:
    threaded = (_THREADS, _PLAIN_THREADS)
    found = {
        name: Figure(name, "M/s" if name in threaded else "ns", rounds, _TARGETS.get(name))
        for name, rounds in values.items()
    }
    pairs = [(_QUIET, _BY_HAND), (_FAULTY, _FAULTY_BY_HAND), (_LOOKUP, _PLAIN_GET)]
    if _JAVA in found:
        pairs += [(_QUIET, _JAVA), (_FAULTY, _FAULTY_JAVA)]
    few, many = _widths(size)
    return [
        *found.values(),
        *(ratio(found[one], found[other]) for one, other in pairs),
        ratio(found[_FAULTY], found[_QUIET], at_most(2)),
        *(ratio(found[f"{name}, {many}"], found[f"{name}, {few}"], _FLAT) for name in (_QUIET, _FAULTY)),
    ]


class _Pace(NamedTuple):
    """How much is done: a second of the clock on the wall, and a second of CPU."""

    wall: float
    cpu: float


class Speedup(NamedTuple):
    """How many times the pace of one thread that of several is."""

    wall: Figure
    cpu: Figure


class Together:
    """The rounds of one kind of work: by one thread, then by eight, which share `count` times of it.

    All threads share one core, one thread alone too: the interpreter lets one run at a time anyway, and where
    the next one has to be woken on another core, that decides how fast they are. Start and end of the threads
    do not count: each begins when all are there, and notes by itself when it began and ended.
    """

    def __init__(self, name: str, work: Work, count: int) -> None:
        self._name = name
        self._work = work
        self._count = count
        self._rounds: list[tuple[_Pace, _Pace]] = []

    def round(self) -> float:
        """Run both; return how many millions a second eight threads do."""
        one, many = (_pace(self._work, threads, self._count) for threads in (1, _THREAD_COUNT))
        self._rounds.append((one, many))
        return many.wall / 1e6

    def figures(self) -> Speedup:
        """Return eight threads' pace over one thread's, without the first round."""
        rounds = self._rounds[1:]
        name = f"{self._name}, {_THREAD_COUNT} threads / 1 thread"
        return Speedup(
            Figure(name, "x", [many.wall / one.wall for one, many in rounds]),
            Figure(f"{name}, by CPU", "x", [many.cpu / one.cpu for one, many in rounds]),
        )


def _pace(work: Work, threads: int, count: int) -> _Pace:
    share = max(1, count // threads)
    start = threading.Barrier(threads)
    began_s, ended_s, cpu_s = [], [], []

    def run() -> None:
        start.wait()
        began_s.append(time.perf_counter())
        begin_s = time.thread_time()
        work(share)
        cpu_s.append(time.thread_time() - begin_s)
        ended_s.append(time.perf_counter())

    with _on_one_core():
        workers = [threading.Thread(target=run) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    done = share * threads
    return _Pace(done / (max(ended_s) - min(began_s)), done / sum(cpu_s))


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Let threads that are started here run on one core, where the system lets us say so."""
    if not _PIN:
        yield
        return
    usual = os.sched_getaffinity(0)  # of this thread, and of those that it starts; others stay where they are
    os.sched_setaffinity(0, {max(usual)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)
