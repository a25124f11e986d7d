"""How much a server bears, by what each broker, client, topic, replica and change costs it; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final, Self, TypeAlias

from . import brokers, clients, replicas, topics
from .clients import at_replica
from .costs import COMMANDS, CPU, MEMORY, SENT, Cost, Line

MS: Final = 1_000.0
"""What one thread has in a second."""

BUDGET: Final = 0.5
"""The part of a thread that is to be used at most: the rest is for what comes at once."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is asked of a registry, and of how many servers."""

    brokers: int = 0
    topics: int = 0
    clients: int = 0
    changes_s: float = 0.0
    """Topics that change in a second."""

    returns_s: float = 0.0
    """Brokers that leave and come back in a second."""

    pulses: bool = True
    replicas: int = 0
    """Where the clients read, if there are any; each tells as many of them."""


@dataclass(frozen=True, slots=True)
class Load:
    """What it takes of one server."""

    cpu: float
    """The part of its one thread: above 1, it cannot."""

    commands_s: float
    sent_b_s: float
    memory_mb: float


_Terms: TypeAlias = Iterable[tuple[str, float, float]]
"""What it is, how many there are, and how often that is spent in a second."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What was measured, as lines."""

    of: Mapping[tuple[str, str], Cost]

    @classmethod
    def complete(cls, of: Mapping[tuple[str, str], Cost]) -> Self | None:
        """Return the prices; None if something was not measured."""
        told = (clients.IDLE, clients.CHANGE)
        written = (replicas.PULSES, replicas.CHANGE, replicas.BACK, replicas.HEARTBEAT, replicas.APPLIED)
        others = (clients.SILENT, brokers.IDLE, topics.REGISTERED)
        memory = (clients.SERVER, at_replica(clients.SERVER), brokers.SERVER, topics.SERVER)
        needed = (
            *((what, CPU) for what in (*told, *map(at_replica, told), *written, *others)),
            *((what, COMMANDS) for what in (clients.SILENT, clients.BACK, at_replica(clients.BACK))),
            *((what, MEMORY) for what in memory),
        )
        if not all(key in of for key in needed):
            return None
        return cls({**of, **{(name(clients.BACK), CPU): _return_cpu(of, name) for name in (str, at_replica)}})

    def line(self, what: str, part: str) -> Line:
        """Return what something costs; a heartbeat without replicas is among the costs of its broker."""
        line = self.of[what, part].line
        return Line(0.0, line.each) if what == replicas.HEARTBEAT else line

    def primary(self, of: Deployment) -> Load:
        """Return what a deployment takes of its primary, which tells the clients if there are no replicas."""
        told = 0 if of.replicas else of.clients
        terms = (
            (brokers.IDLE, of.brokers, 1),
            (clients.IDLE if of.pulses else clients.SILENT, told, 1),
            (clients.CHANGE, told, of.changes_s),
            (clients.BACK, told, of.returns_s),
            *_fed(of),
        )
        return self._load(terms, of, self.line(clients.SERVER, MEMORY).each * told)

    def replica(self, of: Deployment) -> Load:
        """Return what a deployment takes of each replica, which hears all that is written."""
        told = of.clients / of.replicas
        terms = (
            (at_replica(clients.IDLE), told, 1),
            (at_replica(clients.CHANGE), told, of.changes_s),
            (at_replica(clients.BACK), told, of.returns_s),
            (replicas.APPLIED, heartbeats_s(of), 1),
        )
        return self._load(terms, of, self.line(at_replica(clients.SERVER), MEMORY).each * told)

    def relay(self, of: Deployment) -> Load:
        """Return what it takes of a replica that tells no clients, and feeds all the others."""
        return self._load(((replicas.APPLIED, heartbeats_s(of), 1), *_fed(of)), of, 0.0)

    def _load(self, terms: _Terms, of: Deployment, clients_mb: float) -> Load:
        """Add up; every server has all brokers and topics."""

        def total(part: str) -> float:
            return sum(
                times * self.line(what, part).at(count)
                for what, count, times in terms
                if count and times and (what, part) in self.of
            )

        kept = ((brokers.SERVER, of.brokers), (topics.SERVER, of.topics))
        memory_mb = clients_mb + sum(self.line(what, MEMORY).each * count for what, count in kept)
        return Load(total(CPU) / MS, total(COMMANDS), total(SENT), memory_mb)

    def most_clients(self, of: Deployment) -> int:
        """Return how many one server bears within the budget: the primary, or a replica if there are any."""
        server = self.replica if of.replicas else self.primary
        one = replace(of, replicas=min(of.replicas, 1))
        return _most(lambda count: server(replace(one, clients=count)))

    def most_brokers(self) -> int:
        """Return how many brokers' heartbeats a server bears within the budget."""
        return _most(lambda count: self.primary(Deployment(brokers=count)))

    def most_replicas(self, of: Deployment) -> int:
        """Return how many replicas the primary of a deployment feeds within the budget."""
        return _most(lambda count: self.primary(replace(of, replicas=count)))

    def most_of_a_relay(self, of: Deployment) -> int:
        """Return how many replicas a replica feeds within the budget, if it tells no clients."""
        return _most(lambda count: self.relay(replace(of, replicas=count)))

    def replicas(self, of: Deployment) -> int:
        """Return how many replicas the clients need, none of which is over its budget."""
        return ceil(of.clients / max(1, self.most_clients(replace(of, replicas=1))))

    def told_within_s(self, count: int) -> float:
        """Return when the last of so many clients of one server is sent a change."""
        return self.line(clients.CHANGE, CPU).at(count) / MS


def _return_cpu(of: Mapping[tuple[str, str], Cost], name: Callable[[str], str]) -> Cost:
    """Return what the return of a broker takes: it is told twice, as a change is, and read of.

    A command of theirs costs what those of clients cost that hear no pulses, and do nothing but read.
    """
    told, read = of[name(clients.CHANGE), CPU].line, of[name(clients.BACK), COMMANDS].line
    command_ms = of[clients.SILENT, CPU].line.each / of[clients.SILENT, COMMANDS].line.each
    line = Line(*(2 * of_told + command_ms * of_read for of_told, of_read in zip(told, read, strict=True)))
    return Cost(line, ())


def heartbeats_s(of: Deployment) -> float:
    """Return how many heartbeats its brokers send in a second."""
    return of.brokers / brokers.Size().heartbeat_s


def _fed(of: Deployment) -> _Terms:
    """Return what each replica is sent."""
    return (
        (replicas.PULSES, of.replicas, 1),
        (replicas.CHANGE, of.replicas, of.changes_s),
        (replicas.BACK, of.replicas, of.returns_s),
        (replicas.HEARTBEAT, of.replicas, heartbeats_s(of)),
    )


def _most(load: Callable[[int], Load]) -> int:
    """Return how many the budget pays for, if each one costs as much as the others."""
    few, more = (load(count).cpu for count in (1_000, 2_000))
    each = (more - few) / 1_000
    return max(0, int(1_000 + (BUDGET - few) / each))
