"""Is a name server front faster than RocketMQ's own name server, and smaller?

Both run on the same cores, with the same brokers' tables, and take turns within a run: RocketMQ's in its own
Java process with the heap that its launcher gives it, the front with a Redis server. Requests come from one
Java thread; a server that does nothing shows what that thread can do. Measured: routes, with 32 connections
and with one; the registration of 10,000 topics; the memory for 8 such brokers; routes while 500 brokers
register every second, and beside 5,000 idle connections.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

from sharedroutes.registry import NotFound, RouteStore
from sharedroutes.remoting import RemotingCommand, encode

from .kit.contestants import FRONT, PLAIN, REAL, Server, running, succeed, succeeded, without_uvloop
from .kit.figures import Contestant, Figure, Outcome, Target, at_least, at_most, interleave, ratio, seconds
from .kit.hosts import stand_in
from .kit.load import Load, Measured, idle_server, load
from .kit.name_servers import (
    Link,
    loopback,
    registration,
    route_request,
    unregistration,
)
from .kit.processes import allow_files
from .kit.rocketmq import AS_LAUNCHED, JavaAbsent
from .kit.workload import long_topic_names, tables

_NOTHING: Final = "a server that does nothing"

_SMALL_HEAP: Final = ("-Xms16m",)
"""Java's own defaults, which let the heap grow as far as it has to."""

_BROKER_TOPICS: Final = 16
"""Of each of many brokers that register every second."""

_TOPICS_SHARED_BY: Final = 8
_FOLLOWED_S: Final = 0.1
"""Within this time a front has heard of a broker that was forgotten."""

_KB: Final = 1_000

_RATE: Final = "requests"
_P99: Final = "p99"
_KINDS: Final[Mapping[str, tuple[str, Callable[[Measured], float]]]] = {
    _RATE: ("1/s", lambda one: one.rate),
    "p50": ("us", lambda one: one.p50_us),
    _P99: ("us", lambda one: one.p99_us),
}
"""What is said of each load: unit and value."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 5
    round_s: float = 4.0
    warm_up_s: float = 10.0
    """Of each server: Java compiles what it runs often."""

    connections: int = 32
    brokers: int = 8
    topics: int = 1_000
    """Whose routes are asked for, all on all brokers."""

    many_topics: int = 10_000
    """Of a broker that registers."""

    registrations: int = 9
    registering: int = 500
    """Brokers that register every second."""

    settle_s: float = 3.0
    """So long they do so before anything is measured: first they are new."""

    idle: int = 5_000
    paced: float = 1_000.0
    """Requests a second beside those that register, and beside the idle connections."""


QUICK: Final = Size(rounds=2, round_s=1.5, warm_up_s=4.0, registrations=3, registering=100, idle=1_000)


def run(size: Size) -> Outcome:
    """Measure; where Java is absent, say so; raises RegistryError, RuntimeError, OSError and TimeoutError."""
    _allow_connections(size.idle)
    try:
        with ExitStack() as stack:
            sender, other = stack.enter_context(load()), stack.enter_context(load())
            with running(AS_LAUNCHED, brokers=size.brokers, topics=size.topics) as servers:
                with without_uvloop(servers[FRONT], long_topic_names(size.topics)) as plain:
                    figures = _routes(size, {**servers, PLAIN: plain}, sender)
                figures += [
                    *_registrations(size, servers),
                    *_beside_registrations(size, servers, sender, other),
                    *_beside_idle_connections(size, servers, sender),
                ]
        return Outcome([*figures, *_memory(size)], _notes(size))
    except JavaAbsent as error:
        return Outcome([], [f"nothing was measured: {error}"])


def _notes(size: Size) -> Sequence[str]:
    return [
        f"RocketMQ's name server 5.3.3, {' '.join(AS_LAUNCHED[:3])}; for the memory {' '.join(_SMALL_HEAP)}",
        f"routes: {size.topics:,} topics in turn, each on {size.brokers} brokers; each answer is checked",
        f"beside something: {size.paced:,.0f} routes a second",
        "the memory of the front is that of its process and of the Redis server",
        f"each of the {size.registering} brokers has {_BROKER_TOPICS} topics, and first registers anew",
    ]


def _allow_connections(idle: int) -> None:
    """Raise RuntimeError if the system does not allow so many, at both of their ends."""
    most = allow_files()
    if 0 <= most < 2 * idle:
        raise RuntimeError(f"{idle:,} connections: the system allows {most:,} files (ulimit -n)")


class _Rounds:
    """The rounds of one load of a server; the first one does not count."""

    def __init__(self, what: str, server: str, run: Callable[[], Measured]) -> None:
        self._what = what
        self._server = server
        self._run = run
        self._found: list[Measured] = []

    def __call__(self) -> float:
        self._found.append(self._run())
        return self._found[-1].rate

    def figure(self, kind: str) -> Figure:
        """Return one of _KINDS."""
        unit, of = _KINDS[kind]
        return Figure(f"{self._what}, {self._server}: {kind}", unit, [*map(of, self._found[1:])])

    def times(self, other: _Rounds, kind: str, target: Target | None = None) -> Figure:
        """Return how many times the other's one of _KINDS is."""
        names = self._server if self._server == other._server else f"{self._server} / {other._server}"
        found = ratio(self.figure(kind), other.figure(kind), target)
        return replace(found, name=f"{self._what}, {names}: {kind}")


def _routes(size: Size, servers: Mapping[str, Server], sender: Load) -> list[Figure]:
    """Measure how fast routes are answered, by all connections that are wanted and by one."""
    frames = sender.frames(map(route_request, long_topic_names(size.topics)))
    with Link(servers[REAL].port) as link:
        answer = succeed(link, route_request(long_topic_names(1)[0]))
    for server in servers.values():
        sender.run(server.port, frames, connections=size.connections, seconds=size.warm_up_s)
    figures: list[Figure] = []
    with idle_server(answer) as nothing:
        for connections in (size.connections, 1):
            ports = {name: server.port for name, server in servers.items()} | {_NOTHING: nothing}
            what = f"{connections} connection{'s' if connections > 1 else ''}"
            rounds = {
                name: _Rounds(
                    what,
                    name,
                    partial(sender.run, port, frames, connections=connections, seconds=size.round_s),
                )
                for name, port in ports.items()
            }
            interleave(size.rounds, _kept(servers, rounds))
            figures += _of_routes(rounds, is_alone=connections == 1)
    return figures


def _of_routes(rounds: Mapping[str, _Rounds], *, is_alone: bool) -> Iterator[Figure]:
    for one in rounds.values():
        yield from map(one.figure, _KINDS)
    rate, p99 = (at_least(1), None) if is_alone else (at_least(2), at_most(0.5))
    for name in (FRONT, PLAIN):
        yield rounds[name].times(rounds[REAL], _RATE, rate)
        yield rounds[name].times(rounds[REAL], _P99, p99)
    # Else the process that sends would be what is measured; on one connection it waits most of the time.
    yield rounds[_NOTHING].times(rounds[FRONT], _RATE, None if is_alone else at_least(2))


def _kept(servers: Mapping[str, Server], rounds: Mapping[str, _Rounds]) -> Mapping[str, Contestant]:
    """Return rounds before each of which all brokers show that they are there."""

    def after_beats(run: Contestant) -> float:
        for server in servers.values():
            server.beat()
        return run()

    return {name: partial(after_beats, one) for name, one in rounds.items()}


def _registrations(size: Size, servers: Mapping[str, Server]) -> list[Figure]:
    """Measure how long a large registration takes, of a new broker and of one that has not changed."""
    compared = (REAL, FRONT)
    again: dict[str, list[float]] = {name: [] for name in compared}
    with stand_in() as port, ExitStack() as stack:
        brokers = {name: stack.enter_context(Link(servers[name].port)) for name in compared}
        store = stack.enter_context(RouteStore.from_url(servers[FRONT].store_url))
        of_broker = _Registering(size, port, store)
        first = interleave(
            size.registrations,
            {name: partial(of_broker.first_ms, brokers[name], again[name]) for name in compared},
        )
    what = f"registration of {size.many_topics:,} topics"
    figures = {
        (name, when): Figure(f"{what}, {name}, {when}", "ms", values)
        for when, found in (("first", first), ("again", {name: again[name][1:] for name in compared}))
        for name, values in found.items()
    }
    ratios = [
        replace(
            ratio(figures[FRONT, when], figures[REAL, when], at_most(1.5)),
            name=f"{what}, {FRONT} / {REAL}, {when}",
        )
        for when in ("first", "again")
    ]
    return [*figures.values(), *ratios]


class _Registering:
    """Registers one broker after the other; each is forgotten, as RocketMQ forgets who unregisters."""

    def __init__(self, size: Size, port: int, store: RouteStore) -> None:
        (self._table,) = tables(long_topic_names(size.many_topics), 1)
        self._port = port
        self._store = store
        self._number = size.brokers

    def first_ms(self, link: Link, again: list[float]) -> float:
        """Return ms of the registration of a new broker; add those of a second one."""
        self._number += 1
        name, address = f"broker-{self._number:03d}", loopback(self._number, self._port)
        frame = encode(registration(name, address, self._table))
        taken_ms = [1_000 * seconds(lambda: succeeded(link.send(frame))) for _ in range(2)]
        again.append(taken_ms[1])
        succeed(link, unregistration(name, address))
        with suppress(NotFound):  # the store has those of the front
            self._store.admin.forget(name)
        time.sleep(_FOLLOWED_S)
        return taken_ms[0]


def _beside_registrations(
    size: Size, servers: Mapping[str, Server], sender: Load, other: Load
) -> list[Figure]:
    """Measure routes while many brokers register every second."""
    with stand_in() as port:
        registering = other.frames(_small_registrations(size, port))

        def beside(server: Server, measure: Callable[[], Measured]) -> Measured:
            run_s = size.settle_s + size.round_s + 1
            rate = float(size.registering)
            other.begin(server.port, registering, connections=size.registering, seconds=run_s, rate=rate)
            time.sleep(size.settle_s)
            try:
                return measure()
            finally:
                other.result()
                time.sleep(size.settle_s / 2)  # their connections end, and that is work, too

        what = f"{size.registering} brokers that register"
        return _compared(size, servers, sender, what, beside)


def _small_registrations(size: Size, port: int) -> Iterator[RemotingCommand]:
    names = long_topic_names(_BROKER_TOPICS)
    for number in range(size.registering):
        topics = [f"{name}-{number // _TOPICS_SHARED_BY}" for name in names]
        (table,) = tables(topics, 1)
        place = 2 * size.brokers + number
        yield registration(f"small-{place:03d}", loopback(place, port), table)


def _compared(
    size: Size,
    servers: Mapping[str, Server],
    sender: Load,
    what: str,
    beside: Callable[[Server, Callable[[], Measured]], Measured],
) -> list[Figure]:
    """Measure routes at a steady rate, with nothing beside them and with something, in turns."""
    frames = sender.frames(map(route_request, long_topic_names(size.topics)))
    figures: list[Figure] = []
    for name in (REAL, FRONT):
        server = servers[name]
        measure = partial(
            sender.run,
            server.port,
            frames,
            connections=_TOPICS_SHARED_BY,
            seconds=size.round_s,
            rate=size.paced,
        )
        alone = _Rounds(f"without {what}", name, measure)
        with_them = _Rounds(f"with {what}", name, partial(beside, server, measure))
        interleave(size.rounds, _kept(servers, {"alone": alone, "beside": with_them}))
        target: Target | None = at_most(2) if name == FRONT else None
        figures += (alone.figure(_P99), with_them.figure(_P99))
        figures.append(
            replace(with_them.times(alone, _P99, target), name=f"{what}, {name}: p99, with / without")
        )
    return figures


def _beside_idle_connections(size: Size, servers: Mapping[str, Server], sender: Load) -> list[Figure]:
    """Measure routes beside many connections that have asked once, and what memory those take."""
    bytes_each: dict[int, list[float]] = {}

    def beside(server: Server, measure: Callable[[], Measured]) -> Measured:
        before_mb = server.resident_mb()
        with _IdleConnections(server.port, size.idle):
            bytes_each.setdefault(server.port, []).append((server.resident_mb() - before_mb) / size.idle)
            return measure()

    what = f"{size.idle:,} idle connections"
    figures = _compared(size, servers, sender, what, beside)
    for name in (REAL, FRONT):
        # Later ones find what the first ones have left.
        first_kb = bytes_each[servers[name].port][0] * _KB
        figures.append(Figure(f"an idle connection, {name}: memory", "kB", [max(first_kb, 0.001)]))
    return figures


class _IdleConnections:
    """Connections that have asked for one route each."""

    def __init__(self, port: int, count: int) -> None:
        self._links = ExitStack()
        self._port = port
        self._count = count

    def __enter__(self) -> Self:
        command = route_request(long_topic_names(1)[0])
        for _ in range(self._count):
            succeed(self._links.enter_context(Link(self._port)), command)
        return self

    def __exit__(self, *_: object) -> None:
        self._links.close()


def _memory(size: Size) -> list[Figure]:
    """Measure the memory for brokers with many topics, each registered more than once."""
    with running(_SMALL_HEAP, brokers=size.brokers, topics=size.many_topics) as servers:
        what = f"{size.brokers} x {size.many_topics:,} topics"
        real, front = (
            Figure(f"{what}, {name}: memory", "MB", [servers[name].resident_mb()]) for name in (REAL, FRONT)
        )
    total = replace(ratio(front, real, at_most(1)), name=f"{what}, {FRONT} / {REAL}: memory")
    return [real, front, total]
