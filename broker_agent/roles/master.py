"""Finds out for a slave where its master is (RocketMQ: the answer to REGISTER_BROKER)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ...registry import MASTER_ID, AsyncRouteStore, Broker, RegistryError
from ..doorbells import bells_of, tells_of_a_master

_LOG: Final = logging.getLogger("sharedroutes.broker_agent")
_RETRY_S: Final = 5.0


class Master(NamedTuple):
    """Where the live master of a group is; empty = there is none."""

    address: str = ""
    """RocketMQ: masterAddr."""

    ha_address: str = ""
    """From where it replicates (RocketMQ: haServerAddr)."""


class MasterFollower:
    """Follows the master of one broker while that is a slave, and calls `notify` with each change.

    The store is asked once whenever the doorbell rings for the group, and when the doorbell is connected
    anew: an agent costs nothing while nothing changes. Each question begins after the ring, so the last
    answer is never older than the last change. A store that does not answer takes no master away.
    """

    def __init__(self, notify: Callable[[Broker, Master], None]) -> None:
        self.known: Master | None = None
        """None = the broker is no slave, or the store has not answered yet."""

        self._notify = notify
        self._broker: Broker | None = None
        self._ask = asyncio.Event()

    def note_role(self, broker: Broker | None, store: AsyncRouteStore) -> None:
        """Note what the broker is now; None = that is not known, and the master stays."""
        if broker is None or broker == self._broker:
            return
        before, self._broker = self._broker, broker
        if _is_slave(broker):
            self._ask.set()
            bells_of(store).join(store, self, broker.broker_name, self._ask.set, tells_of_a_master)
        elif _is_slave(before):
            self._ask.set()

    async def run(self, store: AsyncRouteStore) -> None:
        """Ask the store when it is time, until cancelled."""
        try:
            while True:
                await self._ask.wait()
                self._ask.clear()
                await self._look_up(store)
        finally:
            await bells_of(store).leave(self)

    async def _look_up(self, store: AsyncRouteStore) -> None:
        broker = self._broker
        if broker is None or not _is_slave(broker):
            if broker is not None and self.known:  # promoted: it follows nobody
                self._notify(broker, Master())
            self.known = None
            await bells_of(store).leave(self)
            return
        try:
            found = await store.owner(broker.broker_name)
        except RegistryError as error:
            _LOG.debug("%s: its master is not known now: %s", broker.broker_name, error)
            asyncio.get_running_loop().call_later(_RETRY_S, self._ask.set)
            return
        master = Master(found.broker.address, found.broker.ha_address) if found is not None else Master()
        if master != self.known and broker == self._broker:
            self.known = master
            where = f"{master.address}, HA {master.ha_address}" if master.address else "not there"
            _LOG.info("%s:%s: its master is %s", broker.broker_name, broker.broker_id, where)
            self._notify(broker, master)


def _is_slave(broker: Broker | None) -> bool:
    return broker is not None and broker.broker_id != MASTER_ID
