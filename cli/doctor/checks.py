"""All checks, in one list: the worst findings first."""

from __future__ import annotations

from .finding import Finding
from .process_checks import check_processes
from .registry_checks import check_registry
from .snapshot import Snapshot
from .store_checks import check_store


def findings(snapshot: Snapshot) -> list[Finding]:
    """Return what is to be said of everything that was gathered."""
    every = [*check_store(snapshot), *check_registry(snapshot), *check_processes(snapshot)]
    return sorted(every, key=lambda finding: -finding.level.status)
