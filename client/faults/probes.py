"""Probes of the brokers that are left alone (RocketMQ: the detector's thread)."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from ...registry.checks import check_address, split_address
from .config import TUNING, FaultConfig
from .memory import FaultMemory

Probe: TypeAlias = Callable[[str, float], bool | Awaitable[bool]]
"""Returns whether a broker can be reached at `host:port` within so many seconds; asyncio may await it."""

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

    def next_due(self, now: float) -> float:
        """Return when to ask again: at the next probe, or after an interval for brokers isolated since."""
        return min(self._due_at.values(), default=now + self._drawn_s())

    def _drawn_s(self) -> float:
        return self._interval_s * (1 + self._jitter_share * self._rng.random())


def tcp_probe(address: str, timeout_s: float) -> bool:
    """Return whether `host:port` accepts a connection within `timeout_s` seconds.

    The time to resolve a name comes on top. Raises InvalidInput for anything that is no address.
    """
    try:
        with socket.create_connection(_host_and_port(address), timeout_s):
            return True
    except _UNREACHABLE:
        return False


async def async_tcp_probe(address: str, timeout_s: float) -> bool:
    """Return the same as tcp_probe, without blocking the event loop."""
    host, port = _host_and_port(address)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except _UNREACHABLE:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


def _host_and_port(address: str) -> tuple[str, int]:
    check_address("address", address)
    return split_address(address)
