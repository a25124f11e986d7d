"""From what a server answered to a health report; pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from ..config import RegistryConfig
from .report import (
    Finding,
    HealthReport,
    NotTold,
    Readings,
    RegistryFacts,
    ServerFacts,
    Severity,
    Verdict,
    info_field,
    told,
    told_or_none,
)
from .server import SERVER, kind_and_version, mode, persistence, role
from .table import TABLE, memory_bytes

T = TypeVar("T")

_ADVICE: Final = "to know it, ask as a user with the role admin (`sharedroutes acl admin`)"


def examine(readings: Readings, config: RegistryConfig) -> HealthReport:
    """Return the report on the registry of `config`, the worst findings first."""
    findings = [_finding(what, partial(check, readings)) for what, check in SERVER.items()]
    findings += [_finding(what, partial(check, readings, config)) for what, check in TABLE.items()]
    findings.sort(key=lambda finding: -finding.severity.rank)
    return HealthReport(config.namespace, _server(readings), _registry(readings), tuple(findings))


def _finding(what: str, check: Callable[[], Verdict]) -> Finding:
    try:
        severity, text, advice = check()
    except NotTold as error:
        return Finding(Severity.INFO, what, f"unknown: {error}", _ADVICE)
    return Finding(severity, what, text, advice)


def _fact(make: Callable[[], T]) -> T | None:
    """Return a fact, or None when the server did not tell it."""
    try:
        return make()
    except NotTold:
        return None


def _server(readings: Readings) -> ServerFacts:
    return ServerFacts(
        kind=_fact(lambda: kind_and_version(readings)[0]),
        version=_fact(lambda: kind_and_version(readings)[1]),
        mode=_fact(lambda: mode(readings)),
        role=_fact(lambda: role(readings)),
        replicas=_fact(lambda: int(info_field(readings, "connected_slaves"))),
        persistence=_fact(lambda: persistence(readings)),
        eviction_policy=_fact(lambda: str(info_field(readings, "maxmemory_policy"))),
        used_bytes=_fact(lambda: int(info_field(readings, "used_memory"))),
        max_bytes=_fact(lambda: int(info_field(readings, "maxmemory"))),
        notifications=told_or_none(readings.settings["notify-keyspace-events"]),
    )


def _registry(readings: Readings) -> RegistryFacts:
    return RegistryFacts(
        schema=_fact(lambda: told(readings.schema) or ""),
        brokers=told_or_none(readings.brokers),
        topics=told_or_none(readings.topics),
        namespaces=told_or_none(readings.namespaces),
        live_leases=told_or_none(readings.live),
        due_leases=told_or_none(readings.due),
        sweeper=_fact(lambda: told(readings.sweeper) or ""),
        sweeper_left_s=_fact(lambda: max(0, told(readings.sweeper_left_ms)) / 1000),
        feed_entries=told_or_none(readings.feed_entries),
        feed_age_s=_fact(lambda: _age_s(readings, told(readings.feed_first_ms))),
        feed_idle_s=_fact(lambda: _age_s(readings, told(readings.feed_last_ms))),
        memory_bytes=memory_bytes(readings),
    )


def _age_s(readings: Readings, then_ms: int | None) -> float | None:
    return None if then_ms is None else told(readings.now_us) / 1e6 - then_ms / 1000
