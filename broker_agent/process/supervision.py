"""Whether the agents of the process make progress."""

from __future__ import annotations

from typing import Final, NamedTuple

from ..planner.status import AgentStatus, Phase

_WORKING: Final = frozenset((Phase.SERVING, Phase.HANDING_OVER, Phase.REGISTERING))
"""Phases in which an agent calls the store again and again, or has tried to."""

_CALLS: Final = 6
_PATIENCE_S: Final = 60.0
"""One registration may take hundreds of calls, of which the counters show the last."""


class _Look(NamedTuple):
    calls: tuple[int, ...]
    unchanged_s: float


class Progress:
    """Finds the agents that should have called the store, and have not for too long.

    Only time between two looks counts that are no more than `longest_s` apart: a process that was stopped, or
    whose machine slept, is given time to go on.
    """

    def __init__(self, *, longest_s: float = 5.0, patience_s: float = _PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._longest_s = longest_s
        self._seen: dict[str, _Look] = {}
        self._at_s: float | None = None
        self._stuck: dict[str, str] = {}

    def look(self, agents: list[tuple[AgentStatus, float]], now: float) -> None:
        """Compare each status with the last one; it comes with the longest time between calls."""
        passed_s = 0.0 if self._at_s is None else min(now - self._at_s, self._longest_s)
        self._at_s = now
        before, self._seen, self._stuck = self._seen, {}, {}
        for status, call_s in agents:
            calls = (status.heartbeats, status.registrations, status.failures, status.fenced)
            last = before.get(status.name)
            same = last is not None and last.calls == calls and status.phase in _WORKING
            unchanged_s = last.unchanged_s + passed_s if same and last is not None else 0.0
            self._seen[status.name] = _Look(calls, unchanged_s)
            if unchanged_s > max(self._patience_s, _CALLS * call_s):
                self._stuck[status.name] = (
                    f"{status.name}: {status.phase}, and has not called the store for {unchanged_s:.0f} s"
                )

    def stuck(self, name: str) -> str:
        """Return why the agent of this name counts as not working; empty = it works."""
        return self._stuck.get(name, "")

    @property
    def any_stuck(self) -> tuple[str, ...]:
        """Why agents count as not working."""
        return tuple(self._stuck.values())
