"""How brokers do for one client: whom to choose, whom to leave alone, what clients tell each other of it."""

from __future__ import annotations

import random
from collections.abc import Collection, Container, Mapping
from typing import Final, TypeAlias

from ..registry.checks import check_broker_name, several
from ..registry.model import MessageQueue
from .config import ClientConfig
from .errors import NoRoute
from .faults.broker import Result
from .faults.memory import FaultMemory
from .hints import HintBook, own_id
from .observers import Tell
from .observers.events import BrokersSuspected
from .selection import PublishView

NOBODY: Final[frozenset[str]] = frozenset()

Avoid: TypeAlias = str | Collection[str] | None
"""A broker, or several, not to choose if there is another."""


class Brokers:
    """Faults and hints of one client, and the choice of queues by them; thread-safe.

    `known`: the names of brokers in use.
    """

    def __init__(self, config: ClientConfig, known: Container[str], rng: random.Random, tell: Tell) -> None:
        self._config = config
        self._known = known
        self._rng = rng
        self._tell = tell
        self.begin_copy()

    def begin_copy(self) -> None:
        """Know nothing, as in a copy of the process, where locks may be held."""
        config = self._config
        self.faults = FaultMemory(config.faults, self._rng, self._tell)
        self.hints = None if config.hints is None else HintBook(config.hints, own_id(), self._rng)
        self._suspected = NOBODY

    def pick(
        self, topic: str, view: PublishView, avoid: frozenset[str], now: float, key: str | bytes | None = None
    ) -> MessageQueue:
        """Return the queue whose turn it is, or the one of a message group; raises NoRoute without any."""
        if not view.size:
            raise NoRoute(topic, "no live master accepts messages for")
        verdict = self.faults.verdict(now)
        if key is None:
            return view.pick(verdict, avoid, self._rng)
        return view.pick_for(key, verdict, avoid)

    def avoided(self, avoid: str | Collection[str]) -> frozenset[str]:
        """Return the brokers to avoid as a set; raise InvalidInput for what cannot be a broker."""
        names = (avoid,) if isinstance(avoid, str) else several(avoid, "avoid")
        for name in names:
            if name not in self._known:
                check_broker_name(name, "avoid")
        return frozenset(names)

    def is_left_alone(self, broker_name: str, now: float) -> bool:
        """Whether a broker is not chosen if there is another."""
        return not self.faults.quiet and broker_name in self.faults.verdict(now).blocked

    def record(self, broker_name: str, result: Result, now: float) -> None:
        """Take in how an attempt ended; see FaultMemory.record."""
        counts = self.faults.record(broker_name, result, now)
        if self.hints is not None and counts:
            # Who refuses (attempts tell it by `reachable`, as RocketMQ does) has answered.
            answered = not result.failed or result.reachable is not None
            self.hints.ended(broker_name, now, answered=answered)

    def probed(self, broker_name: str, now: float, *, reachable: bool) -> None:
        """Take in how a probe ended."""
        self.faults.probed(broker_name, reachable=reachable, now=now)
        if self.hints is not None:
            self.hints.ended(broker_name, now, answered=reachable)

    def restarted(self, broker_name: str) -> None:
        """Begin with a clean slate for a broker that was started anew."""
        self.faults.forget(broker_name)
        if self.hints is not None:
            self.hints.forget(broker_name)

    def heard(self, hints: Mapping[str, frozenset[str]], in_use: Collection[str], now: float) -> None:
        """Take in what others say, if hints are wanted; nothing when it cannot be read."""
        if self.hints is None:
            return
        suspected = self.hints.offer(hints, in_use, now)
        if suspected != self._suspected:
            self._suspected = suspected
            self.faults.suspect(suspected)
            self._tell(BrokersSuspected(tuple(sorted(suspected))))
