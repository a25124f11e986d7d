"""When a client gives hints and reads those of others, and what follows from them; does not wait."""

from __future__ import annotations

import logging
import os
import random
import socket
from collections.abc import Collection, Mapping
from typing import Final
from uuid import uuid4

from ..registry.change_stream.core import REFUSED_PAUSE_S
from ..registry.errors import RegistryError, StoreRefused
from .faults.memory import FaultMemory
from .hints import HintBook, HintConfig
from .observers import Tell
from .observers.events import BrokersSuspected

_log: Final = logging.getLogger("sharedroutes.client")


class Hinting:
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
        self._suspected: frozenset[str] = frozenset()

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
