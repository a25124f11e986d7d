"""Tells brokers that another replica of their group has the lowest id now."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ..registry import AsyncRouteStore, BrokerData, RegistryError
from ..registry.checks import split_address
from ..registry.model import Change, ChangeKind
from ..remoting import FrameError, RequestCode, request
from ..remoting.broker.client import BrokerCallError, BrokerClient
from .sessions import begin, wait_for_end

_LOG: Final = logging.getLogger("sharedroutes.nameserver")
_DEADLINE_S: Final = 0.3
"""As RocketMQ has it."""


class MinBrokerIds:
    """Follows the lowest id of groups whose slaves may stand in, and tells them when it changes.

    RocketMQ: RouteInfoManager.notifyMinBrokerIdChanged.
    """

    def __init__(self, store: AsyncRouteStore) -> None:
        self._store = store
        self._known: dict[str, BrokerData] = {}
        self._looking = asyncio.Lock()
        """Who looks last knows best: two that look at the same time could note what was seen first."""

        self._tasks: set[asyncio.Task[None]] = set()

    async def look_at_all(self, *, tells: bool) -> None:
        """Learn who is there, and tell what has changed since the last time: changes may have been missed."""
        async with self._looking:
            now = {broker.broker_name: broker for broker in await self._store.brokers()}
            before, self._known = self._known, now
        for name, group in now.items():
            if tells:
                begin(self._tasks, self._compare(before.get(name), group))

    async def aclose(self) -> None:
        """Let go of notices that are under way."""
        await wait_for_end(*self._tasks)

    def changed(self, change: Change, *, tells: bool) -> None:
        """Look at a group of which a replica came or went; `tells` = this front is the one that tells."""
        if change.kind in (ChangeKind.UP, ChangeKind.DOWN):
            begin(self._tasks, self._look(change.broker_name, tells=tells))

    async def _look(self, name: str, *, tells: bool) -> None:
        try:
            async with self._looking:
                now = await self._store.member_group(name)
                before = self._known.pop(name, None)
                if now is not None and now.broker_addrs:
                    self._known[name] = now
        except RegistryError as error:
            _LOG.warning("%s: its group cannot be read: %s", name, error)
            return
        if tells and now is not None:
            await self._compare(before, now)

    async def _compare(self, before: BrokerData | None, now: BrokerData) -> None:
        if before is None or not before.broker_addrs or not now.broker_addrs or not now.enable_acting_master:
            return
        if before.min_broker_id != now.min_broker_id:
            await self._tell(before, now)

    async def _tell(self, before: BrokerData, now: BrokerData) -> None:
        first = now.min_broker_id
        fields = {"minBrokerId": str(first), "minBrokerAddr": now.broker_addrs[first]}
        is_loss = before.min_broker_id not in now.broker_addrs
        if is_loss:
            fields["offlineBrokerAddr"] = before.broker_addrs[before.min_broker_id]
        elif ha_address := await self._ha_address(now.broker_name, first):
            fields["haBrokerAddr"] = ha_address
        everybody = is_loss or len(now.broker_addrs) == 1
        to = [at for of, at in now.broker_addrs.items() if everybody or of != first]
        await asyncio.gather(*(_send(address, fields) for address in to))

    async def _ha_address(self, name: str, broker_id: int) -> str:
        """Return where the others replicate from now; empty = nobody says so."""
        try:
            owner = await self._store.owner(name, broker_id)
        except RegistryError as error:
            _LOG.warning("%s: its address for replication cannot be read: %s", name, error)
            return ""
        return owner.broker.ha_address if owner is not None else ""


async def _send(address: str, fields: dict[str, str]) -> None:
    notice = request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, fields, oneway=True)
    try:
        async with asyncio.timeout(_DEADLINE_S):
            async with await BrokerClient.connect(*split_address(address), deadline_s=_DEADLINE_S) as client:
                await client.send_last(notice)
    except (TimeoutError, BrokerCallError, FrameError) as error:
        _LOG.info("%s: not told of the lowest id of its group: %s", address, error)
