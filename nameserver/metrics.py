"""The numbers of the front as Prometheus' metrics, made anew at every scrape; needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .status import FAMILIES, ProcessStatus

PREFIX = "sharedroutes_nameserver_"


def page(status: ProcessStatus, accept: str) -> tuple[bytes, str]:
    """Return the page and its content type, in the format that the header Accept asks for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(status))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class StatusCollector(Collector):
    """Collects the numbers of one moment."""

    def __init__(self, status: ProcessStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        status = self._status
        yield _family("info", "The version of the front.", ("version",), [((status.version,), 1)])
        yield _family("uptime_seconds", "Time since the process started.", (), [((), status.uptime_s)])
        if status.workers:
            running = sum("pid" in worker for worker in status.workers)
            restarts = sum(worker["restarts"] for worker in status.workers)
            yield _family("workers", "Worker processes that run.", (), [((), running)])
            text = "Worker processes that ended unexpectedly, and were replaced."
            yield _family("worker_restarts_total", text, (), [((), restarts)])
        for each in FAMILIES:
            yield _family(each.name, each.help, each.labels, status.samples.get(each.name, ()))


def _family(
    name: str, text: str, labels: Sequence[str], found: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(PREFIX + name, text, labels=labels)
    for values, number in found:
        family.add_metric(values, number)
    return family
