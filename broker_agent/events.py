"""What happens to an agent, and what it does about it: the two alphabets of the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..registry import LeaseStatus, Registration, RegistryError
from .topics import TopicsFile

__all__ = [
    "Action",
    "BrokerGone",
    "BrokerUp",
    "CallFailed",
    "Done",
    "Event",
    "Heartbeat",
    "HeartbeatAnswered",
    "Register",
    "Registered",
    "Say",
    "Stop",
    "StoreCall",
    "TopicsLoaded",
    "Unregister",
    "Unregistered",
    "WakeAt",
    "Woken",
]


@dataclass(frozen=True, slots=True)
class TopicsLoaded:
    """The broker has another table than before."""

    file: TopicsFile


@dataclass(frozen=True, slots=True)
class BrokerUp:
    """The broker accepts connections."""


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The broker accepts no connections."""

    why: str


@dataclass(frozen=True, slots=True)
class Registered:
    """The Register that was under way has written `file`."""

    file: TopicsFile
    registration: Registration


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """The Heartbeat that was under way has been answered."""

    status: LeaseStatus


@dataclass(frozen=True, slots=True)
class Unregistered:
    """The Unregister that was under way has succeeded."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The store call that was under way, whichever it was, has failed."""

    error: RegistryError


@dataclass(frozen=True, slots=True)
class Woken:
    """The time of the last WakeAt has come."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The agent is asked to end."""


@dataclass(frozen=True, slots=True)
class Register:
    """Make the table the broker's and give it a lease."""

    file: TopicsFile
    held: Registration | None
    take_over: bool


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Renew the lease."""

    held: Registration


@dataclass(frozen=True, slots=True)
class Unregister:
    """End the lease at once."""

    held: Registration
    reason: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send Woken at this time, in seconds of the clock that `now` is read from; a later one replaces it."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Say:
    """Tell the operator."""

    level: int
    text: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is left to do after a Stop."""


Event: TypeAlias = (
    TopicsLoaded
    | BrokerUp
    | BrokerGone
    | Registered
    | HeartbeatAnswered
    | Unregistered
    | CallFailed
    | Woken
    | Stop
)
StoreCall: TypeAlias = Register | Heartbeat | Unregister
Action: TypeAlias = StoreCall | WakeAt | Say | Done
