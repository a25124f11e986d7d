"""Topics from the files that the broker writes: topics.json, topicQueueMapping.json, and the .bak of each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from types import MappingProxyType
from typing import Final, ParamSpec, TypeVar

from ...registry import DataVersion, QueueMapping
from ..daemon_threads import in_thread
from ..memory import give_back
from ..planner.events import Say, TopicsLoaded
from ..rocketmq import queue_mapping, topics
from ..rocketmq.queue_mapping import MappingTable
from ..rocketmq.topics import LARGE_BYTES, TopicTable
from . import file_watch
from .effective import EffectiveTable
from .file_state import FileKeeper

MAPPING_FILE: Final = "topicQueueMapping.json"
"""Stands beside topics.json, once the broker has had a static topic."""

_NO_MAPPINGS: Final[Mapping[str, QueueMapping]] = MappingProxyType({})

T = TypeVar("T")
P = ParamSpec("P")


class TopicsFile:
    """A topics.json."""

    missing = "the file is missing; a broker writes it with its first topic"
    without = "the broker is registered as soon as one of them can be read"

    def parse(self, content: bytes | memoryview, previous: TopicTable | None) -> TopicTable:
        """Return the topics; raises TopicsInvalid."""
        return topics.parse(content, previous=previous.topics if previous else None)

    def version(self, table: TopicTable) -> DataVersion:
        """Return the version of the topics."""
        return table.version

    def name(self, table: TopicTable) -> str:
        """Return how many there are."""
        return f"the {len(table.topics)} topics"

    def odd(self, table: TopicTable) -> tuple[str, ...]:
        """Return what is wrong with single topics."""
        return table.odd


class MappingFile:
    """A topicQueueMapping.json."""

    missing = "the file is missing"
    without = "static topics are registered without their queue mapping until one of them can be read"

    def parse(self, content: bytes | memoryview, previous: MappingTable | None) -> MappingTable:
        """Return the queue mappings; raises TopicsInvalid."""
        return queue_mapping.parse(content, previous=previous.mappings if previous else None)

    def version(self, table: MappingTable) -> DataVersion:
        """Return the version of the mappings."""
        return table.version

    def name(self, table: MappingTable) -> str:
        """Return how many there are."""
        return f"the {len(table.mappings)} queue mappings"

    def odd(self, table: MappingTable) -> tuple[str, ...]:  # noqa: ARG002 - a file's mappings are read all or none
        """Return nothing: a static topic without its mapping would be taken for another one."""
        return ()


class FileTopics:
    """Follows the topics of a broker by its files."""

    def __init__(self, topics_path: Path, *, broker_permission: int = 6, recheck_s: float = 1.0) -> None:
        self._paths = (topics_path, topics_path.with_name(MAPPING_FILE))
        self._recheck_s = recheck_s
        self._topics = FileKeeper(str(self._paths[0]), TopicsFile())
        self._mappings = FileKeeper(str(self._paths[1]), MappingFile())
        self._none: Mapping[str, QueueMapping] | None = None
        self._table = EffectiveTable(broker_permission)
        self._lock = threading.Lock()
        self.absent = asyncio.Event()
        """Set when it is known that the broker has written no topics: there is no topics.json, no .bak."""

        self.present = asyncio.Event()
        """Set when there has been one of them, or nobody can say."""

        self.absence_is_usual = False
        """Somebody else tells the topics until there is a file; then it is not reported as missing."""

    @property
    def trouble(self) -> str:
        """Why not all that the files hold is told; empty = it is."""
        return "; ".join(filter(None, (self._topics.trouble, self._mappings.trouble)))

    async def found(self) -> AsyncGenerator[TopicsLoaded | Say, None]:
        """Yield the table as soon as there is one, then every other one, and what is wrong with the files."""
        async with aclosing(file_watch.looks(self._paths, recheck_s=self._recheck_s)) as looks:
            async for in_topics, in_mappings in looks:
                await self._note_presence(in_topics)
                if self.present.is_set() or not self.absence_is_usual:
                    for said in await self._offer(self._topics, in_topics, self._paths[0]):
                        yield said
                for said in await self._offer_mappings(in_mappings):
                    yield said
                loaded = await self._loaded()
                if loaded is not None:
                    yield loaded

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Go on with what the broker as a whole permits now; return the table that this makes, if any."""
        return await self._table.permit(broker_permission)

    async def _note_presence(self, in_topics: file_watch.Content | None) -> None:
        if in_topics is None or self.present.is_set():
            return
        missing = isinstance(in_topics, FileNotFoundError)
        if missing and not await file_watch.is_there(_backup(self._paths[0])):
            self.absent.set()
        else:
            self.present.set()

    async def _offer_mappings(self, content: file_watch.Content | None) -> list[Say]:
        """Take the mapping file; that there is none is normal, as long as there never was one."""
        path = self._paths[1]
        none_yet = self._mappings.table is None and isinstance(content, FileNotFoundError)
        if none_yet and isinstance(await file_watch.read(_backup(path)), FileNotFoundError):
            self._none = _NO_MAPPINGS
            return []
        said = await self._offer(self._mappings, content, path)
        if said and self._mappings.table is None:  # neither of the files is good, and that has been reported
            self._none = _NO_MAPPINGS
        return said

    async def _offer(
        self, keeper: FileKeeper[T], content: file_watch.Content | None, path: Path
    ) -> list[Say]:
        """Let the keeper have what the file holds, and its .bak when it wants that; return what it says."""
        clock = asyncio.get_running_loop().time
        said: list[Say] = []
        if not isinstance(content, OSError | None) and len(content) > LARGE_BYTES:
            said += await in_thread(self._alone, keeper.offer, content, clock())
            give_back()
        elif content is not None:
            said += await self._offer_small(keeper, content, clock())
        if keeper.wants_backup(clock()):
            backup = await file_watch.read(_backup(path))
            said += await in_thread(self._alone, keeper.offer_backup, backup)
        return said

    async def _offer_small(self, keeper: FileKeeper[T], content: file_watch.Content, now: float) -> list[Say]:
        """Offer at once if no other thread does, else wait for that one in a thread."""
        if not self._lock.acquire(blocking=False):
            return await in_thread(self._alone, keeper.offer, content, now)
        try:
            return keeper.offer(content, now)
        finally:
            self._lock.release()

    def _alone(self, offer: Callable[P, list[Say]], *args: P.args, **kwargs: P.kwargs) -> list[Say]:
        """Offer while no other thread does: one whose `found` was cancelled may not be done yet."""
        with self._lock:
            return offer(*args, **kwargs)

    async def _loaded(self) -> TopicsLoaded | None:
        table, mapped = self._topics.table, self._mappings.table
        mappings = mapped.mappings if mapped else self._none
        # Until it is known which topics are static, none is told: they would be taken for other ones.
        return None if table is None or mappings is None else await self._table.take(table, mappings)


def _backup(path: Path) -> Path:
    return path.with_name(path.name + ".bak")
