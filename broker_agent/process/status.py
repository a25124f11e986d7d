"""What is served: the state of the process as a value, and what can be done to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..planner.status import AgentStatus, Phase
from ..roles.master import Master

READY = frozenset((Phase.SERVING, Phase.HANDING_OVER, Phase.STANDBY))
"""Phases in which an agent does what it is there for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker's agent, and where it has its knowledge from."""

    agent: AgentStatus
    source: str
    """Where the topics come from, and why."""

    advice: str
    """What is wrong with the address that clients are told; empty = nothing was found."""

    source_trouble: str = ""
    """Why not all topics of the broker, or not its settings, can be read; empty = they can."""

    hang_check: str = ""
    """Whether the broker is asked if it works, and why not."""

    stuck: str = ""
    """Why this agent counts as not working any more; empty = it makes progress."""

    master: Master | None = None
    """Where the master of a slave is; None = the broker is none, or nobody has answered yet."""

    @property
    def role(self) -> str:
        """What the broker is in its group: master, slave, or unknown."""
        broker = self.agent.broker
        if broker is None:
            return "unknown"
        return "slave" if broker.broker_id else "master"

    @property
    def unready(self) -> str:
        """Why the broker is not ready; empty = it is."""
        if self.agent.phase in READY:
            return ""
        why = self.agent.why_gone if self.agent.phase is Phase.BROKER_GONE else self.agent.trouble
        return f"{self.agent.name}: {self.agent.phase}" + (f": {why}" if why else "")


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

    brokers: tuple[BrokerStatus, ...]
    awaited: tuple[str, ...] = ()
    """Why brokers have no agent yet: a sentence for each."""

    @property
    def unhealthy(self) -> tuple[str, ...]:
        """Why the process should be started anew; empty = it works."""
        return tuple(broker.stuck for broker in self.brokers if broker.stuck)

    @property
    def unready(self) -> tuple[str, ...]:
        """Why not every broker is ready; empty = every one is."""
        return (*(broker.unready for broker in self.brokers if broker.unready), *self.awaited)


class Process(Protocol):
    """What HTTP may ask of the process; `broker` is its name, with or without `:id`; empty = all of them.

    The controls return the names of those they meant; raise NotFound when nobody has that name.
    """

    def status(self) -> ProcessStatus:
        """Return the state of the process."""

    def drain(self, broker: str = "", wait_s: float | None = None) -> Sequence[str]:
        """Take the write permission away, wait, and take the broker out of the registry."""

    def pause(self, broker: str = "") -> Sequence[str]:
        """Take the broker out of the registry at once."""

    def resume(self, broker: str = "") -> Sequence[str]:
        """Let the broker come back."""

    async def reload(self) -> Sequence[str]:
        """Read all files anew; return the problems, and what needs a restart."""
