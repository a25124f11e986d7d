"""What the broker would register, made from its topics, their queue mappings and its own permission."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from ...registry import QueueMapping
from ..daemon_threads import in_thread
from ..planner.events import TopicsLoaded
from ..rocketmq.topics import TopicTable, effective

_LARGE_TOPICS: Final = 1_000
"""A table of more is made in a thread, so that no heartbeat waits: 100,000 topics take half a second."""


class EffectiveTable:
    """Holds the three, and tells when they make another one; who is cancelled meanwhile was not told."""

    def __init__(self, broker_permission: int) -> None:
        self._permission = broker_permission
        self._table: TopicTable | None = None
        self._mappings: Mapping[str, QueueMapping] = {}
        self._made: TopicTable | None = None
        self._told: tuple[TopicTable, Mapping[str, QueueMapping], int] | None = None
        """What the table was made from that was told last."""

        self._making = asyncio.Lock()

    async def take(self, table: TopicTable, mappings: Mapping[str, QueueMapping]) -> TopicsLoaded | None:
        """Return the table that these make; None = they are the objects that were given before."""
        self._table, self._mappings = table, mappings
        return await self._make()

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Return the table with this permission; None = it is the same, or there is no table yet."""
        self._permission = broker_permission
        return await self._make()

    async def _make(self) -> TopicsLoaded | None:
        """Return the table unless it has been told; it is not to wait before it is told in its turn."""
        async with self._making:
            table, mappings, permission, told = self._table, self._mappings, self._permission, self._told
            if table is None:
                return None
            if told and table is told[0] and mappings is told[1] and permission == told[2]:
                return None
            previous = self._made.topics if self._made else None
            if len(table.topics) > _LARGE_TOPICS:
                made = await in_thread(effective, table, mappings, permission, previous=previous)
            else:
                made = effective(table, mappings, permission, previous=previous)
            self._made, self._told = made, (table, mappings, permission)
            return TopicsLoaded(made)
