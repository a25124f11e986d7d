"""The state of an agent process as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

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


_BROKER: Final = {**get_type_hints(AgentStatus), "role": str}
PAGE: Final[Mapping[str, Any]] = {
    "version": str,
    "uptime_s": float,
    "healthy": bool,
    "ready": bool,
    "store": {"url": str, "namespace": str},
    "sweep": {"clock_problem": str | None},
    "awaited": tuple[str, ...],
    "brokers": [_BROKER],
}
"""The types of what as_json() returns; a list has any number of what stands in it."""


def as_json(status: ProcessStatus) -> dict[str, object]:
    """Return everything that is known: for each broker, every field of its agent's status."""
    return {
        "version": status.version,
        "uptime_s": round(status.uptime_s, 3),
        "healthy": not status.unhealthy,
        "ready": not status.unready,
        "store": {"url": status.store, "namespace": status.namespace},
        "sweep": {"clock_problem": status.clock_problem},
        "awaited": status.awaited,
        "brokers": [{name: getattr(one, name) for name in _BROKER} for one in status.brokers],
    }
