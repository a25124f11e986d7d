"""Where the topics of a broker come from: its files, the running broker, or the program around the agent."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from ..planner.events import Say, TopicsLoaded
from .choosing import Choice, choose
from .files import FileTopics
from .fresh import FreshTopics
from .program import ProgramTopics
from .remote import RemoteTopics

__all__ = ["Choice", "FileTopics", "FreshTopics", "ProgramTopics", "RemoteTopics", "TopicSource", "choose"]


class TopicSource(Protocol):
    """Follows the topics of one broker."""

    @property
    def trouble(self) -> str:
        """Why not all topics of the broker are told; empty = they are."""
        ...

    def found(self) -> AsyncGenerator[TopicsLoaded | Say, None]:
        """Yield the table, then every other one, and what an operator should know; run it once at a time."""
        ...

    async def permit(self, broker_permission: int) -> TopicsLoaded | None:
        """Go on with what the broker as a whole permits now; return the table that this makes, if any."""
        ...
