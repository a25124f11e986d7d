"""Topics from the broker's files, and from the running broker as long as it has not written any."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TypeAlias

from ...registry.concurrency_async import end
from ..planner.events import Say, TopicsLoaded
from .files import FileTopics
from .remote import RemoteTopics

_Found: TypeAlias = TopicsLoaded | Say


class FreshTopics:
    """Follows the topics of a broker that keeps them in files, from its very first start on.

    RocketMQ writes topics.json with the first topic that somebody creates. Until then the broker has its
    system topics, and whoever would create the first topic has to find it.
    """

    def __init__(self, topics_path: Path, files: FileTopics, remote: RemoteTopics) -> None:
        self._path = topics_path
        self._files = files
        self._remote = remote
        self._asked = False
        """Whether the table that was told last is one that the broker told itself."""

    @property
    def asks(self) -> bool:
        """Whether the broker is asked at the moment: there is no file, and there never was one."""
        return self._files.absent.is_set() and not self._files.present.is_set()

    @property
    def trouble(self) -> str:
        """Why not all topics of the broker are told; empty = they are."""
        return self._remote.trouble if self.asks else self._files.trouble

    async def found(self) -> AsyncGenerator[_Found, None]:
        """Yield the table as soon as there is one, then every other one, and what is wrong."""
        found: asyncio.Queue[_Found | None] = asyncio.Queue()
        tasks = [asyncio.create_task(work(found)) for work in (self._follow, self._ask)]
        for task in tasks:
            task.add_done_callback(lambda _: found.put_nowait(None))
        try:
            while True:
                one = await found.get()
                if one is not None:
                    yield one
                for task in tasks:
                    if task.done():
                        task.result()  # raises what has ended it
        finally:
            await end(*tasks)

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Go on with what the broker as a whole permits now; return the table that this makes, if any."""
        if not self.asks:
            await self._remote.permit(broker_permission)
            return await self._files.permit(broker_permission)
        await self._files.permit(broker_permission)
        by_broker = await self._remote.permit(broker_permission)
        # Meanwhile the file may have come, and told more.
        return None if self._files.present.is_set() else by_broker

    async def _follow(self, found: asyncio.Queue[_Found | None]) -> None:
        async with aclosing(self._files.found()) as in_files:
            async for one in in_files:
                if self._asked and isinstance(one, TopicsLoaded):
                    self._asked = False
                    text = f"{self._path}: is there now, and from here on the topics are read there"
                    found.put_nowait(Say(logging.INFO, text))
                found.put_nowait(one)

    async def _ask(self, found: asyncio.Queue[_Found | None]) -> None:
        """Ask the broker from when it is known that there is no file until there is one."""
        await self._files.absent.wait()
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask_on(found))
            await self._files.present.wait()
            asking.cancel()

    async def _ask_on(self, found: asyncio.Queue[_Found | None]) -> None:
        async with aclosing(self._remote.found()) as told:
            async for one in told:
                if not self.asks:  # what the file says has been told, perhaps
                    return
                if isinstance(one, TopicsLoaded) and not self._asked:
                    self._asked = self._files.absence_is_usual = True
                    text = f"{self._path}: is not there yet; until it is, the broker tells its topics itself"
                    found.put_nowait(Say(logging.INFO, text))
                found.put_nowait(one)
