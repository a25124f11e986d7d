"""Decides where the topics of a broker are read, and makes of them what the broker would register."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from ...daemon.threads import in_thread_if
from ...registry import DataVersion, InvalidInput, QueueMapping, TopicConfig
from ...registry.model import topic_table
from ..config import AgentConfig, TopicsFrom
from ..planner.events import TopicsLoaded
from ..rocketmq.broker_conf import BrokerConf
from ..rocketmq.topics import TopicTable, effective

_CHOSEN: Final = "as was chosen"
_LARGE_TOPICS: Final = 1_000
"""A larger table is made in a thread, so that no heartbeat waits: 100,000 topics take half a second."""

NO_MAPPINGS: Final[Mapping[str, QueueMapping]] = MappingProxyType({})


def choose(config: AgentConfig, conf: BrokerConf | None = None) -> AgentConfig:
    """Return the config with where the topics are read, and why; `conf` is its broker.conf, if it has one.

    AUTO stays where they are read in the files, and until there are any, asked from the running broker. A
    topics_path that is not the one of the broker.conf was named by the operator, and counts as a file that
    is kept up to date. Raises InvalidInput for what cannot work.
    """

    def chosen(source: TopicsFrom, why: str) -> AgentConfig:
        return replace(config, topics_from=source, topics_why=config.topics_why or why)

    wanted, path = config.topics_from, config.topics_path
    has_files = path is not None or conf is not None
    if wanted is TopicsFrom.PROGRAM or (wanted is TopicsFrom.AUTO and not has_files):
        return chosen(TopicsFrom.PROGRAM, "told by the program that the agent is part of")
    named = conf is not None and path != conf.topics_path
    elsewhere = conf.topics_elsewhere if conf is not None and not named else ""
    if wanted is TopicsFrom.FILES and not has_files:
        raise InvalidInput("topics_from: files: there is no topics_path to read")
    if wanted is TopicsFrom.FILES and elsewhere:
        raise InvalidInput(
            f"topics_from: files: by {elsewhere} this broker keeps its topics in RocksDB, and {path} is not "
            "kept up to date; read them from the broker, or name a file that follows them"
        )
    if wanted is TopicsFrom.BROKER and named:
        raise InvalidInput(f"topics_from: broker: then {path} would not be read; leave one of them out")
    if wanted is not TopicsFrom.AUTO:
        return chosen(wanted, _CHOSEN)
    if elsewhere:
        return chosen(TopicsFrom.BROKER, f"by {elsewhere} it keeps them in RocksDB")
    return chosen(TopicsFrom.AUTO, "as it was named" if named else "the broker keeps its topics in files")


class ReadTopics(NamedTuple):
    """A broker's topics as they were read, and the queue mappings of those that are static."""

    table: TopicTable
    mappings: Mapping[str, QueueMapping]


class TopicSource(Protocol):
    """Follows the topics of one broker."""

    @property
    def trouble(self) -> str:
        """Why not all topics of the broker are known; empty = they are."""
        ...

    def found(self) -> AsyncGenerator[ReadTopics, None]:
        """Yield the topics at each look; the same objects as before = they have not changed.

        Logs what an operator should know. One run at a time.
        """
        ...


class EffectiveTopics:
    """What the broker would register: made from its topics, their queue mappings and its own permission.

    Each table is returned once; one whose caller was cancelled meanwhile was not returned.
    """

    def __init__(self, broker_permission: int) -> None:
        self._permission = broker_permission
        self._read: ReadTopics | None = None
        self._made_of: tuple[TopicTable, Mapping[str, QueueMapping], int] | None = None
        """What the last table was made from."""

        self._effective: TopicTable | None = None
        self._lock = asyncio.Lock()

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Set what the broker as a whole permits from now on; return the table that this makes, if any."""
        self._permission = broker_permission
        return await self._loaded()

    async def read(self, topics: ReadTopics) -> TopicsLoaded | None:
        """Take the topics that a source has yielded; return the table that this makes, if any."""
        self._read = topics
        return await self._loaded()

    async def _loaded(self) -> TopicsLoaded | None:
        # Nothing is awaited between the end of the thread and the return: the table is not lost.
        async with self._lock:
            if self._read is None:
                return None
            made_of = (*self._read, self._permission)
            if made_of == self._made_of:
                return None
            is_large = len(self._read.table.topics) > _LARGE_TOPICS
            made = await in_thread_if(is_large, effective, *made_of, self._effective)
            self._effective, self._made_of = made, made_of
            return TopicsLoaded(made)


class ProgramTopics:
    """Topics from the program that the agent is part of: a broker that knows its own table."""

    trouble = ""
    """Never any: what makes no sense is refused to the program."""

    def __init__(self) -> None:
        self._given: ReadTopics | None = None
        self._changed = asyncio.Event()

    def give(self, topics: Iterable[TopicConfig], version: DataVersion) -> None:
        """Let these be all topics of the broker; raises InvalidInput when one name stands twice."""
        self._given = ReadTopics(TopicTable(topic_table(topics), version), NO_MAPPINGS)
        self._changed.set()

    async def found(self) -> AsyncGenerator[ReadTopics, None]:
        """Yield the topics that were given last, as soon as there are any, and then all others."""
        while True:
            self._changed.clear()
            if self._given is not None:
                yield self._given
            await self._changed.wait()
