"""Takes part in the sweep: of all agents of a registry, one at a time makes the end of leases known."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from typing import Final

from ..registry import AsyncRouteStore, CorruptData, RegistryConfig, RegistryError, Sweep

__all__ = ["pause_s", "sweep_on"]

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")

_SHORTEST_S: Final = 0.02
"""Between two sweeps, whatever is due: a foreign key, which cannot be swept, must not keep us busy."""

_PART_OF_LEASE: Final = 0.6
"""The sweeper calls again after this part of its lease, so that it keeps it."""


def pause_s(sweep: Sweep | None, config: RegistryConfig, rng: random.Random) -> float:
    """Return the seconds until the next sweep; None = the store did not answer.

    The sweeper sleeps until the next lease can end. The others only look, about three times in the TTL of a
    lease, whether it is still there: a lease that ends with the sweeper's host lives longer than that.
    """
    if sweep is None or sweep.held:
        return config.lease_ttl_s * rng.uniform(0.2, 0.4)
    longest_s = config.sweeper_lease_s * _PART_OF_LEASE
    if sweep.wait_s is None:
        return longest_s
    return min(max(sweep.wait_s, _SHORTEST_S), longest_s)


async def sweep_on(store: AsyncRouteStore, rng: random.Random) -> None:
    """Sweep until cancelled, whatever the store answers."""
    holder = f"{socket.gethostname()}:{os.getpid()}:{rng.getrandbits(32):08x}"
    reported: set[str] = set()
    while True:
        try:
            sweep = await store.sweep(holder)
        except CorruptData as foreign:
            sweep = Sweep(held=True, wait_s=None, corrupt=(foreign,))
        except RegistryError:  # for the heartbeats to tell
            sweep = None
        for name, broker_id in sweep.expired if sweep else ():
            _LOG.info("%s:%s: its lease has ended, clients are told so", name, broker_id)
        for error in sweep.corrupt if sweep else ():
            if error.key not in reported:
                reported.add(error.key)
                _LOG.error("the end of a lease cannot be announced: %s", error)
        await asyncio.sleep(pause_s(sweep, store.config, rng))
