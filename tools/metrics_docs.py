"""Writes docs/metrics.md: every metric of clients, agents and fronts, as the code declares it.

`python -m tools.metrics_docs` rewrites the page; `--check` shows how it would change, and ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from prometheus_client.metrics_core import Metric

from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.process import metrics as agent_metrics
from sharedroutes.broker_agent.process.process_status import ProcessStatus as AgentProcess
from sharedroutes.client.observers.metrics import COUNTERS, GAUGES, HISTOGRAMS
from sharedroutes.client.observers.metrics import Metric as OfClient
from sharedroutes.nameserver import metrics as front_metrics
from sharedroutes.nameserver.status import FAMILIES
from sharedroutes.nameserver.status import ProcessStatus as FrontProcess
from tools.pages import DOCS, table, write

PAGE: Final = DOCS / "metrics.md"
_HEAD: Final = """# Metrics

What each metric means: of [agents](#of-an-agent), of [fronts](#of-a-front), of
[route clients](#of-a-route-client) in services.

Every agent (port 9877) and every front (port 9878) has `GET /metrics` for Prometheus, with the extra
`metrics`. A service gives its route client an [observer](client/reports.md#metrics). `make generate` writes
this page from the code. Alerts are in
[deploy/prometheus](../deploy/prometheus/sharedroutes.rules.yaml), a dashboard for Grafana is in
[deploy/grafana](../deploy/grafana/sharedroutes.json).

A metric whose meaning begins with "Whether" is 1 for yes and 0 for no. Units stand in the names: `_seconds`,
`_bytes`; what ends in `_total` is a count since the process started.
"""
_AGENTS: Final = """
## Of an agent

The label `broker` is the name of the broker and its id, as `broker-a:0`. Besides these there are the
`process_*` metrics of `prometheus_client`: memory, CPU time, open files.

"""
_FRONTS: Final = """
## Of a front

Requests of codes that no name server knows have the code `other`. With workers, `ready` is the least of
them, `topics`, `held` and `feed_age_seconds` are the largest, and all else are sums, which do not shrink when
a worker is replaced. The numbers of workers are absent without them.

"""
_CLIENTS: Final = """
## Of a route client

Each has the label `client`, too: the name of the client. Topics are no labels: there can be too many. In
OpenTelemetry the names are those of the second column, and attributes begin with `sharedroutes.`.

"""
_IN_CLIENTS: Final = {"counter": COUNTERS, "histogram": HISTOGRAMS, "gauge": GAUGES}


_BROKER: Final = AgentStatus(
    name="broker-a:0",
    broker=None,
    phase=Phase.SERVING,
    phase_s=0.0,
    broker_up=True,
    last_heartbeat_s=0.0,
    master_address="h:1",
)
"""A broker of which every metric is told."""


def of_agent() -> Iterable[Metric]:
    """Return the metrics of an agent, each with a sample."""
    status = AgentProcess(
        version="", uptime_s=0.0, store="", namespace="", clock_problem=None, brokers=(_BROKER,)
    )
    return agent_metrics.StatusCollector(status).collect()


def of_front() -> Iterable[Metric]:
    """Return the metrics of a front, each with a sample."""
    samples = {one.name: [([""] * len(one.labels), 0.0)] for one in FAMILIES}
    workers = ({"number": 1, "restarts": 0},)
    status = FrontProcess(
        version="", uptime_s=0.0, listen="", store="", namespace="", samples=samples, workers=workers
    )
    return front_metrics.StatusCollector(status).collect()


def of_client() -> Iterable[tuple[str, str, OfClient]]:
    """Return the metrics of a route client, each with its name in Prometheus and its type."""
    for kind, metrics in _IN_CLIENTS.items():
        for one in metrics:
            unit = "_seconds" if one.unit == "s" else ""
            total = "_total" if kind == "counter" else ""
            yield f"sharedroutes_client_{one.name.replace('.', '_')}{unit}{total}", kind, one


def name_of(metric: Metric) -> str:
    """Return the name as it is scraped."""
    return metric.samples[0].name


def labels_of(metric: Metric) -> tuple[str, ...]:
    """Return the names of its labels."""
    return tuple(metric.samples[0].labels)


def written() -> str:
    """Return the page."""
    parts = (_AGENTS, _table(of_agent()), _FRONTS, _table(of_front()), _CLIENTS, _table_of_clients())
    return _HEAD + "".join(parts)


def _table(metrics: Iterable[Metric]) -> str:
    rows = ((f"`{name_of(one)}`", one.type, _quoted(labels_of(one)), one.documentation) for one in metrics)
    return table(("metric", "type", "labels", "meaning"), rows)


def _table_of_clients() -> str:
    rows = (
        (f"`{name}`", f"`sharedroutes.client.{one.name}`", kind, _quoted(one.labels), one.help)
        for name, kind, one in of_client()
    )
    return table(("metric", "in OpenTelemetry", "type", "labels", "meaning"), rows)


def _quoted(labels: Iterable[str]) -> str:
    return ", ".join(f"`{label}`" for label in labels)


if __name__ == "__main__":
    sys.exit(write({PAGE: written()}))
