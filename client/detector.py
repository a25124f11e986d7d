"""Probes of the brokers that are left alone, in the background (RocketMQ: the detector's thread)."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Awaitable
from itertools import takewhile
from time import monotonic
from typing import Final

from ..registry.checks import check_address, split_address
from ..registry.concurrency import Background
from ..registry.concurrency_async import Background as AsyncBackground
from .core import ClientCore
from .faults.config import TUNING, FaultConfig
from .faults.memory import FaultMemory

_log: Final = logging.getLogger("sharedroutes.client")

_UNREACHABLE: Final = (OSError, UnicodeError)
"""Refused, timed out or without a route; or a host that cannot be a name."""


class Detector:
    """Says which brokers to probe, and when; for one thread or task. Every `now` is in monotonic seconds."""

    def __init__(self, memory: FaultMemory, config: FaultConfig, rng: random.Random | None = None) -> None:
        self._memory = memory
        self._interval_s = config.detect_interval_s
        self._rng = rng or random.Random()
        self._due_at: dict[str, float] = {}
        self._jitter_share = TUNING.jitter_share if config.rules == "sharedroutes" else 0.0

    def due(self, now: float) -> tuple[str, ...]:
        """Return the brokers to probe now, the worst first; each is due again after the interval."""
        blocked = self._memory.verdict(now).blocked
        due_at = {name: self._due_at.get(name, now) for name in blocked}
        due = tuple(name for name in blocked if due_at[name] <= now)
        for name in due:
            due_at[name] = now + self._drawn_s()
        self._due_at = due_at
        return due

    def wait_s(self, now: float) -> float:
        """Return when to ask again: at the next probe, or after an interval for brokers isolated since."""
        return max(0.0, min(self._due_at.values(), default=now + self._drawn_s()) - now)

    def _drawn_s(self) -> float:
        return self._interval_s * (1 + self._jitter_share * self._rng.random())


def detector(core: ClientCore, patience_s: float) -> Background:
    """Return what probes the brokers that are due, one after the other; to be started."""

    def run() -> None:
        brokers = Detector(core.brokers.faults, core.config.faults)
        while not background.is_stopping:
            background.pause(brokers.wait_s(monotonic()))
            for name, address in takewhile(lambda _: not background.is_stopping, _due(core, brokers)):
                core.brokers.probed(name, monotonic(), reachable=_probe(core, address) is True)

    background = Background(run, "sharedroutes-detector", patience_s=patience_s)
    return background


def detector_async(core: ClientCore, patience_s: float) -> AsyncBackground:
    """Return what probes the brokers that are due, all at once; to be started."""

    async def probe(address: str) -> bool:
        # In a thread: one that is no coroutine waits for the network, and the loop must not.
        answer = await asyncio.to_thread(_probe, core, address)
        try:
            return (await answer if isinstance(answer, Awaitable) else answer) is True
        except Exception as error:  # noqa: BLE001 - as in _probe
            return _failed(address, error)

    async def run() -> None:
        brokers = Detector(core.brokers.faults, core.config.faults)
        while not background.is_stopping:
            await background.pause(brokers.wait_s(monotonic()))
            due = _due(core, brokers)
            results = await asyncio.gather(*(probe(address) for _, address in due))
            for (name, _), reachable in zip(due, results, strict=True):
                core.brokers.probed(name, monotonic(), reachable=reachable)

    background = AsyncBackground(run, "sharedroutes-detector", patience_s=patience_s)
    return background


def _due(core: ClientCore, detector: Detector) -> list[tuple[str, str]]:
    """Return the brokers to probe now that have a live master, and its address."""
    found = ((name, core.find_address(name, 0, only_this=True)) for name in detector.due(monotonic()))
    return [(name, address[0]) for name, address in found if address is not None]


def _probe(core: ClientCore, address: str) -> bool | Awaitable[bool]:
    try:
        return (core.config.probe or tcp_probe)(address, core.config.faults.detect_timeout_s)
    except Exception as error:  # noqa: BLE001 - it is the user's; the next broker needs its probe
        return _failed(address, error)


def _failed(address: str, error: Exception) -> bool:
    if not isinstance(error, OSError | EOFError):  # these say what False says
        _log.error("the probe of %s failed", address, exc_info=error)
    return False


def tcp_probe(address: str, timeout_s: float) -> bool:
    """Return whether `host:port` accepts a connection within `timeout_s` seconds.

    The time to resolve a name comes on top. Raises InvalidInput for anything that is no address.
    """
    check_address("address", address)
    try:
        with socket.create_connection(split_address(address), timeout_s):
            return True
    except _UNREACHABLE:
        return False
