"""Metrics for Prometheus; needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...registry.errors import InvalidInput
from .metrics import BUCKETS_S, COUNTERS, GAUGES, HISTOGRAMS, Metric, MetricsObserver, WatchedClients

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.core import Metric as Family
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    from ...extras import check

    check("PrometheusObserver", "metrics")
    raise

_UNITS: Final = {"s": "seconds"}


class PrometheusObserver(MetricsObserver):
    """Counts the events of clients, and shows their state when Prometheus asks for it; thread-safe.

    `name` becomes the label `client`; named() gives the observer of another client in the same metrics.
    Without a registry, the global one is used. Raises InvalidInput for a namespace that is no
    identifier, or is taken in the registry.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        namespace: str = "sharedroutes_client",
        name: str = "default",
    ) -> None:
        if not (namespace.isascii() and namespace.isidentifier()):
            raise InvalidInput(f"namespace: {namespace!r} has to be of letters, digits and _, no digit first")
        families = _Families(namespace)
        try:
            (REGISTRY if registry is None else registry).register(families)
        except ValueError as error:
            raise InvalidInput(f"namespace: {namespace!r} is taken in this registry: {error}") from error
        super().__init__(families, name)


class _Families(Collector):
    """All metrics of all clients, as one collector: it is in a registry as a whole or not at all."""

    def __init__(self, namespace: str) -> None:
        self.clients = WatchedClients()
        self._namespace = namespace
        self._counters = {
            metric: Counter(
                _name(metric), metric.help, ("client", *metric.labels), namespace=namespace, registry=None
            )
            for metric in COUNTERS
        }
        self._histograms = {
            metric: Histogram(
                *(_name(metric), metric.help, ("client", *metric.labels)),
                namespace=namespace,
                unit=_UNITS[metric.unit],
                registry=None,
                buckets=BUCKETS_S,
            )
            for metric in HISTOGRAMS
        }

    def add(self, metric: Metric, client: str, labels: tuple[str, ...], value: float) -> None:
        """Take in a number of the client of this name."""
        counter = self._counters.get(metric)
        if counter is not None:
            counter.labels(client, *labels).inc(value)
        else:
            self._histograms[metric].labels(client, *labels).observe(value)

    def describe(self) -> Iterator[Family]:
        """Yield the metrics without a value: the registry looks for names that are taken."""
        for family in (*self._counters.values(), *self._histograms.values()):
            yield from family.describe()
        yield from self._gauges().values()

    def collect(self) -> Iterator[Family]:
        """Yield the metrics, with the state of the clients at this moment."""
        for family in (*self._counters.values(), *self._histograms.values()):
            yield from family.collect()
        gauges = self._gauges()
        for client, (metric, labels, value) in self.clients.values():
            gauges[metric].add_metric((client, *labels), value)
        yield from gauges.values()

    def _gauges(self) -> dict[Metric, GaugeMetricFamily]:
        return {
            metric: GaugeMetricFamily(
                f"{self._namespace}_{_name(metric)}",
                metric.help,
                labels=("client", *metric.labels),
                unit=_UNITS.get(metric.unit, ""),
            )
            for metric in GAUGES
        }


def _name(metric: Metric) -> str:
    return metric.name.replace(".", "_")
