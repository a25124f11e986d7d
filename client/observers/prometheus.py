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

_NAMESPACE: Final = "sharedroutes_client"
_UNITS: Final = {"s": "seconds"}


class PrometheusObserver(MetricsObserver):
    """Counts the events of clients, and shows their state when Prometheus asks for it; thread-safe.

    `name` becomes the label `client`; named() returns an observer for another client in the same metrics.
    Without a registry, the global one is used. Raises InvalidInput if the registry has such metrics already.
    """

    def __init__(self, registry: CollectorRegistry | None = None, name: str = "default") -> None:
        families = _Families()
        try:
            (REGISTRY if registry is None else registry).register(families)
        except ValueError as error:
            raise InvalidInput(
                f"registry: it has metrics of these names; for another client, use named(): {error}"
            ) from error
        super().__init__(families, name)


class _Families(Collector):
    """All metrics of all clients, as one collector: it is in a registry as a whole or not at all."""

    def __init__(self) -> None:
        self.clients = WatchedClients()
        self._counters = {
            metric: Counter(
                _name(metric), metric.help, ("client", *metric.labels), namespace=_NAMESPACE, registry=None
            )
            for metric in COUNTERS
        }
        self._histograms = {
            metric: Histogram(
                *(_name(metric), metric.help, ("client", *metric.labels)),
                namespace=_NAMESPACE,
                unit=_UNITS[metric.unit],
                registry=None,
                buckets=BUCKETS_S,
            )
            for metric in HISTOGRAMS
        }

    def add(self, metric: Metric, client: str, labels: tuple[str, ...], value: float) -> None:
        """Add a number for the client of this name."""
        counter = self._counters.get(metric)
        if counter is not None:
            counter.labels(client, *labels).inc(value)
        else:
            self._histograms[metric].labels(client, *labels).observe(value)

    def describe(self) -> Iterator[Family]:
        """Yield the metrics without values: the registry looks for names that are taken."""
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
                f"{_NAMESPACE}_{_name(metric)}",
                metric.help,
                labels=("client", *metric.labels),
                unit=_UNITS.get(metric.unit, ""),
            )
            for metric in GAUGES
        }


def _name(metric: Metric) -> str:
    return metric.name.replace(".", "_")
