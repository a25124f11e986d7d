"""Decides where the topics of a broker are read, and makes of them what the broker would register."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from ...daemon.threads import in_thread_if
from ...registry import DataVersion, InvalidInput, QueueMapping, TopicConfig
from ...registry.model import topic_table
from ..config import AgentConfig, TopicsFrom
from ..planner.events import Say, TopicsLoaded
from ..rocketmq.broker_conf import BrokerConf
from ..rocketmq.topics import TopicTable, effective

_CHOSEN: Final = "as was chosen"
_LARGE_TOPICS: Final = 1_000
"""A larger table is made in a thread, so that no heartbeat waits: 100,000 topics take half a second."""

NO_MAPPINGS: Final[Mapping[str, QueueMapping]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Choice:
    """Where the topics are read, and why: for the operator.

    AUTO: in the files, and until there are any, from the running broker.
    """

    source: TopicsFrom
    why: str


def choose(config: AgentConfig, conf: BrokerConf | None = None) -> Choice:
    """Return where the topics are read; `conf` is the broker.conf behind the config, if there is one.

    A topics_path that is not the one of the broker.conf was named by the operator, and counts as a file that
    is kept up to date. Raises InvalidInput for what cannot work.
    """
    wanted, path = config.topics_from, config.topics_path
    has_files = path is not None or conf is not None
    if wanted is TopicsFrom.PROGRAM or (wanted is TopicsFrom.AUTO and not has_files):
        return Choice(TopicsFrom.PROGRAM, "told by the program that the agent is part of")
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
        return Choice(wanted, _CHOSEN)
    if elsewhere:
        return Choice(TopicsFrom.BROKER, f"by {elsewhere} it keeps them in RocksDB")
    return Choice(TopicsFrom.AUTO, "as it was named" if named else "the broker keeps its topics in files")


class TopicSource(Protocol):
    """Follows the topics of one broker."""

    @property
    def trouble(self) -> str:
        """Why not all topics of the broker are known; empty = they are."""
        ...

    def found(self) -> AsyncGenerator[TopicsLoaded | Say, None]:
        """Yield the table, then every other one, and what an operator should know; one run at a time."""
        ...

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Set what the broker as a whole permits from now on; return the table that this makes, if any."""
        ...


class EffectiveTopics:
    """What the broker would register: made from its topics, their queue mappings and its own permission.

    Each table is returned once, and a table whose caller was cancelled meanwhile was not.
    """

    def __init__(self, broker_permission: int) -> None:
        self._permission = broker_permission
        self._inputs: tuple[TopicTable, Mapping[str, QueueMapping]] | None = None
        self._returned: tuple[TopicTable, Mapping[str, QueueMapping], int] | None = None
        """What the last table was made from."""

        self._effective: TopicTable | None = None
        self._lock = asyncio.Lock()

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Set what the broker as a whole permits from now on; return the table that this makes, if any."""
        self._permission = broker_permission
        return await self._loaded()

    async def _load(self, table: TopicTable, mappings: Mapping[str, QueueMapping]) -> TopicsLoaded | None:
        """Return the table that these make; None = they are the objects that were given before."""
        self._inputs = table, mappings
        return await self._loaded()

    async def _loaded(self) -> TopicsLoaded | None:
        # Nothing is awaited between the end of the thread and the return: the table is not lost.
        async with self._lock:
            if self._inputs is None:
                return None
            table, mappings, permission = given = *self._inputs, self._permission
            last = self._returned
            if last and table is last[0] and mappings is last[1] and permission == last[2]:
                return None
            is_large = len(table.topics) > _LARGE_TOPICS
            made = await in_thread_if(is_large, effective, table, mappings, permission, self._effective)
            self._effective, self._returned = made, given
            return TopicsLoaded(made)


class ProgramTopics(EffectiveTopics):
    """Topics from the program that the agent is part of: a broker that knows its own table."""

    trouble = ""
    """Never any: what makes no sense is refused to the program."""

    def __init__(self, *, broker_permission: int = 6) -> None:
        super().__init__(broker_permission)
        self._next: TopicTable | None = None
        self._given = asyncio.Event()

    def give(self, topics: Iterable[TopicConfig], version: DataVersion) -> None:
        """Let these be all topics of the broker; raises InvalidInput when one name stands twice."""
        self._next = TopicTable(topic_table(topics), version)
        self._given.set()

    async def found(self) -> AsyncGenerator[TopicsLoaded | Say, None]:
        """Yield the table that was given last, as soon as there is one, and then every other one."""
        while True:
            self._given.clear()
            loaded = await self._load(self._next, NO_MAPPINGS) if self._next is not None else None
            if loaded is not None:
                yield loaded
            await self._given.wait()
