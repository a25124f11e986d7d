"""The state of an agent process as a value."""

from __future__ import annotations

from dataclasses import dataclass

from ..planner.status import AgentStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """The process at one moment."""

    version: str
    uptime_s: float
    store: str
    """The URL, without passwords."""

    namespace: str
    clock_problem: str | None
    """What is wrong with the clock of the store's server; None = nothing, or this process does not sweep."""

    brokers: tuple[AgentStatus, ...]
    awaited: tuple[str, ...] = ()
    """Why brokers have no agent yet: a sentence for each."""

    @property
    def unhealthy(self) -> tuple[str, ...]:
        """Why the process should be restarted; empty = it works."""
        return tuple(one.stuck for one in self.brokers if one.stuck)

    @property
    def unready(self) -> tuple[str, ...]:
        """Why not every broker is ready; empty = every one is."""
        return (*(one.unready for one in self.brokers if one.unready), *self.awaited)
