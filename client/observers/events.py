"""The events of a route client, and how observers get them; times are in seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from ...registry.plans import ErrorReply

_log: Final = logging.getLogger("sharedroutes.client")

Source: TypeAlias = Literal["none", "live", "memory", "snapshot"]
"""live: the store answers; memory: it did; snapshot: it has not answered since the start."""

IsolationReason: TypeAlias = Literal["latency", "failure", "consecutive", "success-rate", "unreachable"]
"""latency, failure: the ladder; consecutive, success-rate: an ejection; unreachable: flagged so by a failed
attempt."""


@dataclass(frozen=True, slots=True)
class SourceChanged:
    """Routes come from another source than before, or the first contact with the store failed."""

    old: Source
    new: Source
    reason: str
    """The error of the store, or the one that is over now; empty = it has not failed."""


@dataclass(frozen=True, slots=True)
class FeedLost:
    """The store lost the changes after this position; the client reads everything again."""

    position: str


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """The client, which may read at replicas, reads at another server."""

    server: str
    """As host:port."""

    role: Literal["primary", "replica"]


@dataclass(frozen=True, slots=True)
class RoutesChanged:
    """These topics have another route than before."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LossHeld:
    """An answer lacked so much that it is not believed yet: these are still served."""

    brokers: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LossReleased:
    """No loss is held back any more: everything came back, or the loss is believed."""

    how: Literal["returned", "confirmed", "time", "accepted"]


@dataclass(frozen=True, slots=True)
class BrokerIsolated:
    """A broker is left alone for a while."""

    broker_name: str
    reason: IsolationReason
    for_s: float


@dataclass(frozen=True, slots=True)
class BrokerReturned:
    """A broker is no longer left alone."""

    broker_name: str


@dataclass(frozen=True, slots=True)
class BrokersSuspected:
    """Enough other clients cannot reach these brokers; empty = no broker is suspected any more."""

    broker_names: tuple[str, ...]


@dataclass(slots=True, unsafe_hash=True)  # a frozen one takes three times as long to make, for each message
class AttemptEnded:
    """One attempt at an operation ended.

    `outcome` is "failed" if the broker is at fault, and "error" for any other error and for an answer that
    was not stored. Do not change an event: all observers get the same object.
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
    """Whether the broker was left alone when the attempt began, and used for want of a better one."""


@dataclass(frozen=True, slots=True)
class ClockRead:
    """The client read the store's clock for an observer (ClockObserver)."""

    store_s: float
    """The store's time, in seconds since 1970."""

    at_s: float
    """The same moment by this process's monotonic clock."""

    error_s: float
    """How far `at_s` can be off: half of the round trip."""


@dataclass(frozen=True, slots=True)
class LookupDone:
    """The client looked up `topics` topics, of which no broker holds `missing`."""

    topics: int
    missing: int
    took_s: float


@dataclass(frozen=True, slots=True)
class SnapshotSaved:
    """The snapshot file was written."""

    topics: int


@dataclass(frozen=True, slots=True)
class SnapshotUnusable:
    """The snapshot file could not be read or written; everything else goes on."""

    path: str
    reason: str
    use: Literal["read", "write"]


Event: TypeAlias = (
    SourceChanged
    | FeedLost
    | ServerChanged
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
    """Takes the events of a route client.

    The client calls it on the thread or task where the event happens, so it has to be quick. An error that it
    raises is logged and goes no further.
    """

    def on_event(self, event: Event) -> None:
        """Take one event."""


@runtime_checkable
class ClockObserver(Observer, Protocol):
    """An observer that needs the store's clock: it gets a ClockRead about every `clock_every_s`."""

    @property
    def clock_every_s(self) -> float:
        """Seconds from one reading to the next."""


def tell_all(observers: Iterable[Observer]) -> Tell:
    """Return a function that hands an event to each observer in turn.

    An error of an observer reaches neither the caller nor the other observers. Each kind of error of each
    observer is logged once, because events can be as frequent as messages.
    """
    found = tuple(observers)
    listeners = tuple(observer.on_event for observer in found)
    logged: set[tuple[int, type[Exception]]] = set()

    def complain(place: int, error: Exception, event: Event) -> None:
        if (place, type(error)) not in logged:
            logged.add((place, type(error)))
            name = type(found[place]).__qualname__
            _log.exception("observer %s failed at %s, said once", name, type(event).__name__)

    def tell(event: Event) -> None:
        for place, on_event in enumerate(listeners):
            try:
                on_event(event)
            except Exception as error:  # noqa: BLE001 - an observer must not harm a sender
                complain(place, error, event)

    return _tell_one(listeners[0], complain) if len(listeners) == 1 else tell


def _tell_one(on_event: Tell, complain: Callable[[int, Exception, Event], None]) -> Tell:
    """Return the same for a single observer: at each message, a loop would cost more than the call itself."""

    def tell(event: Event) -> None:
        try:
            on_event(event)
        except Exception as error:  # noqa: BLE001 - as above
            complain(0, error, event)

    return tell


class ClockReading:
    """When to read the store's clock for the observers that need it; for one thread or task.

    Every `now` is in seconds of the monotonic clock.
    """

    def __init__(self, observers: Iterable[Observer], tell: Tell) -> None:
        wanted = (each.clock_every_s for each in observers if isinstance(each, ClockObserver))
        self._every_s = min(wanted, default=inf)
        self._tell = tell
        self._due_at = inf if self._every_s == inf else -inf
        self._is_refused = False

    def due(self, now: float) -> bool:
        """Whether to read it now."""
        return now >= self._due_at

    def was_read(self, store_us: int | ErrorReply, begin: float, now: float) -> None:
        """Take the answer that came between `begin` and `now`, in microseconds since 1970."""
        self._due_at = now + self._every_s
        if isinstance(store_us, int):
            half_s = (now - begin) / 2
            self._tell(ClockRead(store_us / 1e6, begin + half_s, half_s))
        elif not self._is_refused:
            self._is_refused = True
            _log.warning("the store does not tell its clock to observers: %s", store_us.reason)
