"""Topics from the program that the agent is part of: a broker that knows its own table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ...registry import DataVersion, QueueMapping, TopicConfig
from ...registry.model import topic_table
from ..planner.events import Say, TopicsLoaded
from ..rocketmq.topics import TopicTable
from .effective import EffectiveTable

_NO_MAPPINGS: Final[Mapping[str, QueueMapping]] = MappingProxyType({})


class ProgramTopics:
    """Takes tables and hands the last one on."""

    def __init__(self, *, broker_permission: int = 6) -> None:
        self._table = EffectiveTable(broker_permission)
        self._next: TopicTable | None = None
        self._given = asyncio.Event()
        self.trouble = ""
        """Never any: what makes no sense is refused to the program."""

    def give(self, topics: Iterable[TopicConfig], version: DataVersion) -> None:
        """Let these be all topics of the broker; raises InvalidInput when one name stands twice."""
        self._next = TopicTable(topic_table(topics), version)
        self._given.set()

    async def found(self) -> AsyncGenerator[TopicsLoaded | Say, None]:
        """Yield the table that was given last, as soon as there is one, and then every other one."""
        while True:
            self._given.clear()
            loaded = await self._table.take(self._next, _NO_MAPPINGS) if self._next is not None else None
            if loaded is not None:
                yield loaded
            await self._given.wait()

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Go on with what the broker as a whole permits now; return the table that this makes, if any."""
        return await self._table.permit(broker_permission)
