"""How much a server bears, by what each broker, client, topic and change costs it; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final, Self

from . import brokers, clients, topics
from .costs import COMMANDS, CPU, MEMORY, SENT, Cost, Line

MS: Final = 1_000.0
"""What one thread has in a second."""

BUDGET: Final = 0.5
"""The part of a thread that is to be used at most: the rest is for what comes at once."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is asked of a registry, and of how many servers."""

    brokers: int
    topics: int
    clients: int
    changes_s: float = 0.0
    """Topics that change in a second."""

    returns_s: float = 0.0
    """Brokers that leave and come back in a second."""

    pulses: bool = True


@dataclass(frozen=True, slots=True)
class Load:
    """What it takes of one server."""

    cpu: float
    """The part of its one thread: above 1, it cannot."""

    commands_s: float
    sent_b_s: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Prices:
    """What was measured, as lines."""

    of: Mapping[tuple[str, str], Cost]

    @classmethod
    def complete(cls, of: Mapping[tuple[str, str], Cost]) -> Self | None:
        """Return the prices; None if something was not measured."""
        needed = (
            *((what, CPU) for what in (clients.IDLE, clients.SILENT, clients.CHANGE, clients.BACK)),
            *((what, MEMORY) for what in (clients.SERVER, brokers.SERVER, topics.SERVER)),
            (brokers.IDLE, CPU),
            (topics.REGISTERED, CPU),
        )
        return cls(of) if all(key in of for key in needed) else None

    def line(self, what: str, part: str) -> Line:
        """Return what something costs."""
        return self.of[what, part].line

    def load(self, of: Deployment) -> Load:
        """Return what a deployment takes of one server that does it all."""
        idle = clients.IDLE if of.pulses else clients.SILENT
        parts = (
            (idle, 1.0, of.clients),
            (clients.CHANGE, of.changes_s, of.clients),
            (clients.BACK, of.returns_s, of.clients),
            (brokers.IDLE, 1.0, of.brokers),
        )

        def total(part: str) -> float:
            return sum(
                times * self.line(what, part).at(count)
                for what, times, count in parts
                if count and times and (what, part) in self.of
            )

        memory_mb = sum(
            self.line(what, MEMORY).each * count
            for what, count in (
                (clients.SERVER, of.clients),
                (brokers.SERVER, of.brokers),
                (topics.SERVER, of.topics),
            )
        )
        return Load(total(CPU) / MS, total(COMMANDS), total(SENT), memory_mb)

    def most_clients(self, *, changes_s: float = 0.0, returns_s: float = 0.0, pulses: bool = True) -> int:
        """Return how many clients a server bears within the budget that has nothing else to do."""
        idle = self.line(clients.IDLE if pulses else clients.SILENT, CPU)
        change, back = self.line(clients.CHANGE, CPU), self.line(clients.BACK, CPU)
        base = max(0.0, changes_s * change.base + returns_s * back.base)
        each = idle.each + changes_s * change.each + returns_s * back.each
        return max(0, int((BUDGET * MS - base) / each))

    def most_brokers(self) -> int:
        """Return how many brokers' heartbeats a server bears within the budget."""
        return int(BUDGET * MS / self.line(brokers.IDLE, CPU).each)

    def most_changes(self, count: int) -> float:
        """Return how many changes a second a server bears within the budget, beside so many clients."""
        idle = self.line(clients.IDLE, CPU)
        rest = BUDGET * MS - idle.each * count
        return max(0.0, rest / self.line(clients.CHANGE, CPU).at(count))

    def servers(self, count: int, *, changes_s: float = 0.0, returns_s: float = 0.0) -> int:
        """Return how many replicas so many clients need, if each reads at one of them."""
        return ceil(count / max(1, self.most_clients(changes_s=changes_s, returns_s=returns_s)))

    def told_within_s(self, count: int) -> float:
        """Return when the last of so many clients of one server is sent a change."""
        return self.line(clients.CHANGE, CPU).at(count) / MS
