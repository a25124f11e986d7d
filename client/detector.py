"""Probes brokers that are left alone in the background (RocketMQ: the detector's thread)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from itertools import takewhile
from time import monotonic
from typing import Final

from ..registry.concurrency import Background
from ..registry.concurrency_async import Background as AsyncBackground
from .core import ClientCore
from .faults.probes import Detector, async_tcp_probe, tcp_probe

_log: Final = logging.getLogger("sharedroutes.client")


def detector(core: ClientCore, patience_s: float) -> Background:
    """Return what probes the brokers that are due, one after the other; to be started."""

    def run() -> None:
        brokers = Detector(core.brokers.faults, core.config.faults)
        while not background.is_stopping:
            background.pause(max(0.0, brokers.next_due(monotonic()) - monotonic()))
            for name, address in takewhile(lambda _: not background.is_stopping, _due(core, brokers)):
                core.brokers.probed(name, monotonic(), reachable=_probe(core, address))

    background = Background(run, "sharedroutes-detector", patience_s=patience_s)
    return background


def detector_async(core: ClientCore, patience_s: float) -> AsyncBackground:
    """Return what probes the brokers that are due, all at once; to be started."""

    async def run() -> None:
        brokers = Detector(core.brokers.faults, core.config.faults)
        while not background.is_stopping:
            await background.pause(max(0.0, brokers.next_due(monotonic()) - monotonic()))
            due = _due(core, brokers)
            results = await asyncio.gather(*(_probe_async(core, address) for _, address in due))
            for (name, _), reachable in zip(due, results, strict=True):
                core.brokers.probed(name, monotonic(), reachable=reachable)

    background = AsyncBackground(run, "sharedroutes-detector", patience_s=patience_s)
    return background


def _due(core: ClientCore, detector: Detector) -> list[tuple[str, str]]:
    """Return the brokers to probe now that have a live master, and its address."""
    found = ((name, core.find_address(name, 0, only_this=True)) for name in detector.due(monotonic()))
    return [(name, address[0]) for name, address in found if address is not None]


def _probe(core: ClientCore, address: str) -> bool:
    try:
        return (core.config.probe or tcp_probe)(address, core.config.faults.detect_timeout_s) is True
    except Exception as error:  # noqa: BLE001 - it is the user's; the next broker needs its probe
        return _failed(address, error)


async def _probe_async(core: ClientCore, address: str) -> bool:
    timeout_s, probe = core.config.faults.detect_timeout_s, core.config.probe
    try:
        if probe is None:
            return await async_tcp_probe(address, timeout_s)
        # In a thread: one that is no coroutine waits for the network, and the loop must not.
        answer = await asyncio.to_thread(probe, address, timeout_s)
        return (await answer if isinstance(answer, Awaitable) else answer) is True
    except Exception as error:  # noqa: BLE001 - it is the user's; the next broker needs its probe
        return _failed(address, error)


def _failed(address: str, error: Exception) -> bool:
    if not isinstance(error, OSError | EOFError):  # these say what False says
        _log.error("the probe of %s failed", address, exc_info=error)
    return False
