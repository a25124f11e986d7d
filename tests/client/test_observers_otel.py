"""What OpenTelemetry is told of clients."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric, NumberDataPoint

from sharedroutes.client import Health, HeldLoss
from sharedroutes.client.observers.events import AttemptEnded, FeedLost, LookupDone
from sharedroutes.client.observers.metrics import BUCKETS_S, COUNTERS, GAUGES, HISTOGRAMS
from sharedroutes.client.observers.otel import OpenTelemetryObserver
from tests.client.observed import ALL_EVENTS, Fault, StandIn

HELD = (HeldLoss("broker", "a", 2.0, 28.0, "mass loss"), HeldLoss("topic", "t", 2.0, 28.0, "mass loss"))
LIVE = Health("live", 1.5, None, "1-0", HELD, 12)

Point: TypeAlias = tuple[Mapping[str, Any], Any]


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader: InMemoryMetricReader) -> Iterator[MeterProvider]:
    provider = MeterProvider(metric_readers=(reader,), shutdown_on_exit=False)
    yield provider
    provider.shutdown()


@pytest.fixture
def observer(provider: MeterProvider) -> OpenTelemetryObserver:
    return OpenTelemetryObserver(provider)


def metrics(reader: InMemoryMetricReader) -> dict[str, Metric]:
    data = reader.get_metrics_data()
    assert data is not None
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    assert [scope.scope.name for scope in scopes] == ["sharedroutes.client"]
    return {metric.name: metric for metric in scopes[0].metrics}


def points(reader: InMemoryMetricReader, name: str) -> list[Point]:
    """Return the attributes and the value, or the sum and the counts, of each point of a metric."""
    metric = metrics(reader).get(f"sharedroutes.client.{name}")
    return [] if metric is None else [_point(point) for point in metric.data.data_points]


def _point(point: Any) -> Point:
    attributes = dict(point.attributes)
    if isinstance(point, HistogramDataPoint):
        assert tuple(point.explicit_bounds) == BUCKETS_S
        return attributes, (point.sum, point.count)
    assert isinstance(point, NumberDataPoint)
    return attributes, point.value


def test_an_attempt_is_counted_and_timed(
    observer: OpenTelemetryObserver, reader: InMemoryMetricReader
) -> None:
    for latency_s in (0.25, 0.5):
        observer.on_event(AttemptEnded("t", "a", latency_s, "failed"))
    whose = {"sharedroutes.client": "default", "sharedroutes.broker": "a"}
    assert points(reader, "attempts") == [({**whose, "sharedroutes.outcome": "failed"}, 2)]
    assert points(reader, "attempt.duration") == [(whose, (0.75, 2))]


def test_a_lookup_is_counted_and_timed(observer: OpenTelemetryObserver, reader: InMemoryMetricReader) -> None:
    observer.on_event(LookupDone(7, 2, 0.5))
    whose = {"sharedroutes.client": "default"}
    assert points(reader, "lookup.topics") == [(whose, 7)]
    assert points(reader, "lookup.missing") == [(whose, 2)]
    assert points(reader, "lookup.duration") == [(whose, (0.5, 1))]


def test_every_event_is_taken_in_and_every_metric_has_its_unit(
    observer: OpenTelemetryObserver, reader: InMemoryMetricReader
) -> None:
    client = StandIn(LIVE, {"a": Fault()})
    observer.watch(client)
    for event in ALL_EVENTS:
        observer.on_event(event)
    told = {(metric.name, metric.unit, metric.description) for metric in metrics(reader).values()}
    assert told == {
        (f"sharedroutes.client.{metric.name}", metric.unit, metric.help)
        for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES)
    }


def test_the_state_of_a_client_is_that_of_the_moment_when_it_is_collected(
    observer: OpenTelemetryObserver, reader: InMemoryMetricReader
) -> None:
    client = StandIn(LIVE, {"a": Fault(8.5, reachable=False)})
    observer.watch(client)
    whose = {"sharedroutes.client": "default"}
    assert points(reader, "answer.age") == [(whose, 1.5)]
    assert points(reader, "broker.isolation.remaining") == [({**whose, "sharedroutes.broker": "a"}, 8.5)]
    assert points(reader, "broker.reachable") == [({**whose, "sharedroutes.broker": "a"}, 0)]
    client.state = Health("snapshot", None, "down", None, (), 3)
    assert points(reader, "topics") == [(whose, 3)]
    assert points(reader, "answer.age") == []
    states = {point[0]["sharedroutes.source"]: point[1] for point in points(reader, "source")}
    assert states == {"none": 0, "live": 0, "memory": 0, "snapshot": 1}


def test_clients_are_told_apart_by_name_and_not_kept_alive(
    observer: OpenTelemetryObserver, reader: InMemoryMetricReader
) -> None:
    audit = observer.named("audit")
    client, gone = StandIn(LIVE), StandIn()
    observer.watch(gone)
    audit.watch(client)
    audit.on_event(FeedLost("1-0"))
    del gone
    gc.collect()
    assert points(reader, "topics") == [({"sharedroutes.client": "audit"}, 12)]
    assert sorted((one[0]["sharedroutes.client"], one[1]) for one in points(reader, "feed.losses")) == [
        ("audit", 1),
        ("default", 0),
    ]


def test_without_a_provider_the_global_one_is_used() -> None:
    observer = OpenTelemetryObserver()
    for event in ALL_EVENTS:
        observer.on_event(event)
