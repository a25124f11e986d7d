"""Metrics for OpenTelemetry; needs the extra `otel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from .metrics import BUCKETS_S, COUNTERS, GAUGES, HISTOGRAMS, Metric, MetricsObserver, WatchedClients

try:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter
except ModuleNotFoundError:
    from ...extras import check

    check("OpenTelemetryObserver", "otel")
    raise

_SCOPE: Final = "sharedroutes.client"


class OpenTelemetryObserver(MetricsObserver):
    """Counts the events of clients, and shows their state when a reader collects it; thread-safe.

    Instruments are named `sharedroutes.client.*`, attributes `sharedroutes.*`. `name` becomes the attribute
    `sharedroutes.client`; named() returns an observer for another client with the same instruments. Without
    a provider, the global one is used.
    """

    def __init__(self, meter_provider: MeterProvider | None = None, name: str = "default") -> None:
        super().__init__(_Instruments(get_meter(_SCOPE, meter_provider=meter_provider)), name)


class _Instruments:
    """The instruments of all clients."""

    def __init__(self, meter: Meter) -> None:
        self.clients = WatchedClients()
        self._add: dict[Metric, Callable[[float, dict[str, str]], None]] = {}
        for metric in COUNTERS:
            self._add[metric] = meter.create_counter(_name(metric), metric.unit, metric.help).add
        for metric in HISTOGRAMS:
            self._add[metric] = meter.create_histogram(
                *(_name(metric), metric.unit, metric.help), explicit_bucket_boundaries_advisory=BUCKETS_S
            ).record
        for metric in GAUGES:
            meter.create_observable_gauge(_name(metric), [self._reader(metric)], metric.unit, metric.help)

    def add(self, metric: Metric, client: str, labels: tuple[str, ...], value: float) -> None:
        """Add a number for the client of this name."""
        self._add[metric](value, _attributes(client, metric, labels))

    def _reader(self, gauge: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_options: CallbackOptions) -> Iterable[Observation]:
            for client, (metric, labels, value) in self.clients.values():
                if metric is gauge:
                    yield Observation(value, _attributes(client, metric, labels))

        return read


def _name(metric: Metric) -> str:
    return f"{_SCOPE}.{metric.name}"


def _attributes(client: str, metric: Metric, labels: tuple[str, ...]) -> dict[str, str]:
    attributes = {f"sharedroutes.{label}": value for label, value in zip(metric.labels, labels, strict=True)}
    return {"sharedroutes.client": client, **attributes}
