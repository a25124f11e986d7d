"""What route clients count and time, whatever the system of metrics; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import Final, TypeAlias

from .events import (
    AttemptEnded,
    BrokerIsolated,
    FeedLost,
    LookupDone,
    LossHeld,
    LossReleased,
    RoutesChanged,
    SnapshotSaved,
    SnapshotUnusable,
    SourceChanged,
)


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One metric of a route client."""

    name: str
    """Its parts are set apart by dots, as in OpenTelemetry; other systems join them in their own way."""

    help: str
    labels: tuple[str, ...] = ()
    """Its labels but for the client's name: never a topic, there can be too many of them."""

    unit: str = ""
    """As in UCUM: "s", or what is counted in braces."""


Value: TypeAlias = tuple[Metric, tuple[str, ...], float]
"""A number, with the values of the metric's labels."""

BUCKETS_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.55, 1.8, 3.0, 5.0, 15.0)
"""From 0.05 on these are the steps of RocketMQ's ladder (MQFaultStrategy), at which isolations begin."""

_ATTEMPTS: Final = Metric("attempts", "Attempts at an operation.", ("broker", "outcome"), "{attempt}")
_ISOLATIONS: Final = Metric(
    "isolations", "Times a broker began to be left alone.", ("broker", "reason"), "{isolation}"
)
_LOOKUP_TOPICS: Final = Metric("lookup.topics", "Topics that the table was asked for.", unit="{topic}")
_LOOKUP_MISSING: Final = Metric(
    "lookup.missing", "Topics that the table was asked for and nobody holds.", unit="{topic}"
)
_ROUTE_CHANGES: Final = Metric("route.changes", "Topics whose route became another one.", unit="{topic}")
_SOURCE_CHANGES: Final = Metric(
    "source.changes", "Times routes began to come from this source.", ("source",), "{change}"
)
_FEED_LOSSES: Final = Metric(
    "feed.losses", "Times the store lost changes and all was read again.", unit="{loss}"
)
_LOSSES_HELD: Final = Metric("losses.held", "Answers that were held back as a mass loss.", unit="{loss}")
_LOSSES_RELEASED: Final = Metric("losses.released", "Ends of holding losses back.", ("how",), "{loss}")
_SNAPSHOTS: Final = Metric("snapshots", "Snapshot files saved or found unusable.", ("result",), "{file}")

COUNTERS: Final = (
    _ATTEMPTS,
    _ISOLATIONS,
    _LOOKUP_TOPICS,
    _LOOKUP_MISSING,
    _ROUTE_CHANGES,
    _SOURCE_CHANGES,
    _FEED_LOSSES,
    _LOSSES_HELD,
    _LOSSES_RELEASED,
    _SNAPSHOTS,
)

_ATTEMPT_DURATION: Final = Metric("attempt.duration", "How long attempts took.", ("broker",), "s")
_LOOKUP_DURATION: Final = Metric("lookup.duration", "How long lookups in the table took.", unit="s")

HISTOGRAMS: Final = (_ATTEMPT_DURATION, _LOOKUP_DURATION)


@singledispatch
def measured(_event: object) -> Iterable[Value]:
    """Return what an event adds to counters and histograms: nothing if it only changes a state."""
    return ()


@measured.register
def _(event: AttemptEnded) -> Iterable[Value]:
    return (
        (_ATTEMPTS, (event.broker_name, event.outcome), 1),
        (_ATTEMPT_DURATION, (event.broker_name,), event.latency_s),
    )


@measured.register
def _(event: BrokerIsolated) -> Iterable[Value]:
    return ((_ISOLATIONS, (event.broker_name, event.reason), 1),)


@measured.register
def _(event: LookupDone) -> Iterable[Value]:
    return (
        (_LOOKUP_TOPICS, (), event.topics),
        (_LOOKUP_MISSING, (), event.missing),
        (_LOOKUP_DURATION, (), event.took_s),
    )


@measured.register
def _(event: RoutesChanged) -> Iterable[Value]:
    return ((_ROUTE_CHANGES, (), len(event.topics)),)


@measured.register
def _(event: SourceChanged) -> Iterable[Value]:
    return () if event.old == event.new else ((_SOURCE_CHANGES, (event.new,), 1),)


@measured.register
def _(_event: FeedLost) -> Iterable[Value]:
    return ((_FEED_LOSSES, (), 1),)


@measured.register
def _(_event: LossHeld) -> Iterable[Value]:
    return ((_LOSSES_HELD, (), 1),)


@measured.register
def _(event: LossReleased) -> Iterable[Value]:
    return ((_LOSSES_RELEASED, (event.how,), 1),)


@measured.register
def _(_event: SnapshotSaved) -> Iterable[Value]:
    return ((_SNAPSHOTS, ("saved",), 1),)


@measured.register
def _(_event: SnapshotUnusable) -> Iterable[Value]:
    return ((_SNAPSHOTS, ("unusable",), 1),)
