"""What Prometheus is told of clients."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
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
    SnapshotSaved,
    SnapshotUnusable,
    SourceChanged,
)
from sharedroutes.client.observers.metrics import COUNTERS, GAUGES, HISTOGRAMS
from sharedroutes.client.observers.prometheus import PrometheusObserver
from sharedroutes.registry import InvalidInput
from tests.client.observed import ALL_EVENTS, Fault, StandIn

HELD = (HeldLoss("broker", "a", 2.0, 28.0, "mass loss"), HeldLoss("topic", "t", 2.0, 28.0, "mass loss"))
LIVE = Health("live", 1.5, None, "1-0", HELD, 12)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry(auto_describe=True)


@pytest.fixture
def observer(registry: CollectorRegistry) -> PrometheusObserver:
    return PrometheusObserver(registry)


def read(registry: CollectorRegistry, name: str, client: str = "default", **labels: str) -> float | None:
    return registry.get_sample_value(f"sharedroutes_client_{name}", {"client": client, **labels})


@pytest.mark.parametrize(
    ("event", "name", "labels", "value"),
    [
        (AttemptEnded("t", "a", 0.2, "failed"), "attempts_total", {"broker": "a", "outcome": "failed"}, 1),
        (AttemptEnded("t", "a", 0.2, "ok"), "attempt_duration_seconds_sum", {"broker": "a"}, 0.2),
        (BrokerIsolated("a", "failure", 9), "isolations_total", {"broker": "a", "reason": "failure"}, 1),
        (LookupDone(7, 2, 0.5), "lookup_topics_total", {}, 7),
        (LookupDone(7, 2, 0.5), "lookup_missing_total", {}, 2),
        (LookupDone(7, 2, 0.5), "lookup_duration_seconds_count", {}, 1),
        (LookupDone(7, 2, 0.5), "lookup_duration_seconds_sum", {}, 0.5),
        (RoutesChanged(("t", "u")), "route_changes_total", {}, 2),
        (SourceChanged("live", "memory", "down"), "source_changes_total", {"source": "memory"}, 1),
        (SourceChanged("none", "none", "down"), "source_changes_total", {"source": "none"}, None),
        (FeedLost("1-0"), "feed_losses_total", {}, 1),
        (LossHeld(("a",), ()), "losses_held_total", {}, 1),
        (LossReleased("accepted"), "losses_released_total", {"how": "accepted"}, 1),
        (SnapshotSaved(3), "snapshots_total", {"result": "saved"}, 1),
        (SnapshotUnusable("/r", "x", "read"), "snapshots_total", {"result": "unusable"}, 1),
    ],
)
def test_an_event_is_counted(
    observer: PrometheusObserver,
    registry: CollectorRegistry,
    event: Event,
    name: str,
    labels: dict[str, str],
    value: float | None,
) -> None:
    observer.on_event(event)
    assert read(registry, name, **labels) == value


def test_events_add_up(observer: PrometheusObserver, registry: CollectorRegistry) -> None:
    for latency_s in (0.04, 0.3, 2.0):
        observer.on_event(AttemptEnded("t", "a", latency_s, "ok"))
    assert read(registry, "attempts_total", broker="a", outcome="ok") == 3
    buckets = {
        limit: read(registry, "attempt_duration_seconds_bucket", broker="a", le=limit)
        for limit in ("0.05", "0.55", "1.8", "3.0", "+Inf")
    }
    assert buckets == {"0.05": 1, "0.55": 2, "1.8": 2, "3.0": 3, "+Inf": 3}


def test_counters_without_labels_of_their_own_begin_with_zero(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    assert read(registry, "feed_losses_total") == 0
    observer.named("audit")
    assert read(registry, "losses_held_total", "audit") == 0


def test_every_event_is_taken_in_and_every_metric_is_valid(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    client = StandIn(LIVE, {"a": Fault()})
    observer.watch(client)
    for event in ALL_EVENTS:
        observer.on_event(event)
    for generate in (generate_latest, generate_openmetrics):
        text = generate(registry).decode()
        for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES):
            assert f"\nsharedroutes_client_{metric.name.replace('.', '_')}" in f"\n{text}"


def test_no_topic_is_a_label(observer: PrometheusObserver, registry: CollectorRegistry) -> None:
    names = set()
    client = StandIn(LIVE, {"a": Fault()})
    observer.watch(client)
    for event in ALL_EVENTS:
        observer.on_event(event)
    for family in registry.collect():
        names |= {name for sample in family.samples for name in sample.labels}
    assert names == {"client", "broker", "outcome", "reason", "source", "how", "result", "le"}


def test_clients_are_told_apart_by_name(observer: PrometheusObserver, registry: CollectorRegistry) -> None:
    audit = observer.named("audit")
    clients = StandIn(), StandIn(LIVE)
    observer.watch(clients[0])
    audit.watch(clients[1])
    audit.on_event(FeedLost("1-0"))
    assert (read(registry, "feed_losses_total"), read(registry, "feed_losses_total", "audit")) == (0, 1)
    assert (read(registry, "topics"), read(registry, "topics", "audit")) == (0, 12)


# --- the state of a client ----------------------------------------------------------------------------------


def sources(registry: CollectorRegistry) -> dict[str, float | None]:
    return {one: read(registry, "source", source=one) for one in ("none", "live", "memory", "snapshot")}


def test_the_state_of_a_client_is_that_of_the_moment_when_it_is_asked_for(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    client = StandIn(LIVE)
    observer.watch(client)
    assert sources(registry) == {"none": 0, "live": 1, "memory": 0, "snapshot": 0}
    assert read(registry, "answer_age_seconds") == 1.5
    assert (read(registry, "topics"), read(registry, "held")) == (12, 2)
    client.state = Health("live", 0.0, None, "1-0", (), 12)
    assert read(registry, "answer_age_seconds") == 0
    client.state = Health("memory", 31.0, "down", "1-0", (), 13)
    assert sources(registry) == {"none": 0, "live": 0, "memory": 1, "snapshot": 0}
    assert read(registry, "answer_age_seconds") == 31.0
    assert (read(registry, "topics"), read(registry, "held")) == (13, 0)


def test_a_store_that_never_answered_has_no_age(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    client = StandIn()
    observer.watch(client)
    assert read(registry, "answer_age_seconds") is None
    assert read(registry, "source", source="none") == 1


def test_the_brokers_a_client_leaves_alone_are_seen(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    client = StandIn(LIVE, {"a": Fault(8.5, reachable=False), "b": Fault(suspected=True)})
    observer.watch(client)
    assert read(registry, "broker_isolation_remaining_seconds", broker="a") == 8.5
    assert read(registry, "broker_isolation_remaining_seconds", broker="b") == 0
    assert [read(registry, "broker_reachable", broker=broker) for broker in "ab"] == [0, 1]
    assert [read(registry, "broker_suspected", broker=broker) for broker in "ab"] == [0, 1]
    client.memory.clear()
    assert read(registry, "broker_reachable", broker="a") is None


def test_nobody_looks_at_a_client_until_somebody_asks(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    client = StandIn()
    observer.watch(client)
    for event in ALL_EVENTS:
        observer.on_event(event)
    assert client.looks == 0
    generate_latest(registry)
    assert client.looks == 1


def test_watching_keeps_no_client_alive(observer: PrometheusObserver, registry: CollectorRegistry) -> None:
    client = StandIn(LIVE)
    observer.watch(client)
    observer.on_event(FeedLost("1-0"))
    del client
    gc.collect()
    assert read(registry, "topics") is None
    assert read(registry, "feed_losses_total") == 1


def test_a_new_client_takes_the_place_of_the_one_that_had_its_name(
    observer: PrometheusObserver, registry: CollectorRegistry
) -> None:
    old, new = StandIn(LIVE), StandIn()
    observer.watch(old)
    observer.watch(new)
    assert read(registry, "topics") == 0
    assert generate_latest(registry).count(b"\nsharedroutes_client_topics{") == 1


# --- the registry -------------------------------------------------------------------------------------------


def in_a_taken_namespace(registry: CollectorRegistry) -> str:
    PrometheusObserver(registry, "mine")
    return "mine"


def beside_one_taken_name(registry: CollectorRegistry) -> str:
    Counter("mine_snapshots", "Of somebody else.", registry=registry)
    return "mine"


@pytest.mark.parametrize("spoil", [in_a_taken_namespace, beside_one_taken_name])
def test_a_namespace_that_is_taken_changes_nothing(
    registry: CollectorRegistry, spoil: Callable[[CollectorRegistry], str]
) -> None:
    namespace = spoil(registry)
    before = generate_latest(registry)
    with pytest.raises(InvalidInput, match=f"namespace: '{namespace}' is taken"):
        PrometheusObserver(registry, namespace)
    assert generate_latest(registry) == before


@pytest.mark.parametrize("namespace", ["", "9 lives", "a-b", "größe"])
def test_a_namespace_that_is_no_identifier_is_refused(registry: CollectorRegistry, namespace: str) -> None:
    with pytest.raises(InvalidInput, match=f"namespace: '{namespace}' has to be of letters"):
        PrometheusObserver(registry, namespace)


def test_the_namespace_begins_every_name(registry: CollectorRegistry) -> None:
    observer = PrometheusObserver(registry, "mine", "orders")
    client = StandIn(LIVE, {"a": Fault()})
    observer.watch(client)
    for event in ALL_EVENTS:
        observer.on_event(event)
    samples = [sample for family in registry.collect() for sample in family.samples]
    assert {sample.name.partition("_")[0] for sample in samples} == {"mine"}
    assert {sample.labels["client"] for sample in samples} == {"orders"}
