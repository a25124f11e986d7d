"""What systems of metrics are told of clients: the same by Prometheus and by OpenTelemetry."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Protocol

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from sharedroutes.client import Health, HeldLoss
from sharedroutes.client.observers import Event
from sharedroutes.client.observers.events import (
    AttemptEnded,
    BrokerIsolated,
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
from sharedroutes.client.observers.metrics import BUCKETS_S, COUNTERS, GAUGES, HISTOGRAMS, MetricsObserver
from sharedroutes.client.observers.otel import OpenTelemetryObserver
from sharedroutes.client.observers.prometheus import PrometheusObserver
from sharedroutes.registry import InvalidInput
from tests.client.observed import ALL_EVENTS, StandIn, fault

HELD: Final = (
    HeldLoss("broker", "a", 2.0, 28.0, "mass loss"),
    HeldLoss("topic", "t", 2.0, 28.0, "mass loss"),
)
LIVE: Final = Health("live", 1.5, None, "1-0", HELD, 12)
REPLICA: Final = replace(LIVE, server="h:1", role="replica", lag_s=0.25)


class System(Protocol):
    """A system of metrics with an observer, read by our own names of metrics and labels."""

    observer: MetricsObserver

    def read(self, name: str, client: str = "default", **labels: str) -> Any:
        """Return a counter's or gauge's value, or a histogram's sum and count; None if there is none."""


class Prometheus:
    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self.observer: MetricsObserver = PrometheusObserver(self.registry)

    def read(self, name: str, client: str = "default", **labels: str) -> Any:
        metric = next(metric for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES) if metric.name == name)
        full = f"sharedroutes_client_{name.replace('.', '_')}{'_seconds' if metric.unit == 's' else ''}"
        suffixes = ("_sum", "_count") if metric in HISTOGRAMS else ("_total" if metric in COUNTERS else "",)
        whose = {"client": client, **labels}
        values = tuple(self.registry.get_sample_value(f"{full}{suffix}", whose) for suffix in suffixes)
        return values[0] if None in values or len(values) == 1 else values


class OpenTelemetry:
    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=(self.reader,), shutdown_on_exit=False)
        self.observer: MetricsObserver = OpenTelemetryObserver(self.provider)

    def metrics(self) -> dict[str, OtelMetric]:
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        assert [scope.scope.name for scope in scopes] == ["sharedroutes.client"]
        return {metric.name: metric for metric in scopes[0].metrics}

    def read(self, name: str, client: str = "default", **labels: str) -> Any:
        whose = {f"sharedroutes.{key}": value for key, value in {"client": client, **labels}.items()}
        metric = self.metrics().get(f"sharedroutes.client.{name}")
        for point in () if metric is None else metric.data.data_points:
            if dict(point.attributes or {}) == whose:
                if isinstance(point, HistogramDataPoint):
                    assert tuple(point.explicit_bounds) == BUCKETS_S
                    return point.sum, point.count
                return point.value  # type: ignore[union-attr]  # we have no exponential histograms
        return None


@pytest.fixture
def otel() -> Iterator[OpenTelemetry]:
    system = OpenTelemetry()
    yield system
    system.provider.shutdown()


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


@pytest.fixture(params=["prometheus", "otel"])
def system(request: pytest.FixtureRequest) -> System:
    found: System = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize(
    ("event", "name", "labels", "value"),
    [
        (AttemptEnded("t", "a", 0.2, "failed"), "attempts", {"broker": "a", "outcome": "failed"}, 1),
        (AttemptEnded("t", "a", 0.2, "ok"), "attempt.duration", {"broker": "a"}, (0.2, 1)),
        (BrokerIsolated("a", "failure", 9), "isolations", {"broker": "a", "reason": "failure"}, 1),
        (LookupDone(7, 2, 0.5), "lookup.topics", {}, 7),
        (LookupDone(7, 2, 0.5), "lookup.missing", {}, 2),
        (LookupDone(7, 2, 0.5), "lookup.duration", {}, (0.5, 1)),
        (RoutesChanged(("t", "u")), "route.changes", {}, 2),
        (SourceChanged("live", "memory", "down"), "source.changes", {"source": "memory"}, 1),
        (SourceChanged("none", "none", "down"), "source.changes", {"source": "none"}, None),
        (FeedLost("1-0"), "feed.losses", {}, 1),
        (ServerChanged("h:1", "replica"), "server.changes", {"role": "replica"}, 1),
        (LossHeld(("a",), ()), "losses.held", {}, 1),
        (LossReleased("accepted"), "losses.released", {"how": "accepted"}, 1),
        (SnapshotSaved(3), "snapshots", {"result": "saved"}, 1),
        (SnapshotUnusable("/r", "x", "read"), "snapshots", {"result": "unusable"}, 1),
    ],
)
def test_an_event_is_counted(
    system: System, event: Event, name: str, labels: dict[str, str], value: Any
) -> None:
    system.observer.on_event(event)
    assert system.read(name, **labels) == value


def test_events_add_up(system: System) -> None:
    for latency_s in (0.25, 0.5, 2.0):
        system.observer.on_event(AttemptEnded("t", "a", latency_s, "ok"))
    assert system.read("attempts", broker="a", outcome="ok") == 3
    assert system.read("attempt.duration", broker="a") == (2.75, 3)


def test_counters_without_labels_of_their_own_begin_with_zero(system: System) -> None:
    assert system.read("feed.losses") == 0
    system.observer.named("audit")
    assert system.read("losses.held", "audit") == 0


def test_clients_are_told_apart_by_name(system: System) -> None:
    audit = system.observer.named("audit")
    clients = StandIn(), StandIn(LIVE)
    system.observer.watch(clients[0])
    audit.watch(clients[1])
    audit.on_event(FeedLost("1-0"))
    assert (system.read("feed.losses"), system.read("feed.losses", "audit")) == (0, 1)
    assert (system.read("topics"), system.read("topics", "audit")) == (0, 12)


# --- the state of a client ----------------------------------------------------------------------------------


def sources(system: System) -> dict[str, float | None]:
    return {one: system.read("source", source=one) for one in ("none", "live", "memory", "snapshot")}


def test_the_state_of_a_client_is_that_of_the_moment_when_it_is_asked_for(system: System) -> None:
    client = StandIn(LIVE)
    system.observer.watch(client)
    assert sources(system) == {"none": 0, "live": 1, "memory": 0, "snapshot": 0}
    assert system.read("answer.age") == 1.5
    assert (system.read("topics"), system.read("held")) == (12, 2)
    client.state = Health("live", 0.0, None, "1-0", (), 12)
    assert system.read("answer.age") == 0
    client.state = Health("memory", 31.0, "down", "1-0", (), 13)
    assert sources(system) == {"none": 0, "live": 0, "memory": 1, "snapshot": 0}
    assert system.read("answer.age") == 31.0
    assert (system.read("topics"), system.read("held")) == (13, 0)


def test_it_is_seen_where_a_client_reads_that_may_read_at_replicas(system: System) -> None:
    client = StandIn(LIVE)
    system.observer.watch(client)
    assert system.read("server", server="h:1", role="replica") is None
    assert system.read("server.lag") is None
    client.state = REPLICA
    assert system.read("server", server="h:1", role="replica") == 1
    assert system.read("server.lag") == 0.25


def test_a_store_that_never_answered_has_no_age(system: System) -> None:
    client = StandIn()
    system.observer.watch(client)
    assert system.read("answer.age") is None
    assert system.read("source", source="none") == 1


def test_the_brokers_a_client_leaves_alone_are_seen(system: System) -> None:
    client = StandIn(LIVE, {"a": fault(8.5, reachable=False), "b": fault(suspected=True)})
    system.observer.watch(client)
    assert [system.read("broker.isolation.remaining", broker=broker) for broker in "ab"] == [8.5, 0]
    assert [system.read("broker.reachable", broker=broker) for broker in "ab"] == [0, 1]
    assert [system.read("broker.suspected", broker=broker) for broker in "ab"] == [0, 1]
    client.memory.clear()
    assert system.read("broker.reachable", broker="a") is None


def test_watching_keeps_no_client_alive(system: System) -> None:
    client = StandIn(LIVE)
    system.observer.watch(client)
    system.observer.on_event(FeedLost("1-0"))
    del client
    gc.collect()
    assert system.read("topics") is None
    assert system.read("feed.losses") == 1


def test_a_new_client_takes_the_place_of_the_one_that_had_its_name(system: System) -> None:
    old, new = StandIn(LIVE), StandIn()
    system.observer.watch(old)
    system.observer.watch(new)
    assert system.read("topics") == 0
    assert old.looks == 0


# --- Prometheus alone ---------------------------------------------------------------------------------------


def test_every_event_and_metric_is_valid_and_no_topic_is_a_label(prometheus: Prometheus) -> None:
    client = StandIn(REPLICA, {"a": fault()})
    prometheus.observer.watch(client)
    for event in ALL_EVENTS:
        prometheus.observer.on_event(event)
    assert client.looks == 0  # until somebody asks
    for generate in (generate_latest, generate_openmetrics):
        text = generate(prometheus.registry).decode()
        for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES):
            assert f"\nsharedroutes_client_{metric.name.replace('.', '_')}" in f"\n{text}"
    assert client.looks == 2
    samples = [sample for family in prometheus.registry.collect() for sample in family.samples]
    assert all(sample.name.startswith("sharedroutes_client_") for sample in samples)
    names = {name for sample in samples for name in sample.labels}
    labels = {"broker", "outcome", "reason", "source", "how", "result", "server", "role"}
    assert names == {"client", "le", *labels}


def test_attempts_are_sorted_by_how_long_they_took(prometheus: Prometheus) -> None:
    for latency_s in (0.04, 0.3, 2.0):
        prometheus.observer.on_event(AttemptEnded("t", "a", latency_s, "ok"))
    name = "sharedroutes_client_attempt_duration_seconds_bucket"
    buckets = {
        limit: prometheus.registry.get_sample_value(name, {"client": "default", "broker": "a", "le": limit})
        for limit in ("0.05", "0.55", "1.8", "3.0", "+Inf")
    }
    assert buckets == {"0.05": 1, "0.55": 2, "1.8": 2, "3.0": 3, "+Inf": 3}


def with_an_observer(registry: CollectorRegistry) -> None:
    PrometheusObserver(registry)


def with_one_taken_name(registry: CollectorRegistry) -> None:
    Counter("sharedroutes_client_snapshots", "Of somebody else.", registry=registry)


@pytest.mark.parametrize("spoil", [with_an_observer, with_one_taken_name])
def test_a_registry_that_has_such_metrics_is_refused_and_not_changed(
    spoil: Callable[[CollectorRegistry], None],
) -> None:
    registry = CollectorRegistry(auto_describe=True)
    spoil(registry)
    before = generate_latest(registry)
    with pytest.raises(InvalidInput, match=r"registry: it has metrics of these names; .* named\(\)"):
        PrometheusObserver(registry)
    assert generate_latest(registry) == before


# --- OpenTelemetry alone ------------------------------------------------------------------------------------


def test_every_event_is_taken_in_and_every_metric_has_its_unit(otel: OpenTelemetry) -> None:
    client = StandIn(REPLICA, {"a": fault()})
    otel.observer.watch(client)
    for event in ALL_EVENTS:
        otel.observer.on_event(event)
    assert {(metric.name, metric.unit, metric.description) for metric in otel.metrics().values()} == {
        (f"sharedroutes.client.{metric.name}", metric.unit, metric.help)
        for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES)
    }


def test_without_a_provider_the_global_one_is_used() -> None:
    observer = OpenTelemetryObserver()
    for event in ALL_EVENTS:
        observer.on_event(event)
