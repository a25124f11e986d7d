"""The state of the process as Prometheus' metrics, made anew at every scrape; needs the extra `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ...daemon.metrics import family
from ..planner.status import AgentStatus, Phase
from .process_status import ProcessStatus

_PREFIX: Final = "sharedroutes_agent_"


class Family(NamedTuple):
    """One number for each broker; None is left out, and a text is 1 unless it is empty."""

    name: str
    """It ends with _total if it only grows: a counter; else it is a gauge."""

    help: str
    value: Callable[[AgentStatus], float | str | None]

    def number(self, one: AgentStatus) -> float | None:
        """Return the number of this broker, if there is one."""
        value = self.value(one)
        return bool(value) if isinstance(value, str) else value


METRICS: Final = (
    Family("broker_up", "Whether the broker is alive; absent while nobody knows.", lambda one: one.broker_up),
    Family("ready", "Whether the broker is served, or on standby.", lambda one: not one.unready),
    Family("stuck", "Whether the agent has stopped calling the store.", lambda one: one.stuck),
    Family(
        "trouble",
        "Whether the store keeps the agent from its work; /status says how.",
        lambda one: one.trouble,
    ),
    Family(
        "source_trouble",
        "Whether topics, queue mappings or the broker.conf cannot be read; /status says which.",
        lambda one: one.source_trouble,
    ),
    Family(
        "unreachable",
        "Whether nobody may be able to connect to the address that clients are told; /status says why.",
        lambda one: one.advice,
    ),
    Family(
        "master_known",
        "Whether a slave's master is alive; absent for masters.",
        lambda one: one.master_address,
    ),
    Family("topics", "Topics in the table that was read last.", lambda one: one.topics),
    Family("in_step", "Whether the store holds that table.", lambda one: one.in_step),
    Family(
        "last_heartbeat_age_seconds",
        "Time since the store confirmed the lease; absent while there is none.",
        lambda one: one.last_heartbeat_s,
    ),
    Family("registrations_total", "Tables written.", lambda one: one.registrations),
    Family("heartbeats_total", "Renewals of the lease.", lambda one: one.heartbeats),
    Family("store_failures_total", "Calls of the store that failed.", lambda one: one.failures),
    Family("fenced_total", "Times another agent took the broker over.", lambda one: one.fenced),
)
"""The metrics of each broker; those of the process are in `StatusCollector`."""


class StatusCollector(Collector):
    """Collects the state of the process at one moment."""

    def __init__(self, status: ProcessStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield every family."""
        status, prefixed = self._status, partial(family, _PREFIX)
        brokers, clock_problem = status.brokers, status.clock_problem is not None
        yield prefixed("info", "The version of the agent.", ("version",), [((status.version,), 1)])
        yield prefixed("uptime_seconds", "Time since the process started.", (), [((), status.uptime_s)])
        text = (
            "Whether the clock of the store's server stands still or jumps; "
            "only the agent that announces ends of leases looks."
        )
        yield prefixed("clock_problem", text, (), [((), clock_problem)])
        text = "Brokers whose broker.conf cannot be read yet."
        yield prefixed("awaited", text, (), [((), len(status.awaited))])
        phases = [((one.name, phase.value), phase is one.phase) for one in brokers for phase in Phase]
        yield prefixed("phase", "1 for the phase it is in, 0 for the others.", ("broker", "phase"), phases)
        masters = [
            ((one.name, one.master_address, one.master_ha_address or ""), 1)
            for one in brokers
            if one.master_address
        ]
        labels = ("broker", "address", "ha_address")
        yield prefixed("master", "1 for the master that a slave follows.", labels, masters)
        for each in METRICS:
            found = [((one.name,), number) for one in brokers if (number := each.number(one)) is not None]
            yield prefixed(each.name, each.help, ("broker",), found)
