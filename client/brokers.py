"""How brokers do for one client: whom to choose, whom to leave alone, what clients tell each other of it."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Collection, Container, Mapping
from typing import Final, TypeAlias
from uuid import uuid4

from ..registry.change_stream.stream import REFUSED_PAUSE_S
from ..registry.checks import check_broker_name, several
from ..registry.errors import RegistryError, StoreRefused
from ..registry.model import MessageQueue
from .config import ClientConfig
from .errors import NoRoute
from .faults.memory import FaultMemory
from .hints import HintBook, HintConfig
from .observers import Tell
from .observers.events import BrokersSuspected
from .selection import PublishView

_log: Final = logging.getLogger("sharedroutes.client")

NOBODY: Final[frozenset[str]] = frozenset()

Avoid: TypeAlias = str | Collection[str] | None
"""A broker, or several, not to choose if there is another."""


class FleetHints:
    """One client's part in the fleet's hints; every `now` is in seconds of the monotonic clock."""

    def __init__(self, config: HintConfig, faults: FaultMemory, tell: Tell, rng: random.Random) -> None:
        self.client_id = f"{socket.gethostname()}@{os.getpid()}@{uuid4().hex}".replace(" ", "-")
        self._book = HintBook(config, self.client_id, rng)
        self.ttl_s = self._book.ttl_s
        self._faults = faults
        self._tell = tell
        self._rng = rng
        self._read_at = 0.0
        self._refused_until = 0.0
        self._suspected = NOBODY

    def ended(self, broker_name: str, now: float, *, answered: bool) -> None:
        """Take in how an attempt or a probe ended: with an answer, whatever it said, or without."""
        if answered:
            self._book.succeeded(broker_name, now)
        else:
            self._book.failed(broker_name, now)

    def restarted(self, broker_name: str) -> None:
        """Begin anew with a broker that was started anew."""
        self._book.forget(broker_name)

    def to_tell(self, now: float) -> tuple[str, ...] | None:
        """Return all brokers to name in the registry now; None = say nothing now."""
        return None if now < self._refused_until else self._book.due(now)

    def to_read(self, now: float, every_s: float) -> bool:
        """Whether to read now what others say; it counts as read."""
        if now < self._read_at:
            return False
        self._read_at = now + every_s * self._rng.uniform(1.0, 1.5)
        return True

    def heard(self, hints: Mapping[str, frozenset[str]], in_use: Collection[str], now: float) -> None:
        """Take in what others say; nothing when it cannot be read."""
        suspected = self._book.offer(hints, in_use, now)
        if suspected != self._suspected:
            self._suspected = suspected
            self._faults.suspect(suspected)
            self._tell(BrokersSuspected(tuple(sorted(suspected))))

    def failed(self, error: RegistryError, now: float) -> None:
        """The store did not take a hint, which concerns nothing else: a later one makes up for it."""
        if isinstance(error, StoreRefused):
            if self._refused_until == 0:
                _log.warning("the store takes no hints from this user: %s", error)
            self._refused_until = now + REFUSED_PAUSE_S


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
        self.hints: FleetHints | None = None
        if config.hints is not None:
            self.hints = FleetHints(config.hints, self.faults, self._tell, self._rng)

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

    def record(
        self,
        broker_name: str,
        latency_s: float,
        now: float,
        *,
        failed: bool,
        reachable: bool | None,
        generation: int | None,
    ) -> None:
        """Take in how an attempt ended; see FaultMemory.record."""
        counts = self.faults.record(
            broker_name, latency_s, failed=failed, now=now, reachable=reachable, generation=generation
        )
        if self.hints is not None and counts:
            # Who refuses (attempts tell it by `reachable`, as RocketMQ does) has answered.
            self.hints.ended(broker_name, now, answered=not failed or reachable is not None)

    def probed(self, broker_name: str, now: float, *, reachable: bool) -> None:
        """Take in how a probe ended."""
        self.faults.probed(broker_name, reachable=reachable, now=now)
        if self.hints is not None:
            self.hints.ended(broker_name, now, answered=reachable)

    def restarted(self, broker_name: str) -> None:
        """Begin with a clean slate for a broker that was started anew."""
        self.faults.forget(broker_name)
        if self.hints is not None:
            self.hints.restarted(broker_name)
