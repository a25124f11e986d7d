"""How soon does another process see a change?

Peer: a bare pub/sub message to the same process. Ratio: a change of a route to that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from queue import SimpleQueue
from typing import Final

import redis

from sharedroutes.client import ClientConfig, RouteClient
from sharedroutes.client.observers.events import Event, RoutesChanged

from .kit.figures import Contestant, Figure, Outcome, at_most, interleave, percentile, ratio
from .kit.ping import BARE, BARE_P99, hearing, ping
from .kit.processes import Child, commands, running, say
from .kit.workload import Writer, opened, tables, topic_names

_CHANGE: Final = "change seen, p50"
_DEADLINE_S: Final = 10.0


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
    with opened() as (server, store, client):
        writer = Writer(store, table)
        with running(watch, server.url, names[0]) as watcher:
            contestants: dict[str, Contestant] = {
                _CHANGE: partial(_change, writer, cycle((3, 5)), watcher),
                BARE: partial(_ping, client, watcher),
            }
            values = interleave(size.changes, contestants)
    change = Figure(_CHANGE, "ms", values[_CHANGE], at_most(1))
    bare = Figure(BARE, "ms", values[BARE])
    return Outcome(
        [
            change,
            Figure("change seen, p99", "ms", [percentile(change.rounds, 0.99)]),
            bare,
            Figure(BARE_P99, "ms", [percentile(bare.rounds, 0.99)]),
            ratio(change, bare, at_most(2)),
        ],
        [f"{size.changes} changes; seen: an observer of the client is told, and reads the route"],
    )


def _ms_until(watcher: Child, what: int | None, act: Callable[[], object]) -> float:
    """Let the other process wait for something, do it, and return how long (ms) until the other saw it."""
    watcher.tell(what)
    begin = time.monotonic_ns()
    act()
    return (int(watcher.answer()) - begin) / 1e6


def _change(writer: Writer, numbers: Iterator[int], watcher: Child) -> float:
    number = next(numbers)
    return _ms_until(watcher, number, partial(writer.write, number))


def _ping(client: redis.Redis, watcher: Child) -> float:
    return _ms_until(watcher, None, partial(ping, client))


def watch(url: str, topic: str) -> None:
    """In the other process: wait for a ping (None), or until a topic shows so many write queues; say when."""
    seen = _Seen(topic)
    with (
        RouteClient.from_url(url, ClientConfig(observers=(seen,))) as routes,
        hearing(url) as next_ping_ns,
    ):
        routes.route(topic)
        seen.look_at(routes)
        for wanted in commands():
            say()
            if wanted is None:
                say(next_ping_ns())
            else:
                say(seen.await_queues(wanted))


class _Seen:
    """Notes what a topic's route has at each change, as soon as its client knows of it."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._routes: RouteClient | None = None
        self._found = SimpleQueue[tuple[int, int]]()
        """Write queues, and when they were seen, in ns."""

    def look_at(self, routes: RouteClient) -> None:
        """Look at the routes of this client from now on."""
        self._routes = routes

    def on_event(self, event: Event) -> None:
        """Take one event."""
        if isinstance(event, RoutesChanged) and self._routes is not None:
            queues = self._routes.route(self._topic).queue_datas[0].write_queue_nums
            self._found.put((queues, time.monotonic_ns()))

    def await_queues(self, wanted: int) -> int:
        """Return when (ns) the route had so many write queues; raise queue.Empty when it never has."""
        while True:
            queues, seen_ns = self._found.get(timeout=_DEADLINE_S)
            if queues == wanted:
                return seen_ns
