"""Clients that send at random: `python -m benchmarks.senders URL TOPIC CLIENTS SENDS_PER_S FAILS_AFTER_S`.

CLIENTS route clients in one process, each with its own connections, cache and fault memory. They choose
queues of TOPIC at random moments, SENDS_PER_S each, and record how it went: well, or, for sends to the broker
that is dead at the time, badly after FAILS_AFTER_S. No message is sent. Each line on standard input is a
broker that is about to die. The answers are `ready`, and when no client has it in its routes any more, for
each client in turn: the monotonic clock (ns) from when on its routes lacked the broker, that of when it knew
of its first failed send (0 = there was none), and how many sends went to the broker.
"""

from __future__ import annotations

import heapq
import queue
import random
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from sharedroutes.client import ClientConfig, FaultConfig, Ladder, NoRoute, RouteClient
from sharedroutes.client.selection import Candidates
from sharedroutes.registry import MessageQueue

__all__ = ["ISOLATION_S", "SLOW_START_S", "RandomTurns", "main"]

ISOLATION_S: Final = 0.5
SLOW_START_S: Final = 0.5
_FAULTS: Final = FaultConfig(
    ladder=Ladder((10,), (round(ISOLATION_S * 1000),)),
    consecutive_failures=0,
    min_success_rate=0.0,
    slow_start_s=SLOW_START_S,
)
"""Short, so that nothing is remembered from one death of a broker to its next."""

_TURNS: Final = 4_096
_LATENCY_S: Final = 0.001
_NAP_S: Final = 200e-6
_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RandomTurns:
    """Queues in an order that is drawn once: what comes next is as good as random."""

    seed: int

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return thousands of turns."""
        return random.Random(self.seed).choices(candidates.queues, k=_TURNS)


@dataclass(slots=True)
class _Sender:
    """One client, and what it has met since the last broker died."""

    client: RouteClient
    rng: random.Random
    next_s: float
    failing: list[tuple[float, str]] = field(default_factory=list)
    avoided_ns: int = 0
    known_ns: int = 0
    misdirected: int = 0

    def begin(self) -> None:
        """Forget what came of the broker before."""
        self.avoided_ns = self.known_ns = self.misdirected = 0

    def look(self, topic: str, dead: str) -> None:
        """Note since when its routes lack the broker."""
        if not self.avoided_ns and dead not in _brokers(self.client, topic):
            self.avoided_ns = time.monotonic_ns()

    def settle(self, now_s: float) -> None:
        """Record the sends that have failed by now."""
        while self.failing and self.failing[0][0] <= now_s:
            _, name = heapq.heappop(self.failing)
            self.client.record(name, _LATENCY_S, failed=True)
            self.known_ns = self.known_ns or time.monotonic_ns()

    def send(self, topic: str, dead: str, now_s: float, fails_after_s: float, sends_per_s: float) -> None:
        """Send, if it is time to."""
        if now_s < self.next_s:
            return
        self.next_s = now_s + self.rng.expovariate(sends_per_s)
        name = self.client.select_queue(topic).broker_name
        if name == dead:
            self.misdirected += not self.avoided_ns
            heapq.heappush(self.failing, (now_s + fails_after_s, name))
        else:
            self.client.record(name, _LATENCY_S)


def main(
    url: str, topic: str, clients: int, sends_per_s: float, fails_after_s: float, commands: Iterable[str]
) -> None:
    """Send until there are no more commands; raises TimeoutError for a broker that stays."""
    asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(commands, asked), daemon=True).start()
    with ExitStack() as stack:
        senders = [_sender(stack, url, number) for number in range(clients)]
        dead, until_s = "", 0.0
        while True:
            now_s = time.monotonic()
            for sender in senders:
                sender.settle(now_s)
                sender.send(topic, dead if not sender.avoided_ns else "", now_s, fails_after_s, sends_per_s)
                if dead:
                    sender.look(topic, dead)
            if dead and all(sender.avoided_ns for sender in senders):
                dead = ""
                _say(" ".join(f"{one.avoided_ns} {one.known_ns} {one.misdirected}" for one in senders))
            elif dead and now_s > until_s:
                raise TimeoutError(f"{dead} stayed for {_DEADLINE_S} s")
            elif not dead and not asked.empty():
                command = asked.get()
                if command is None:
                    return
                dead, until_s = command, now_s + _DEADLINE_S
                _begin(senders, topic, dead, until_s)
            time.sleep(_NAP_S)


def _begin(senders: Iterable[_Sender], topic: str, dead: str, until_s: float) -> None:
    """Wait until all clients have the broker, which is alive still."""
    for sender in senders:
        while dead not in _brokers(sender.client, topic):
            if time.monotonic() > until_s:
                raise TimeoutError(f"{dead} did not come back within {_DEADLINE_S} s")
            time.sleep(_NAP_S)
        sender.begin()
    _say("ready")


def _sender(stack: ExitStack, url: str, number: int) -> _Sender:
    config = ClientConfig(strategy=RandomTurns(number), faults=_FAULTS)
    client = stack.enter_context(RouteClient.from_url(url, config))
    return _Sender(client, random.Random(number), time.monotonic())


def _brokers(client: RouteClient, topic: str) -> set[str]:
    try:
        return {data.broker_name for data in client.route(topic).broker_datas}
    except NoRoute:
        return set()


def _read(commands: Iterable[str], asked: queue.SimpleQueue[str | None]) -> None:
    for command in commands:
        asked.put(command.strip())
    asked.put(None)


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, where, of, *numbers = sys.argv
    main(where, of, int(numbers[0]), float(numbers[1]), float(numbers[2]), sys.stdin)
