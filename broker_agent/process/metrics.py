"""The state of the process as Prometheus' metrics, made anew at every scrape; needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ..planner.status import Phase
from .status import BrokerStatus, ProcessStatus

_PREFIX: Final = "sharedroutes_agent_"


class Family(NamedTuple):
    """One metric; a value of None is left out."""

    name: str
    labels: tuple[str, ...]
    help: str
    value: Callable[[BrokerStatus], float | None]

    @property
    def kind(self) -> str:
        """Whether it is a counter or a gauge, as its name says."""
        return "counter" if self.name.endswith("_total") else "gauge"


_BROKER: Final = ("broker",)

METRICS: Final = (
    Family(
        "broker_up",
        _BROKER,
        "Whether the broker is alive; absent until that is known.",
        lambda one: None if one.agent.broker_up is None else float(one.agent.broker_up),
    ),
    Family("ready", _BROKER, "Whether the broker is served, or on standby.", lambda one: not one.unready),
    Family("stuck", _BROKER, "Whether the agent makes no progress.", lambda one: bool(one.stuck)),
    Family(
        "trouble",
        _BROKER,
        "Whether the store keeps the agent from its work.",
        lambda one: bool(one.agent.trouble),
    ),
    Family(
        "source_trouble",
        _BROKER,
        "Whether topics or the broker.conf cannot be read, in whole or in part.",
        lambda one: bool(one.source_trouble),
    ),
    Family(
        "unreachable", _BROKER, "Whether the address for clients is doubtful.", lambda one: bool(one.advice)
    ),
    Family(
        "master_known",
        _BROKER,
        "Whether a slave's master is alive, and so known; absent for masters.",
        lambda one: None if one.master is None else bool(one.master.address),
    ),
    Family("topics", _BROKER, "Topics in the table that was read last.", lambda one: one.agent.topics),
    Family("in_step", _BROKER, "Whether the store holds that table.", lambda one: one.agent.in_step),
    Family(
        "last_heartbeat_age_seconds",
        _BROKER,
        "Since the store confirmed the lease; absent while there is none.",
        lambda one: one.agent.last_heartbeat_s,
    ),
    Family("registrations_total", _BROKER, "Tables written.", lambda one: one.agent.registrations),
    Family("heartbeats_total", _BROKER, "Renewals of the lease.", lambda one: one.agent.heartbeats),
    Family(
        "store_failures_total", _BROKER, "Calls of the store that failed.", lambda one: one.agent.failures
    ),
    Family(
        "fenced_total", _BROKER, "Times another agent took the broker over.", lambda one: one.agent.fenced
    ),
)
"""The metrics of each broker; those of the process are in `Metrics`."""


class Metrics:
    """Makes the page; `status` is asked at every scrape."""

    def __init__(self, status: Callable[[], ProcessStatus]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collector(status))
        ProcessCollector(registry=self._registry)

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the page and its content type, in the format that the header Accept asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class _Collector(Collector):
    def __init__(self, status: Callable[[], ProcessStatus]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        info = GaugeMetricFamily(f"{_PREFIX}info", "The version of the agent.", labels=("version",))
        info.add_metric((status.version,), 1)
        yield info
        yield GaugeMetricFamily(f"{_PREFIX}uptime_seconds", "Since the process works.", status.uptime_s)
        yield GaugeMetricFamily(
            f"{_PREFIX}clock_problem",
            "Whether the clock of the store's server stands still or jumps.",
            float(status.clock_problem is not None),
        )
        yield GaugeMetricFamily(
            f"{_PREFIX}awaited", "Brokers whose broker.conf cannot be read yet.", len(status.awaited)
        )
        yield _phases(status)
        yield _masters(status)
        for family in METRICS:
            yield _of_brokers(family, status)


def _phases(status: ProcessStatus) -> Metric:
    found = GaugeMetricFamily(f"{_PREFIX}phase", "1 for the phase of the agent.", labels=("broker", "phase"))
    for one in status.brokers:
        for phase in Phase:
            found.add_metric((one.agent.name, phase.value), float(phase is one.agent.phase))
    return found


def _masters(status: ProcessStatus) -> Metric:
    labels = ("broker", "address", "ha_address")
    found = GaugeMetricFamily(f"{_PREFIX}master", "1 for the master that a slave follows.", labels=labels)
    for one in status.brokers:
        if one.master is not None and one.master.address:
            found.add_metric((one.agent.name, *one.master), 1.0)
    return found


def _of_brokers(family: Family, status: ProcessStatus) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    found = kind(_PREFIX + family.name, family.help, labels=family.labels)
    for one in status.brokers:
        value = family.value(one)
        if value is not None:
            found.add_metric((one.agent.name,), float(value))
    return found
