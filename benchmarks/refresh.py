"""What does it cost a client to know many topics and to read all of them again?

CPU of a full refresh, memory, and round trips. Each is measured in a process of its own, with nothing that
other measurements left behind. Only the client runs beside the main thread there, so its CPU is that of all
other threads. Peers: a pipeline of HGETALL, and an MGET that is split into rows, both on the main thread.
Ratio: the CPU of a refresh to that of each.
"""

from __future__ import annotations

import gc
import resource
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import redis

from sharedroutes.client import ClientConfig, NoRoute, RouteClient
from sharedroutes.client.observers.events import Event, LookupDone
from sharedroutes.registry.keys import Keys

from .kit.figures import Figure, Outcome, at_most, interleave, ratio
from .kit.processes import running, say
from .kit.workload import fill, fill_hashes, opened, read_hashes, spread, topic_names

_CPU: Final = "cpu"
_TRACED: Final = "traced"
_RESIDENT: Final = "resident"
_TRIPS: Final = "trips"

_ROUTES: Final = "client"
_LOOKED_UP: Final = "client, with all routes looked up"
_TO_SEND: Final = "client, with the queues to send to"
_BY_HAND: Final = "by hand: HGETALL pipeline"
_MGET: Final = "by hand: MGET and split"

_TAIL_S: Final = 30.0
"""So long that the client reads nothing by itself while the benchmark measures."""

_DEADLINE_S: Final = 30.0
_AT_ONCE: Final = 1_000
_NO_LOOKUPS: Final = (b"XRANGE", b"XREVRANGE", b"SUBSCRIBE", b"HELLO", b"CLIENT")
_PAGE_BYTES: Final = resource.getpagesize()


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 9
    topics: int = 10_000
    brokers: int = 100
    brokers_per_topic: int = 8
    topics_of_trips: int = 1_000


QUICK: Final = Size(rounds=3)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and CalledProcessError when the other process fails."""
    of_brokers = spread(topic_names(size.topics), size.brokers_per_topic, size.brokers)
    with opened() as (server, store, client):
        fill(store, of_brokers)
        fill_hashes(client, of_brokers)
        cpu = _measured(server.url, _CPU, size.topics, size.rounds)
        traced = _measured(server.url, _TRACED, size.topics, 1)
        resident = _measured(server.url, _RESIDENT, size.topics, 1)
        trips = _measured(server.url, _TRIPS, size.topics_of_trips, size.rounds)
    ms = {name: Figure(f"CPU of a refresh, {name}", "ms", rounds) for name, rounds in cpu.items()}
    ms[_ROUTES] = Figure(ms[_ROUTES].name, "ms", cpu[_ROUTES], at_most(60))
    targets = {name: at_most(2_048) for name in (_ROUTES, _LOOKED_UP)}
    return Outcome(
        [
            *ms.values(),
            *(ratio(ms[_ROUTES], ms[other]) for other in (_BY_HAND, _MGET)),
            *(
                Figure(f"memory a topic, {name}", "B", traced[name], targets.get(name))
                for name in (_ROUTES, _LOOKED_UP, _BY_HAND, _TO_SEND)
            ),
            *(
                Figure(f"resident memory a topic, {name}", "B", resident[name])
                for name in (_ROUTES, _LOOKED_UP, _TO_SEND)
            ),
            Figure(
                f"round trips of a refresh of {size.topics_of_trips:,} topics", "", trips[_ROUTES], at_most(5)
            ),
        ],
        [
            f"{size.topics:,} topics, each on {size.brokers_per_topic} of {size.brokers} brokers",
            "by hand: the same rows, and no leases",
            "memory: what Python's allocators gave out (tracemalloc); resident: what the process grew by",
        ],
    )


def _measured(url: str, what: str, topics: int, rounds: int) -> dict[str, list[float]]:
    with running(measure, url, what, topics, rounds) as child:
        found: dict[str, list[float]] = child.answer()
        return found


def measure(url: str, what: str, topics: int, rounds: int) -> None:
    """In the other process: measure one thing; say the values of all rounds, by name.

    Raises RuntimeError when the client does not do what is to be measured.
    """
    names = topic_names(topics)
    if what == _CPU:
        say(_cpu(url, names, rounds))
    elif what == _TRIPS:
        say({_ROUTES: [*_trips(url, names, rounds)]})
    elif what == _TRACED:
        tracemalloc.start()
        say(_memory(url, names, _traced))
    else:
        say(_memory(url, names, _resident))


class _Client:
    """A client that knows all the topics, and reads all of them again on demand."""

    def __init__(self, routes: RouteClient, refreshes: _Refreshes, names: Sequence[str]) -> None:
        self.routes = routes
        self._refreshes = refreshes
        if len(routes.get(names)) != len(names):
            raise RuntimeError("a topic of the benchmark has no route")

    def refresh(self) -> None:
        """Wait until all topics were read once more and taken in; raises RuntimeError if they are not."""
        self._refreshes.done.clear()
        self.routes.accept()  # a full refresh at once, which costs what any other does
        if not self._refreshes.done.wait(_DEADLINE_S):
            raise RuntimeError(f"the topics were not read again within {_DEADLINE_S} s")


class _Refreshes:
    """An observer that notes when all topics have been looked up."""

    def __init__(self, topics: int) -> None:
        self._topics = topics
        self.done = threading.Event()

    def on_event(self, event: Event) -> None:
        if isinstance(event, LookupDone) and event.topics >= self._topics:
            self.done.set()


@contextmanager
def _client(make: Callable[[ClientConfig], RouteClient], names: Sequence[str]) -> Iterator[_Client]:
    refreshes = _Refreshes(len(names))
    with make(ClientConfig(tail_s=_TAIL_S, refresh_s=_TAIL_S, observers=(refreshes,))) as routes:
        yield _Client(routes, refreshes, names)


def _cpu(url: str, names: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Return ms of CPU for one refresh."""
    make = partial(RouteClient.from_url, url)
    with _client(make, names) as client, redis.Redis.from_url(url) as by_hand:
        return interleave(
            rounds,
            {
                _ROUTES: partial(_refresh_ms, client),
                _BY_HAND: partial(_own_ms, partial(_hgetall, by_hand, names)),
                _MGET: partial(_own_ms, partial(_mget, by_hand, names)),
            },
        )


def _refresh_ms(client: _Client) -> float:
    begin = _others_s()
    client.refresh()
    return (_others_s() - begin) * 1_000


def _others_s() -> float:
    return time.process_time() - time.thread_time()


def _own_ms(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return (time.thread_time() - begin) * 1_000


def _hgetall(client: redis.Redis, names: Sequence[str]) -> dict[str, dict[bytes, bytes]]:
    table: dict[str, dict[bytes, bytes]] = {}
    for start in range(0, len(names), _AT_ONCE):
        table |= read_hashes(client, names[start : start + _AT_ONCE])
    return table


def _mget(client: redis.Redis, names: Sequence[str]) -> dict[str, list[list[bytes]]]:
    key = Keys("sharedroutes").topic
    table: dict[str, list[list[bytes]]] = {}
    for start in range(0, len(names), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        values: Any = client.mget(map(key, part))
        for topic, value in zip(part, values, strict=True):
            table[topic] = [row.split(b" ") for row in value.split(b"\n")]
    return table


def _memory(url: str, names: Sequence[str], used: Callable[[], float]) -> dict[str, list[float]]:
    """Return bytes a topic."""
    found = {}
    empty = used()
    with _client(partial(RouteClient.from_url, url), names) as client:
        client.refresh()
        found[_ROUTES] = [(used() - empty) / len(names)]
        for topic in names:
            client.routes.route(topic)
        found[_LOOKED_UP] = [(used() - empty) / len(names)]
        for topic in names:
            with suppress(NoRoute):  # some topics are read-only
                client.routes.select_queue(topic)
        found[_TO_SEND] = [(used() - empty) / len(names)]
    with redis.Redis.from_url(url) as by_hand:
        by_hand.ping()
        empty = used()
        table = _hgetall(by_hand, names)
        found[_BY_HAND] = [(used() - empty) / len(table)]
    return found


def _traced() -> float:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _resident() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES


def _trips(url: str, names: Sequence[str], rounds: int) -> Sequence[float]:
    """Return how often a refresh waits for the server's answers."""
    pool = redis.ConnectionPool.from_url(url, connection_class=_Counted)
    with (
        redis.Redis(connection_pool=pool) as store,
        _client(partial(RouteClient.from_client, store), names) as client,
    ):
        found = []
        for _ in range(rounds):
            before = _Counted.lookups
            client.refresh()
            found.append(float(_Counted.lookups - before))
    pool.close()
    return found


class _Counted(redis.Connection):
    """Counts the requests of lookups: not those of connecting and of the change feed."""

    lookups = 0

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
        sent = command if isinstance(command, bytes) else b"".join(command)
        if not any(name in sent[:100] for name in _NO_LOOKUPS):
            _Counted.lookups += 1
        super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]
