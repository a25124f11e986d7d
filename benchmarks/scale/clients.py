"""What does one more client cost the server, while nothing happens and for each change?

They have default settings, run in a few other processes, and know ten topics of eight brokers. A change
gives a topic other queues, which the doorbell brings along; a broker that comes back has left before, so
leases are read twice. Somebody sweeps, so pulses are heard; without, clients read twice a second. What the
server spends on a change is taken until all have read what they read of it, without what it spends meanwhile
anyway. The line through the smaller sizes is checked at the largest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from sharedroutes.registry import RouteStore, Sweeper

from ..kit.figures import Figure, Outcome
from ..kit.processes import Child, await_until, running
from ..kit.usage import cpu_s, resident_mb
from ..kit.workload import Table, Writer, broker, fill, opened, tables, topic_names
from ..storm import ROUTES, be_clients
from .costs import COMMANDS, CPU, MEMORY, NOTHING, RECEIVED, Spent, figures_of, series, spent_in, spent_so_far

OF: Final = "clients"
IDLE: Final = "idle, with pulses"
SILENT: Final = "idle, without pulses"
CHANGE: Final = "a topic changes"
BACK: Final = "a broker leaves and is back"
SERVER: Final = "server"
OWN: Final = "the clients themselves"
_TOPICS: Final = 10
_BROKERS: Final = 8
_PAUSE_S: Final = 0.2
_PATIENT: Final = {"connect_deadline_s": 20.0, "call_deadline_s": 20.0}
"""Hundreds of clients that begin in one process keep each other waiting."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    counts: Sequence[int] = (250, 500, 1_000, 2_000)
    """Of clients; the line goes through all but the last."""

    silent_counts: Sequence[int] = (125, 250, 500)
    """The same without pulses."""

    processes: int = 2
    """Started for each size, beside those of the sizes before."""

    settle_s: float = 5.0
    rounds: int = 2
    idle_s: float = 16.0
    """Longer than clients read nothing."""

    silent_s: float = 6.0
    """The same without pulses."""

    changes: int = 20
    returns: int = 2
    return_s: float = 2.5
    """After each of the two halves of a return, until all clients have read."""


QUICK: Final = Size(
    counts=(100, 200, 400), silent_counts=(50, 100, 200), settle_s=1, rounds=1, idle_s=10, returns=1
)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and TimeoutError when not all clients are in touch."""
    figures = [*_with_pulses(size), *_without(size)]
    notes = [
        f"asyncio clients, {_TOPICS} topics of {_BROKERS} brokers, {size.processes} processes for each size",
        "CPU is that of all threads of the server; the clients share its cores",
    ]
    return Outcome(figures, notes)


def _with_pulses(size: Size) -> Iterator[Figure]:
    found: dict[str, dict[int, list[Spent]]] = {what: {} for what in (IDLE, CHANGE, BACK)}
    own: dict[str, dict[int, list[float]]] = {CPU: {}, MEMORY: {}}
    server_mb: dict[int, list[float]] = {}
    with ExitStack() as stack:
        crowd = _Crowd(stack, size)
        stack.enter_context(Sweeper(crowd.store))
        for count in size.counts:
            crowd.grow(count)
            server_mb[count] = [resident_mb(crowd.pid)]
            own[MEMORY][count] = [crowd.own_mb()]
            own[CPU][count] = []
            for rounds in found.values():
                rounds[count] = []
            for _ in range(size.rounds):
                before_s, began_s = crowd.own_cpu_s(), time.monotonic()
                idle = crowd.idle(size.idle_s)
                own[CPU][count].append((crowd.own_cpu_s() - before_s) / (time.monotonic() - began_s) * 1e3)
                found[IDLE][count].append(idle)
                found[CHANGE][count].append(crowd.changes())
                found[BACK][count].append(crowd.returns(idle))
    yield from figures_of(IDLE, OF, found[IDLE], each="s")
    yield from figures_of(CHANGE, OF, found[CHANGE], each="change", but=(COMMANDS, RECEIVED))
    yield from figures_of(BACK, OF, found[BACK], each="return")
    yield from series(SERVER, MEMORY, OF, server_mb, "MB")
    yield from series(OWN, MEMORY, OF, own[MEMORY], "MB")
    yield from series(OWN, CPU, OF, own[CPU], "ms/s")


def _without(size: Size) -> Iterator[Figure]:
    """Nobody sweeps."""
    found = {}
    with ExitStack() as stack:
        crowd = _Crowd(stack, size)
        for count in size.silent_counts:
            crowd.grow(count)
            found[count] = [crowd.idle(size.silent_s) for _ in range(size.rounds)]
    yield from figures_of(SILENT, OF, found, each="s")


class _Crowd:
    """A server, its brokers, and clients that become more."""

    def __init__(self, stack: ExitStack, size: Size) -> None:
        server, self.store, self._client = stack.enter_context(opened())
        self.pid = server.pid
        self._url = server.url
        self._stack = stack
        self._size = size
        self._children: list[Child] = []
        self._count = 0
        of_brokers = tables(topic_names(_TOPICS), _BROKERS)
        fill(self.store, of_brokers)
        self._writer = Writer(self.store, of_brokers[0])
        self._queues = cycle((3, 5))
        self._leaver = _Leaver(self.store, of_brokers[1])
        self._without_any_mb = resident_mb(self._started(0).pid)

    def grow(self, count: int) -> None:
        """Wait until so many clients are in touch with the store."""
        more = count - self._count
        shares = [(more + number) // self._size.processes for number in range(self._size.processes)]
        self._children += [self._started(share) for share in shares]
        self._count = count
        await_until(lambda: self._in_touch() == count, f"{count} clients are in touch")
        time.sleep(self._size.settle_s)

    def idle(self, seconds: float) -> Spent:
        """Return what the server spends in a second, the mean of so many."""
        return spent_in(self._client, self.pid, seconds)

    def changes(self) -> Spent:
        """Return what it spends on a change of a topic."""
        total = NOTHING
        for _ in range(self._size.changes):
            before = spent_so_far(self._client, self.pid)
            self._writer.write(next(self._queues))
            # The server answers this question after it has written the change to all.
            total = total.plus(spent_so_far(self._client, self.pid).minus(before))
            time.sleep(_PAUSE_S)
        return total.times(1 / self._size.changes)

    def returns(self, idle: Spent) -> Spent:
        """Return what it spends on a broker that leaves and is back."""
        before = spent_so_far(self._client, self.pid)
        for _ in range(self._size.returns):
            for half in (self._leaver.leave, self._leaver.come_back):
                half()
                time.sleep(self._size.return_s)
        spent = spent_so_far(self._client, self.pid).minus(before)
        return spent.minus(idle.times(spent.seconds)).times(1 / self._size.returns)

    def own_cpu_s(self) -> float:
        """Return the CPU time of the clients' processes."""
        return sum(cpu_s(child.pid) for child in self._children)

    def own_mb(self) -> float:
        """Return their memory, without what a process takes that has no client."""
        return sum(resident_mb(child.pid) - self._without_any_mb for child in self._children)

    def _started(self, count: int) -> Child:
        child = self._stack.enter_context(
            running(be_clients, self._url, count, ROUTES, topic_names(_TOPICS), {}, _PATIENT)
        )
        child.await_ready()
        return child

    def _in_touch(self) -> int:
        for child in self._children:
            child.send("how many")
        return sum(child.answer() for child in self._children)


class _Leaver:
    """A broker that leaves and comes back."""

    def __init__(self, store: RouteStore, table: Table) -> None:
        self._store = store
        self._table = table
        self.come_back()

    def leave(self) -> None:
        """Unregister."""
        self._store.unregister(self._held)

    def come_back(self) -> None:
        """Register."""
        self._held = self._store.register(broker(1), self._table)
