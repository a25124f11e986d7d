"""The numbers of the front as Prometheus' metrics, made anew at every scrape; needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..daemon import metrics
from ..daemon.metrics import family
from .status import FAMILIES, ProcessStatus

PREFIX = "sharedroutes_nameserver_"


def page(status: ProcessStatus, accept: str) -> tuple[bytes, str]:
    """Return the page and its content type, in the format that the header Accept asks for."""
    return metrics.page(StatusCollector(status), accept)


class StatusCollector(Collector):
    """Collects the numbers of one moment."""

    def __init__(self, status: ProcessStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        status, prefixed = self._status, partial(family, PREFIX)
        yield prefixed("info", "The version of the front.", ("version",), [((status.version,), 1)])
        yield prefixed("uptime_seconds", "Time since the process started.", (), [((), status.uptime_s)])
        if status.workers:
            running = sum("pid" in worker for worker in status.workers)
            restarts = sum(worker["restarts"] for worker in status.workers)
            yield prefixed("workers", "Worker processes that run.", (), [((), running)])
            text = "Worker processes that ended unexpectedly, and were replaced."
            yield prefixed("worker_restarts_total", text, (), [((), restarts)])
        for each in FAMILIES:
            yield prefixed(each.name, each.help, each.labels, status.samples.get(each.name, ()))
