"""`health`: the state of the registry and of its server, and what to do about it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Final

import click

from ..registry import RouteStore
from ..registry.acl import Role
from ..registry.health.report import HealthReport, Severity
from .output import print_json, wrapped
from .store_options import with_store

_STATUS: Final = {Severity.OK: 0, Severity.INFO: 0, Severity.WARNING: 3, Severity.ERROR: 4}
_UNKNOWN: Final = "unknown"
_MIB: Final = 2**20


@click.command()
@with_store(Role.ADMIN)
def health(store: RouteStore, output: str) -> None:
    """Report on the registry and on the server that keeps it: what was found, and what to do about it.

    What the user has no permission to look at is named as unknown; the role `admin` may look at everything.

    Exit status 0 when nothing has to be done, 3 with warnings, 4 with errors; 1 when the store cannot be
    asked, and 2 for wrong usage, as with every command.
    """
    report = store.health()
    if output == "json":
        print_json({"severity": report.severity, **dataclasses.asdict(report)})
    else:
        facts = list(_facts(report))
        width = max(len(fact) for fact, _ in facts)
        for fact, value in facts:
            click.echo(wrapped(f"{fact:<{width}}  {value}", hanging=width + 2))
        for line in _findings(report):
            click.echo(line)
    sys.exit(_STATUS[report.severity])


def _facts(report: HealthReport) -> Iterator[tuple[str, str]]:
    server, registry = report.server, report.registry
    yield "server", f"{_text(server.kind)} {_text(server.version)}"
    yield "mode, role", f"{_text(server.mode)}, {_text(server.role)}"
    yield "replicas", _text(server.replicas)
    yield "persistence", _text(server.persistence)
    yield "memory of the server", f"{_mib(server.used_bytes)} of {_mib(server.max_bytes or None, 'no limit')}"
    yield "eviction", _text(server.eviction_policy)
    yield "keyspace events", _text(server.notifications, empty="off")
    yield "registry", f"{report.namespace}, schema {_text(registry.schema)}"
    yield "brokers, topics", f"{_text(registry.brokers)}, {_text(registry.topics)}"
    yield "key-value namespaces", _text(registry.namespaces)
    yield ("leases", f"{_text(registry.live_leases)} live, {_text(registry.due_leases)} ended, unannounced")
    yield "sweep", _text(registry.sweeper, empty="nobody")
    yield "feed", f"{_text(registry.feed_entries)} changes, of the last {_seconds(registry.feed_age_s)}"
    for kind, size in registry.memory_bytes.items():
        yield f"memory: {kind}", _mib(size)


def _findings(report: HealthReport) -> Iterator[str]:
    """Yield two lines for each finding that is not good: what was found, and what to do."""
    fine = [finding.what for finding in report.findings if finding.severity is Severity.OK]
    for finding in report.findings:
        if finding.severity is not Severity.OK:
            yield ""
            yield wrapped(f"{finding.severity.upper()} {finding.what}: {finding.text}", hanging=2)
            yield f"  {finding.advice}"  # not broken: there may be a command in it
    yield ""
    yield wrapped(f"OK {', '.join(fine)}", hanging=3)


def _text(value: object, empty: str = "none") -> str:
    return _UNKNOWN if value is None else str(value) or empty


def _mib(size: int | None, none: str = _UNKNOWN) -> str:
    return none if size is None else f"{size / _MIB:.1f} MiB"


def _seconds(age_s: float | None) -> str:
    return _UNKNOWN if age_s is None else f"{age_s:.0f} s"
