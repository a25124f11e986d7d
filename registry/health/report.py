"""A health report: facts of a registry and its server, and findings with advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """How bad a finding is; from INFO on there is advice."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    """Works now, but not under a load or a fault that must be expected."""

    ERROR = "error"
    """Does not work, or loses data."""

    @property
    def rank(self) -> int:
        """Higher is worse."""
        return _WORSE.index(self)


_WORSE: Final = (Severity.OK, Severity.INFO, Severity.WARNING, Severity.ERROR)


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement of one thing."""

    severity: Severity
    what: str
    """A short name for it, always the same: `clock`, `eviction`, ..."""

    text: str
    """What was found."""

    advice: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What is known of the server; None = it did not say."""

    kind: str | None = None
    version: str | None = None
    mode: str | None = None
    """standalone, sentinel-managed, cluster or sentinel."""

    role: str | None = None
    """master or replica."""

    replicas: int | None = None
    persistence: str | None = None
    eviction_policy: str | None = None
    used_bytes: int | None = None
    max_bytes: int | None = None
    """0 = no limit."""

    notifications: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFacts:
    """What is known of the registry; None = the server did not say."""

    schema: str | None = None
    """Empty = nobody has registered yet."""

    brokers: int | None = None
    topics: int | None = None
    namespaces: int | None = None
    live_leases: int | None = None
    due_leases: int | None = None
    """Ended and not announced yet."""

    sweeper: str | None = None
    """Who looks for leases that have ended; empty = nobody."""

    sweeper_left_s: float | None = None
    feed_entries: int | None = None
    feed_age_s: float | None = None
    """Seconds since the oldest change in the feed."""

    feed_idle_s: float | None = None
    """Seconds since the newest one."""

    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    """By kind of key, estimated from a sample."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The state of one registry and of the server that keeps it."""

    namespace: str
    server: ServerFacts
    registry: RegistryFacts
    findings: tuple[Finding, ...]
    """Of everything that was looked at, the worst first."""

    @property
    def severity(self) -> Severity:
        """That of the worst finding."""
        return max((finding.severity for finding in self.findings), key=lambda one: one.rank)
