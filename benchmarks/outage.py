"""Is choosing a queue slower while the store is away?

Several threads choose, with a pause after every few choices as a service has it, and time each choice.
While the store is away the client tries to reach it again and again, on a thread that shares the
interpreter. Rounds with and without the store take turns, on one server that is killed, paused and started
again. Ratio: the p99 while the store is down, or hangs, to that while it answers. Peer: a dict and
random.choice by hand.
"""

from __future__ import annotations

import random
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from typing import Final, TypeAlias

from sharedroutes.client import ClientConfig, RouteClient
from sharedroutes.registry import EmbeddedServer, MessageQueue, RouteStore, TopicConfig

from .kit.figures import Figure, Outcome, at_most, interleave, percentile, ratio
from .kit.workload import LASTING, Table, fill

_TOPIC: Final = "orders"
_CLIENT: Final = ClientConfig(reconnect_s=0.2)
"""It tries to reach the store several times in every round, thirty times as often as by default: the figures
include what a try costs the threads that choose."""

_ANSWERS: Final = "select_queue, the store answers"
_DOWN: Final = "select_queue, the store is down"
_HANGS: Final = "select_queue, the store hangs"
_BY_HAND: Final = "by hand: dict and random.choice"
_CHOICES: Final = 200
_PAUSE_S: Final = 0.001
_POLL_S: Final = 0.02
_DEADLINE_S: Final = 30.0
_TARGET: Final = 1.5

Select: TypeAlias = Callable[[str], MessageQueue]


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 9
    round_s: float = 1.0
    """Longer than the client waits from one try to reach the store to the next."""

    threads: int = 4
    brokers: int = 8
    queues: int = 8
    """On each broker."""


QUICK: Final = Size(rounds=3, round_s=0.3)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when a client does not notice what happens."""
    config = TopicConfig(_TOPIC, size.queues, size.queues)
    with EmbeddedServer() as server:
        store = _Store(server, [{_TOPIC: config}] * size.brokers)
        store.answer()
        with RouteClient.from_url(server.url, _CLIENT) as client:
            by_hand = _ByHand(client.subscribe_queues(_TOPIC))
            rounds = {name: _Rounds(size, store, client) for name in (_ANSWERS, _DOWN, _HANGS, _BY_HAND)}
            values = interleave(
                size.rounds,
                {
                    _ANSWERS: partial(rounds[_ANSWERS].p99, store.answer, "live", client.select_queue),
                    _DOWN: partial(rounds[_DOWN].p99, store.go_down, "memory", client.select_queue),
                    _HANGS: partial(rounds[_HANGS].p99, store.hang, "memory", client.select_queue),
                    _BY_HAND: partial(rounds[_BY_HAND].p99, store.answer, "live", by_hand.select),
                },
            )
    p99 = {name: Figure(f"{name}, p99", "ns", rounds) for name, rounds in values.items()}
    tails = {name: Figure(f"{name}, p99.9", "ns", rounds[name].p999[1:]) for name in values}
    return Outcome(
        [
            *chain.from_iterable(zip(p99.values(), tails.values(), strict=True)),
            ratio(p99[_DOWN], p99[_ANSWERS], at_most(_TARGET)),
            ratio(p99[_HANGS], p99[_ANSWERS], at_most(_TARGET)),
            ratio(p99[_ANSWERS], p99[_BY_HAND]),
        ],
        [f"{size.threads} threads; the two looks at the clock around a choice are part of it"],
    )


class _ByHand:
    """What one would write first, without a store."""

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self._queues = {_TOPIC: list(queues)}

    def select(self, topic: str) -> MessageQueue:
        return random.choice(self._queues[topic])


class _Store:
    """A server with some brokers, which can go down and hang."""

    def __init__(self, server: EmbeddedServer, of_brokers: Sequence[Table]) -> None:
        self._server = server
        self._of_brokers = of_brokers
        self._paused = False

    def answer(self) -> None:
        self._resume()
        self._server.start()
        with RouteStore.from_url(self._server.url, LASTING) as store:
            fill(store, self._of_brokers)

    def go_down(self) -> None:
        self._resume()
        self._server.kill()

    def hang(self) -> None:
        self.answer()
        self._server.pause()
        self._paused = True

    def _resume(self) -> None:
        if self._paused:
            self._server.resume()
            self._paused = False


class _Rounds:
    """The rounds of one contestant."""

    def __init__(self, size: Size, store: _Store, client: RouteClient) -> None:
        self._size = size
        self._store = store
        self._client = client
        self.p999: list[float] = []

    def p99(self, happen: Callable[[], None], source: str, select: Select) -> float:
        """Return ns that 99 of 100 choices stay below, when something has happened and the client knows."""
        happen()
        self._await_source(source)
        times = self._times(select)
        self.p999.append(percentile(times, 0.999))
        return percentile(times, 0.99)

    def _await_source(self, source: str) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while (found := self._client.health().source) != source:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the client's source is {found!r} after {_DEADLINE_S} s, not {source!r}")
            time.sleep(_POLL_S)

    def _times(self, select: Select) -> Sequence[int]:
        """Return ns of every choice of all threads."""
        end_s = time.monotonic() + self._size.round_s
        taken = [array("q") for _ in range(self._size.threads)]
        workers = [threading.Thread(target=_choose, args=(select, end_s, times)) for times in taken]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return array("q", chain.from_iterable(taken))


def _choose(select: Select, end_s: float, times: array[int]) -> None:
    clock = time.perf_counter_ns
    while True:  # at least once, also on a machine that let it wait until the round was over
        for _ in repeat(None, _CHOICES):
            begin = clock()
            select(_TOPIC)
            times.append(clock() - begin)
        if time.monotonic() >= end_s:
            return
        time.sleep(_PAUSE_S)
