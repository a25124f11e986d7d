"""Clients that send at random: `python -m benchmarks.spark.senders '{"url": ..., ...}'` (see Setting).

Route clients in one process, each with its own connections, cache and fault memory. They choose queues of a
topic at random moments and record how it went: well, or, for sends to the broker that is dead at the time,
badly after a while. No message is sent. At the start they say `up`. A line on standard input is a broker that
is about to die; the answers are `ready`, and `avoided` when no client writes there any more by its routes.
After the line `over` the answer is a JSON list: for each client in turn the monotonic clock (ns) from when on
its routes lacked the broker (0 = they never did), that of when it knew of its first failed send (0 = none was
known), and the list of when it chose the broker.
"""

from __future__ import annotations

import heapq
import json
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

OVER: Final = "over"

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
_WRITE: Final = 2
_NAP_S: Final = 200e-6
_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What the clients are told."""

    url: str
    topic: str
    clients: int
    sends_per_s: float
    """Of each client, to all brokers together."""

    fails_after_s: float
    """From a send to a dead broker to its failure."""

    reconnect_s: float
    guard_hold_s: float


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
    sent_ns: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Forget what came of the broker before."""
        self.avoided_ns = self.known_ns = 0
        self.sent_ns = []

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

    def send(self, setting: Setting, dead: str, now_s: float) -> None:
        """Send, if it is time to."""
        if now_s < self.next_s:
            return
        self.next_s = now_s + self.rng.expovariate(setting.sends_per_s)
        try:
            name = self.client.select_queue(setting.topic).broker_name
        except NoRoute:  # after an outage, when no agent is back within the hold of the guard
            return
        if name == dead:
            self.sent_ns.append(time.monotonic_ns())
            heapq.heappush(self.failing, (now_s + setting.fails_after_s, name))
        else:
            self.client.record(name, _LATENCY_S)


def main(setting: Setting, commands: Iterable[str]) -> None:
    """Send until there are no more commands; raises TimeoutError for a broker that does not come back."""
    asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(commands, asked), daemon=True).start()
    with ExitStack() as stack:
        senders = [_sender(stack, setting, number) for number in range(setting.clients)]
        for sender in senders:
            sender.client.select_queue(setting.topic)  # else the first outage could come before the routes
        _say("up")
        dead, told = "", False
        while True:
            now_s = time.monotonic()
            for sender in senders:
                sender.settle(now_s)
                sender.send(setting, dead, now_s)
                if dead:
                    sender.look(setting.topic, dead)
            if dead and not told and all(sender.avoided_ns for sender in senders):
                told = True
                _say("avoided")
            if not asked.empty():
                command = asked.get()
                if command is None:
                    return
                if command == OVER:
                    dead = ""
                    _say(json.dumps([[one.avoided_ns, one.known_ns, one.sent_ns] for one in senders]))
                else:
                    dead, told = command, False
                    _begin(senders, setting.topic, dead, now_s + _DEADLINE_S)
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


def _sender(stack: ExitStack, setting: Setting, number: int) -> _Sender:
    config = ClientConfig(
        strategy=RandomTurns(number),
        faults=_FAULTS,
        reconnect_s=setting.reconnect_s,
        guard_hold_s=setting.guard_hold_s,
    )
    client = stack.enter_context(RouteClient.from_url(setting.url, config))
    return _Sender(client, random.Random(number), time.monotonic())


def _brokers(client: RouteClient, topic: str) -> set[str]:
    """Return the brokers that a client may write to."""
    try:
        queues = client.route(topic).queue_datas
    except NoRoute:
        return set()
    return {data.broker_name for data in queues if data.perm & _WRITE}


def _read(commands: Iterable[str], asked: queue.SimpleQueue[str | None]) -> None:
    for command in commands:
        asked.put(command.strip())
    asked.put(None)


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Setting(**json.loads(sys.argv[1])), sys.stdin)
