"""What `doctor` gathers: a registry, its server, and the processes around it, at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ...registry.health.findings import HealthReport
from ...registry.plans.repair.differences import Difference
from ...registry.plans.replicas import Replica


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why something could not be looked at."""

    why: str


class ProcessKind(StrEnum):
    """What a process around the registry is."""

    AGENT = "agent"
    FRONT = "front"


@dataclass(frozen=True, slots=True)
class Process:
    """An agent or a front, and the page `/status` that it shows."""

    kind: ProcessKind
    address: str
    page: Mapping[str, Any] | Unknown
    is_named: bool = True
    """Whether somebody has named it; else it was looked for at its usual address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How the store is reached, by its URL."""

    hosts: tuple[str, ...] = ()
    """Of the servers, the Sentinels or the nodes; empty with a unix socket."""

    is_encrypted: bool = False
    checks_certificate: bool = False
    certificate_ends_s: float | None = None
    """When the certificate of the server ends, s since 1970; None = not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How far this host's clock is from the server's."""

    ahead_s: float
    """Negative = it is behind."""

    uncertain_s: float
    """Half the time that the answer took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may do what in the store."""

    admits_everybody: bool
    """Whether the default user needs no password."""

    is_protected: bool
    """Whether the server then answers only its own host (protected-mode)."""

    allowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By the name of a user of this registry's roles: the commands that it may run, of those we need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What the registry holds."""

    replicas: tuple[Replica, ...]
    orphans: tuple[str, ...] | Unknown
    """Topics in the routes that no live broker holds."""

    hints: Mapping[str, frozenset[str]]
    """Broker names to the clients that cannot reach them."""

    fronts: tuple[str, ...] | Unknown
    """Those that live."""

    prober: str
    """The front that asks brokers whether they live; empty = none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that the checks look at."""

    now_s: float
    """By this host's clock, since 1970."""

    version: str
    """Of this sharedroutes."""

    namespace: str
    connection: Connection
    health: HealthReport | Unknown
    clock: Clock | Unknown
    access: Access | Unknown
    table: Table | Unknown
    differences: tuple[Difference, ...] | Unknown
    processes: tuple[Process, ...] = ()
