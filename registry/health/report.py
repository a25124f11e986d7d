"""What a health report consists of: what was read, the facts in it, and the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")


class Severity(StrEnum):
    """How bad a finding is; from INFO on there is advice."""

    OK = "ok"
    INFO = "info"
    WARNING = "warning"
    """Works, and will not under a load or a fault that is to be expected."""

    ERROR = "error"
    """Does not work, or loses data."""

    @property
    def rank(self) -> int:
        """Higher is worse."""
        return _WORSE.index(self)


_WORSE: Final = (Severity.OK, Severity.INFO, Severity.WARNING, Severity.ERROR)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    severity: Severity
    what: str
    """A short name for it, always the same: `clock`, `eviction`, ..."""

    text: str
    """What was found."""

    advice: str = ""
    """What to do about it."""


Verdict: TypeAlias = tuple[Severity, str, str]
"""Severity, text and advice of a finding."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for an answer that the server did not give."""

    reason: str


Told: TypeAlias = T | Unknown


class NotTold(Exception):
    """A finding needs an answer that the server did not give."""


def told(value: T | Unknown) -> T:
    """Return an answer; raise NotTold for one that was not given."""
    if isinstance(value, Unknown):
        raise NotTold(value.reason)
    return value


def info_field(readings: Readings, name: str) -> Any:
    """Return what INFO says of something; raise NotTold when it does not."""
    info = told(readings.info)
    if name not in info:
        raise NotTold(f"INFO does not tell {name}")
    return info[name]


def told_or_none(value: T | Unknown) -> T | None:
    """Return an answer, or None for one that was not given."""
    return None if isinstance(value, Unknown) else value


@dataclass(frozen=True, slots=True)
class Sampled:
    """How much some of a kind need, and how many there are of it."""

    total: int
    seen: int
    seen_bytes: int

    @property
    def estimate(self) -> int:
        """The bytes of all of them, by the mean of those that were seen."""
        return round(self.total * self.seen_bytes / self.seen) if self.seen else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What the server answered."""

    info: Told[Mapping[str, Any]]
    settings: Mapping[str, Told[str]]
    """Settings of the server by name (CONFIG GET)."""

    sentinels: Told[int]
    """Sentinels that watch this server: they listen to its channel `__sentinel__:hello`."""

    first_us: Told[int]
    now_us: Told[int]
    """The server's clock, twice, with a pause between."""

    schema: Told[str | None]
    sweeper: Told[str | None]
    sweeper_left_ms: Told[int]
    brokers: Told[int]
    topics: Told[int]
    namespaces: Told[int]
    feed_entries: Told[int]
    feed_first_ms: Told[int | None]
    feed_last_ms: Told[int | None]
    live: Told[int]
    """Leases that have not ended."""

    due: Told[int]
    """Leases that have ended and are not announced yet."""

    overdue: Told[int]
    """Those of them that should have been announced for some time."""

    members_seen: Told[int]
    without_deadline: Sequence[str]
    """Of those members, `broker:id` of those for which no deadline is noted."""

    memory: Mapping[str, Told[tuple[Sampled, ...]]]
    """By kind of key."""

    busy: bool
    """Whether the server answered that a script keeps it busy."""

    foreign: Sequence[str]
    """Keys of another type than the registry writes."""

    failed: Sequence[str]
    """Reads of the registry's keys that the server answered with an error, and the error."""


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
