"""The metrics of route clients, whatever system they are for: their names, what counts, what is shown."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, get_args

from .events import (
    AttemptEnded,
    BrokerIsolated,
    Event,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
    ServerChanged,
    SnapshotSaved,
    SnapshotUnusable,
    Source,
    SourceChanged,
)
from .state import FaultState, Health


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric of a route client."""

    name: str
    """In parts with dots between them, as in OpenTelemetry; other systems join them in their own way."""

    help: str
    labels: tuple[str, ...] = ()
    """Without the client's name. Never a topic: there can be too many of them."""

    unit: str = ""
    """As in UCUM: "s", or what is counted in braces."""


Value: TypeAlias = tuple[Metric, tuple[str, ...], float]
"""A number, with the values of the metric's labels."""

BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
"""From 0.05 on these are the steps of RocketMQ's ladder (MQFaultStrategy), at which isolations begin."""

_ATTEMPTS: Final = Metric(
    "attempts",
    "Attempts: ok, failed (the broker's fault), error (of another kind, or not stored).",
    ("broker", "outcome"),
    "{attempt}",
)
_ISOLATIONS: Final = Metric(
    "isolations",
    "Times a broker began to be left alone: latency, failure, consecutive, success-rate, unreachable.",
    ("broker", "reason"),
    "{isolation}",
)
_LOOKUP_TOPICS: Final = Metric("lookup.topics", "Topics that were looked up.", unit="{topic}")
_LOOKUP_MISSING: Final = Metric(
    "lookup.missing", "Topics that were looked up and that no broker holds.", unit="{topic}"
)
_ROUTE_CHANGES: Final = Metric("route.changes", "Topics that got another route.", unit="{topic}")
_SOURCE_CHANGES: Final = Metric(
    "source.changes", "Times routes began to come from this source.", ("source",), "{change}"
)
_FEED_LOSSES: Final = Metric(
    "feed.losses",
    "Times the change stream lacked what this client needed next (trimmed, emptied), and all was read again.",
    unit="{loss}",
)
_SERVER_CHANGES: Final = Metric(
    "server.changes", "Times another server was chosen to read at, by its role.", ("role",), "{change}"
)
_LOSSES_HELD: Final = Metric("losses.held", "Times that a loss was held back.", unit="{loss}")
_LOSSES_RELEASED: Final = Metric(
    "losses.released", "Ends of holding losses back: returned, confirmed, time, accepted.", ("how",), "{loss}"
)
_SNAPSHOTS: Final = Metric("snapshots", "Snapshot files: saved, or found unusable.", ("result",), "{file}")

COUNTERS: Final = (
    *(_ATTEMPTS, _ISOLATIONS, _LOOKUP_TOPICS, _LOOKUP_MISSING, _ROUTE_CHANGES, _SOURCE_CHANGES),
    *(_FEED_LOSSES, _SERVER_CHANGES, _LOSSES_HELD, _LOSSES_RELEASED, _SNAPSHOTS),
)

_ATTEMPT_DURATION: Final = Metric("attempt.duration", "How long attempts took.", ("broker",), "s")
_LOOKUP_DURATION: Final = Metric("lookup.duration", "How long lookups took.", unit="s")

HISTOGRAMS: Final = (_ATTEMPT_DURATION, _LOOKUP_DURATION)

_SOURCE: Final = Metric("source", "1 for where routes come from now, 0 for the other sources.", ("source",))
_ANSWER_AGE: Final = Metric("answer.age", "Time since the store last answered.", unit="s")
_SERVER: Final = Metric(
    "server", "1 for the server at which a client reads that may read at replicas.", ("server", "role")
)
_SERVER_LAG: Final = Metric(
    "server.lag", "What is read there is at most so much older than what the primary has.", unit="s"
)
_TOPICS: Final = Metric("topics", "Topics in the cache.", unit="{topic}")
_HELD: Final = Metric("held", "Brokers and topics served although the store's last answer lacked them.")
_ISOLATION: Final = Metric(
    "broker.isolation.remaining", "For how long a broker is still left alone.", ("broker",), "s"
)
_REACHABLE: Final = Metric("broker.reachable", "1 for a broker that counts as reachable.", ("broker",))
_SUSPECTED: Final = Metric("broker.suspected", "1 for a broker that other clients cannot reach.", ("broker",))

GAUGES: Final = (
    *(_SOURCE, _ANSWER_AGE, _SERVER, _SERVER_LAG, _TOPICS, _HELD),
    *(_ISOLATION, _REACHABLE, _SUSPECTED),
)

_MEASURES: Final[Mapping[type[object], Callable[[Any], Iterable[Value]]]] = {
    AttemptEnded: lambda event: (
        (_ATTEMPTS, (event.broker_name, event.outcome), 1),
        (_ATTEMPT_DURATION, (event.broker_name,), event.latency_s),
    ),
    BrokerIsolated: lambda event: ((_ISOLATIONS, (event.broker_name, event.reason), 1),),
    LookupDone: lambda event: (
        (_LOOKUP_TOPICS, (), event.topics),
        (_LOOKUP_MISSING, (), event.missing),
        (_LOOKUP_DURATION, (), event.took_s),
    ),
    RoutesChanged: lambda event: ((_ROUTE_CHANGES, (), len(event.topics)),),
    SourceChanged: lambda event: ((_SOURCE_CHANGES, (event.new,), 1),) if event.old != event.new else (),
    FeedLost: lambda _event: ((_FEED_LOSSES, (), 1),),
    ServerChanged: lambda event: ((_SERVER_CHANGES, (event.role,), 1),),
    LossHeld: lambda _event: ((_LOSSES_HELD, (), 1),),
    LossReleased: lambda event: ((_LOSSES_RELEASED, (event.how,), 1),),
    SnapshotSaved: lambda _event: ((_SNAPSHOTS, ("saved",), 1),),
    SnapshotUnusable: lambda _event: ((_SNAPSHOTS, ("unusable",), 1),),
}
"""What an event adds to counters and histograms; the other events only change a state."""


class Watched(Protocol):
    """A route client of either kind."""

    def health(self) -> Health: ...  # noqa: D102
    def faults(self) -> Mapping[str, FaultState]: ...  # noqa: D102


class WatchedClients:
    """Clients by name, without keeping them alive."""

    def __init__(self) -> None:
        self._clients: dict[str, weakref.ref[Watched]] = {}

    def watch(self, name: str, client: Watched) -> None:
        """Watch a client by this name, in place of the one that had it."""
        self._clients[name] = weakref.ref(client)

    def values(self) -> Iterator[tuple[str, Value]]:
        """Yield the gauges of each client that still exists, with its name."""
        for name, reference in tuple(self._clients.items()):
            client = reference()
            if client is not None:
                yield from ((name, value) for value in _state(client))


def _state(client: Watched) -> Iterable[Value]:
    health = client.health()
    yield from ((_SOURCE, (source,), float(source == health.source)) for source in get_args(Source))
    if health.age_s is not None:
        yield _ANSWER_AGE, (), health.age_s
    if health.role is not None:
        yield _SERVER, (health.server, health.role), 1
    if health.lag_s is not None:
        yield _SERVER_LAG, (), health.lag_s
    yield _TOPICS, (), health.topics
    yield _HELD, (), len(health.held)
    for broker_name, fault in client.faults().items():
        yield _ISOLATION, (broker_name,), fault.isolated_for_s
        yield _REACHABLE, (broker_name,), float(fault.reachable)
        yield _SUSPECTED, (broker_name,), float(fault.suspected)


class Sink(Protocol):
    """Where numbers go: the metrics of all clients in one system of metrics."""

    @property
    def clients(self) -> WatchedClients: ...  # noqa: D102
    def add(self, metric: Metric, client: str, labels: tuple[str, ...], value: float) -> None:
        """Add a number for the client of this name."""


class MetricsObserver:
    """Counts the events of the client of this name, and shows its state."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._name = name
        for metric in COUNTERS:
            if not metric.labels:  # begun with 0, a counter's first step is seen as an increase
                sink.add(metric, name, (), 0)

    def named(self, name: str) -> MetricsObserver:
        """Return an observer for the client of another name, which adds to the same metrics."""
        return MetricsObserver(self._sink, name)

    def on_event(self, event: Event) -> None:
        """Count one event."""
        measure = _MEASURES.get(type(event))
        if measure is not None:
            for metric, labels, value in measure(event):
                self._sink.add(metric, self._name, labels, value)

    def watch(self, client: Watched) -> None:
        """Show the state of a client under this observer's name, for as long as the client is in use.

        It takes the place of the client that had the name before.
        """
        self._sink.clients.watch(self._name, client)
