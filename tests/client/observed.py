"""One event of each kind, and clients to watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sharedroutes.client import FaultState, Health
from sharedroutes.client.observers.events import (
    AttemptEnded,
    BrokerIsolated,
    BrokerReturned,
    BrokersSuspected,
    ClockRead,
    Event,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
    ServerChanged,
    SnapshotSaved,
    SnapshotUnusable,
    SourceChanged,
)

UNKNOWING: Final = Health("none", None, None, None, (), 0)
"""The health of a client that has not met the store."""

ALL_EVENTS: Final[tuple[Event, ...]] = (
    SourceChanged("live", "memory", "connection refused"),
    FeedLost("1-0"),
    ServerChanged("10.0.0.1:6379", "primary"),
    RoutesChanged(("t", "u")),
    LossHeld(("a",), ("t",)),
    LossReleased("time"),
    BrokerIsolated("a", "latency", 2.0),
    BrokerReturned("a"),
    BrokersSuspected(("a",)),
    AttemptEnded("t", "a", 0.2, "ok", 2, "1-0", isolated=True),
    ClockRead(1_700_000_000.0, 5.0, 0.001),
    LookupDone(3, 1, 0.02),
    SnapshotSaved(7),
    SnapshotUnusable("/routes.json", "is empty", "read"),
)


def fault(isolated_for_s: float = 0.0, *, reachable: bool = True, suspected: bool = False) -> FaultState:
    """Return what is known of a broker."""
    return FaultState(
        broker_name="",
        isolated_for_s=isolated_for_s,
        reason=None,
        reachable=reachable,
        suspected=suspected,
        share=1.0,
        success_rate=None,
        consecutive_failures=0,
        ejections=0,
    )


@dataclass(eq=False)
class StandIn:
    """Stands in for a route client of either kind."""

    state: Health = UNKNOWING
    memory: dict[str, FaultState] = field(default_factory=dict)
    looks: int = 0

    def health(self) -> Health:
        """Return what the test says."""
        self.looks += 1
        return self.state

    def faults(self) -> dict[str, FaultState]:
        """Return what the test says."""
        return self.memory
