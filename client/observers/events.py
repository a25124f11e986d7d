"""What a route client tells an observer: its state changes, and what it did; times are in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

Source: TypeAlias = Literal["none", "live", "memory", "snapshot"]
"""live: the store answers; memory: it did; snapshot: it has not answered since the start."""


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """Where routes come from is another place than before, or the first contact with the store failed."""

    old: Source
    new: Source
    reason: str
    """What the store fails with, or failed with until now; empty = it has not failed."""


@dataclass(frozen=True, slots=True)
class FeedLost:
    """The store lost changes after this position: everything is read again."""

    position: str


@dataclass(frozen=True, slots=True)
class RoutesChanged:
    """So many topics have another route than before."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LossHeld:
    """An answer lost so much that it is not believed yet: these are served although it lacked them."""

    brokers: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LossReleased:
    """Nothing is held back any more: all came back, or the loss is believed."""

    how: Literal["returned", "confirmed", "time", "accepted"]


@dataclass(frozen=True, slots=True)
class BrokerIsolated:
    """A broker is left alone for a while."""

    broker_name: str
    reason: Literal["latency", "failure", "consecutive", "success-rate", "unreachable"]
    for_s: float


@dataclass(frozen=True, slots=True)
class BrokerReturned:
    """A broker is no longer left alone."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class BrokersSuspected:
    """Enough other clients cannot reach these brokers; empty = nobody is suspected any more."""

    broker_names: tuple[str, ...]


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes three times as long to make, for each message
class AttemptEnded:
    """One attempt at an operation ended: well, by fault of the broker, or by an error that is not its own.

    An answer that was not stored is told as such an error.

    Not to be changed, although it can be: other observers get the same one.
    """

    topic: str
    broker_name: str
    latency_s: float
    outcome: Literal["ok", "failed", "error"]
    number: int = 1
    """1 for the first attempt at the operation."""

    position: str = ""
    """The id of the last change that the client had taken in when the attempt began; empty = none."""

    isolated: bool = False
    """Whether the broker was to be left alone when the attempt began, and no better one was there."""


@dataclass(frozen=True, slots=True)
class ClockRead:
    """The store's clock was read, because an observer wants to know it (ClockObserver)."""

    store_s: float
    """What it said, in seconds since 1970."""

    at_s: float
    """When it said so, by this process's monotonic clock."""

    error_s: float
    """How far `at_s` can be off: half of the round trip."""


@dataclass(frozen=True, slots=True)
class LookupDone:
    """The table was asked for so many topics, of which nobody holds so many."""

    topics: int
    missing: int
    took_s: float


@dataclass(frozen=True, slots=True)
class SnapshotSaved:
    """The snapshot file was written."""

    topics: int


@dataclass(frozen=True, slots=True)
class SnapshotUnusable:
    """The snapshot file could not be used; nothing else suffers."""

    path: str
    reason: str
    use: Literal["read", "write"]


Event: TypeAlias = (
    SourceChanged
    | FeedLost
    | RoutesChanged
    | LossHeld
    | LossReleased
    | BrokerIsolated
    | BrokerReturned
    | BrokersSuspected
    | AttemptEnded
    | ClockRead
    | LookupDone
    | SnapshotSaved
    | SnapshotUnusable
)

Tell: TypeAlias = Callable[[Event], None]


class Observer(Protocol):
    """Takes in the events of a route client: on whatever thread or task they happen, so be quick.

    What it raises is logged and goes no further.
    """

    def on_event(self, event: Event) -> None:
        """Take in one event."""


@runtime_checkable
class ClockObserver(Observer, Protocol):
    """An observer that has to know the store's clock: ClockRead tells it, about every `clock_every_s`."""

    @property
    def clock_every_s(self) -> float:
        """Seconds from one reading to the next."""
