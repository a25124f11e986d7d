"""The numbers of a process as Prometheus' metrics, made anew at every scrape; needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


def page(collector: Collector, accept: str, *, of_process: bool = False) -> tuple[bytes, str]:
    """Return the page and its content type, in the format that the header Accept asks for.

    `of_process`: with what Prometheus' own collector says of this process.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    if of_process:
        ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def family(
    prefix: str, name: str, text: str, labels: Sequence[str], found: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """Return a counter if its name ends with _total, else a gauge, with a value for each set of labels."""
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    made = kind(prefix + name, text, labels=labels)
    for values, number in found:
        made.add_metric(values, float(number))
    return made
