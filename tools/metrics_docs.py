"""Writes docs/metrics.md: every metric of agents and fronts, as the code declares it.

`python -m tools.metrics_docs` rewrites the page; `--check` says whether it would change, and ends with 1.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prometheus_client.metrics_core import Metric

from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.process import metrics as agent_metrics
from sharedroutes.broker_agent.process.process_status import ProcessStatus as AgentProcess
from sharedroutes.nameserver import metrics as front_metrics
from sharedroutes.nameserver.status import FAMILIES
from sharedroutes.nameserver.status import ProcessStatus as FrontProcess

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
_HEAD: Final = """# Metrics

`GET /metrics` of every agent (port 9877) and front (port 9878), for Prometheus; it needs the extra `metrics`.
`make generate` writes this page from the code. Alerts are in
[deploy/prometheus](../deploy/prometheus/sharedroutes.rules.yaml), a dashboard for Grafana is in
[deploy/grafana](../deploy/grafana/sharedroutes.json).
"""
_AGENTS: Final = """
## Of an agent

The label `broker` is the name of the broker and its id, as `broker-a:0`. Besides these there are the
`process_*` metrics of `prometheus_client`: memory, CPU time, open files.

"""
_FRONTS: Final = """
## Of a front

With workers, `ready` is the least of them, `topics`, `held` and `feed_age_seconds` are the largest, and all
else are sums; the numbers of workers are absent without them.

"""


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
    return agent_metrics.StatusCollector(lambda: status).collect()


def of_front() -> Iterable[Metric]:
    """Return the metrics of a front, each with a sample."""
    samples = {one.name: [([""] * len(one.labels), 0.0)] for one in FAMILIES}
    workers = ({"number": 1, "restarts": 0},)
    status = FrontProcess(
        version="", uptime_s=0.0, listen="", store="", namespace="", samples=samples, workers=workers
    )
    return front_metrics.StatusCollector(status).collect()


def name_of(metric: Metric) -> str:
    """Return the name as it is scraped."""
    return metric.samples[0].name


def labels_of(metric: Metric) -> tuple[str, ...]:
    """Return the names of its labels."""
    return tuple(metric.samples[0].labels)


def written() -> str:
    """Return the page."""
    return f"{_HEAD}{_AGENTS}{_table(of_agent())}{_FRONTS}{_table(of_front())}"


def _table(metrics: Iterable[Metric]) -> str:
    rows = (
        f"| `{name_of(one)}` | {one.type} | {', '.join(f'`{label}`' for label in labels_of(one))} |"
        f" {one.documentation} |\n"
        for one in metrics
    )
    return "| metric | type | labels | meaning |\n|---|---|---|---|\n" + "".join(rows)


def main() -> int:
    """Write or check the page; return the exit status."""
    text = written()
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(PAGE.relative_to(PAGE.parents[1]))
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    return int("--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
