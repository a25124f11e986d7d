"""What does one more client cost the server, while nothing happens and for each change?

They have default settings, run in a few other processes, and know ten topics of eight brokers. A change
gives a topic other queues, which the doorbell brings along; a broker that comes back has left before, so
leases are read twice. Somebody sweeps, so pulses are heard; without, clients read twice a second. The same is
asked of a replica whose clients read there, and of its primary. What a server spends on a return is taken
until all clients have read and read as usual again, without what it spends meanwhile anyway: its CPU would
be lost in that. Lines through the smaller sizes are checked at the two largest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sharedroutes.registry import Sweeper

from ..kit.figures import Figure, Outcome
from ..kit.processes import Child, await_until, running
from ..kit.usage import cpu_s, resident_mb
from ..kit.workload import LASTING, Leaver, Writer, fill, opened, tables, topic_names
from ..storm import ROUTES, be_clients
from .costs import (
    COMMANDS,
    CONNECTIONS,
    CPU,
    MEMORY,
    NOTHING,
    RECEIVED,
    Meter,
    Spent,
    by_size,
    figures_of,
    series,
    spent_in,
)
from .replicas import AT_ONCE, await_in_step, start_replica

OF: Final = "clients"
IDLE: Final = "idle, with pulses"
SILENT: Final = "idle, without pulses"
CHANGE: Final = "a topic changes"
BACK: Final = "a broker leaves and is back"
SERVER: Final = "server"
PRIMARY: Final = "the primary of clients at a replica"
OWN: Final = "the clients themselves"
_TOPICS: Final = 10
_BROKERS: Final = 8
_LEAST_PAUSE_S: Final = 0.2
_PAUSE_S: Final = 0.0006
"""For each client, after a change: they share few cores with the server."""

_OPTIONS: Final = ("--maxclients", "20000")
_PATIENT: Final = {"connect_deadline_s": 20.0, "call_deadline_s": 20.0}
"""Hundreds of clients that begin in one process keep each other waiting."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    counts: Sequence[int] = (250, 500, 1_000, 2_000, 4_000)
    """Of clients; the line goes through all but the last two."""

    silent_counts: Sequence[int] = (125, 250, 500, 1_000)
    """The same without pulses."""

    processes: int = 2
    """Started for each size, beside those of the sizes before."""

    settle_s: float = 5.0
    rounds: int = 2
    idle_s: float = 16.0
    """Longer than clients read nothing."""

    silent_s: float = 6.0
    """The same without pulses."""

    changes: int = 10
    return_s: float = 12.0
    """After each of the two halves of a return. At all sizes: who has just read does not read as usual."""


QUICK: Final = Size(
    counts=(50, 100, 200, 400),
    silent_counts=(25, 50, 100, 200),
    settle_s=1,
    rounds=1,
    idle_s=10,
    return_s=2.5,
)


def at_replica(what: str) -> str:
    """Return the name of the same where clients read at a replica."""
    return f"{what}, at a replica"


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and TimeoutError when not all clients are in touch."""
    figures = [*_at_the_primary(size), *_at_a_replica(size), *_without(size)]
    notes = [
        f"asyncio clients, {_TOPICS} topics of {_BROKERS} brokers, {size.processes} processes for each size",
        "CPU is that of all threads of the server; the clients share its cores",
    ]
    return Outcome(figures, notes)


class _Step(NamedTuple):
    """What was measured with so many clients."""

    server_mb: float
    connections: float
    own_mb: float
    rounds: Sequence[_Round]


class _Round(NamedTuple):
    own_cpu_ms: float
    idle: Spent
    primary: Spent
    change: Spent
    back: Spent


def _at_the_primary(size: Size) -> Iterator[Figure]:
    steps = _steps(size)
    yield from _figures(steps, str)
    yield from series(OWN, MEMORY, OF, {count: [step.own_mb] for count, step in steps.items()}, "MB")
    own_cpu_ms = {count: [one.own_cpu_ms for one in step.rounds] for count, step in steps.items()}
    yield from series(OWN, CPU, OF, own_cpu_ms, "ms/s")


def _at_a_replica(size: Size) -> Iterator[Figure]:
    steps = _steps(size, replica=True)
    yield from _figures(steps, at_replica)
    cpu_ms = {count: [one.primary.cpu_ms for one in step.rounds] for count, step in steps.items()}
    yield from by_size(PRIMARY, CPU, OF, cpu_ms, "ms/s").values()
    commands = {count: [one.primary.commands for one in step.rounds] for count, step in steps.items()}
    yield from by_size(PRIMARY, COMMANDS, OF, commands, "1/s").values()


def _steps(size: Size, *, replica: bool = False) -> dict[int, _Step]:
    steps = {}
    with ExitStack() as stack:
        crowd = _Crowd(stack, size, replica=replica)
        stack.enter_context(Sweeper(crowd.store))
        for count in size.counts:
            crowd.grow(count)
            taken = crowd.teller.memory_mb(), crowd.teller.connections(), crowd.own_mb()
            steps[count] = _Step(*taken, [_a_round(crowd, size) for _ in range(size.rounds)])
    return steps


def _a_round(crowd: _Crowd, size: Size) -> _Round:
    before_s = crowd.own_cpu_s()
    idle, primary = spent_in(size.idle_s, crowd.teller, crowd.primary)
    own_cpu_ms = (crowd.own_cpu_s() - before_s) / size.idle_s * 1_000
    return _Round(own_cpu_ms, idle, primary, crowd.changes(), crowd.returns(idle))


def _figures(steps: Mapping[int, _Step], name: Callable[[str], str]) -> Iterator[Figure]:
    """Return what the server spent that tells the clients."""
    idle, change, back = (
        {count: [spent(one) for one in step.rounds] for count, step in steps.items()}
        for spent in map(attrgetter, ("idle", "change", "back"))
    )
    yield from figures_of(name(IDLE), OF, idle, each="s")
    yield from figures_of(name(CHANGE), OF, change, each="change", but=(COMMANDS, RECEIVED))
    yield from figures_of(name(BACK), OF, back, each="return", but=(CPU,))
    server_mb = {count: [step.server_mb] for count, step in steps.items()}
    yield from series(name(SERVER), MEMORY, OF, server_mb, "MB")
    connections = {count: [step.connections] for count, step in steps.items()}
    yield from series(name(SERVER), CONNECTIONS, OF, connections, "1")


def _without(size: Size) -> Iterator[Figure]:
    """Nobody sweeps."""
    found = {}
    with ExitStack() as stack:
        crowd = _Crowd(stack, size)
        for count in size.silent_counts:
            crowd.grow(count)
            found[count] = [spent_in(size.silent_s, crowd.teller)[0] for _ in range(size.rounds)]
    yield from figures_of(SILENT, OF, found, each="s")


class _Crowd:
    """A server, its brokers, and clients that become more; they may read at a replica of it."""

    def __init__(self, stack: ExitStack, size: Size, *, replica: bool = False) -> None:
        server, self.store, client = stack.enter_context(opened(LASTING, *AT_ONCE, *_OPTIONS))
        self.primary = self.teller = Meter(client, server.pid)
        self._url = server.url
        self._settings: dict[str, Any] = {}
        if replica:
            its_replica, self.teller = start_replica(stack, server, *_OPTIONS)
            self._url += f"?replica=127.0.0.1:{its_replica.port}"
            self._settings = {"read_from": "replica"}
        self._stack = stack
        self._size = size
        self._children: list[Child] = []
        self._count = 0
        of_brokers = tables(topic_names(_TOPICS), _BROKERS)
        fill(self.store, of_brokers)
        self._writer = Writer(self.store, of_brokers[0])
        self._queues = cycle((3, 5))
        self._leaver = Leaver(self.store, of_brokers[1])
        self._without_any_mb = resident_mb(self._started(0).pid)

    def grow(self, count: int) -> None:
        """Wait until so many clients are in touch with the store."""
        more = count - self._count
        shares = [(more + number) // self._size.processes for number in range(self._size.processes)]
        self._children += [self._started(share) for share in shares]
        self._count = count
        await_until(lambda: self._in_touch() == count, f"{count} clients are in touch")
        time.sleep(self._size.settle_s)

    def changes(self) -> Spent:
        """Return what the teller spends on a change of a topic."""
        total = NOTHING
        for _ in range(self._size.changes):
            before = self.teller.so_far()
            self._writer.write(next(self._queues))
            if self.teller is not self.primary:
                await_in_step(self.primary.client)
            # The server answers this question after it has written the change to all.
            total = total.plus(self.teller.since(before))
            time.sleep(max(_LEAST_PAUSE_S, _PAUSE_S * self._count))
        return total.times(1 / self._size.changes)

    def returns(self, idle: Spent) -> Spent:
        """Return what it spends on a broker that leaves and is back."""
        before = self.teller.so_far()
        for half in (self._leaver.leave, self._leaver.come_back):
            half()
            time.sleep(self._size.return_s)
        spent = self.teller.since(before)
        return spent.minus(idle.times(spent.seconds))

    def own_cpu_s(self) -> float:
        """Return the CPU time of the clients' processes."""
        return sum(cpu_s(child.pid) for child in self._children)

    def own_mb(self) -> float:
        """Return their memory, without what a process takes that has no client."""
        return sum(resident_mb(child.pid) - self._without_any_mb for child in self._children)

    def _started(self, count: int) -> Child:
        arguments = (self._url, count, ROUTES, topic_names(_TOPICS), self._settings, _PATIENT)
        child = self._stack.enter_context(running(be_clients, *arguments))
        child.await_ready()
        return child

    def _in_touch(self) -> int:
        for child in self._children:
            child.send("how many")
        return sum(child.answer() for child in self._children)
