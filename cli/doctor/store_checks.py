"""Checks of the store: its health report, how it is reached, its clock, and who may do what in it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from ...registry.acl import Role, commands_of
from ...registry.health.findings import HealthReport, Severity
from .finding import Finding, Level, fine, unknown
from .snapshot import Access, Clock, Connection, Snapshot, Unknown

_LEVELS: Final = {
    Severity.OK: Level.OK,
    Severity.INFO: Level.OK,
    Severity.WARNING: Level.WARNING,
    Severity.ERROR: Level.ERROR,
}
_CLOCK_S: Final = 2.0
_A_DAY_S: Final = 86_400.0
_SOON_DAYS: Final = 30
_VERY_SOON_DAYS: Final = 7

WHY: Final = {
    "version": "scripts need commands that older servers do not have",
    "mode": "every command has to reach the server that keeps the registry",
    "role": "brokers that cannot renew their leases there vanish from the routes",
    "failover": "when this server dies, registrations are refused or lost, and new clients find nothing",
    "persistence": "what only the store knows (key-value pairs, wiped permissions) is lost in a restart",
    "last-save": "the server refuses all writes after a failed save, and leases end",
    "eviction": "a lease that is evicted makes a live broker vanish from all routes",
    "evicted-keys": "a lease or a route among them was missing for clients",
    "headroom": "a full server refuses registrations: new topics and brokers reach no client",
    "notifications": "the end of a lease is announced a little later",
    "clock": "leases end by this clock: dead brokers stay in the routes, or live ones leave them",
    "rejected-connections": "clients and agents that find no connection learn of no change",
    "doorbell-buffer": "a slow subscriber costs memory, or hears of changes later",
    "keys": "what cannot be read is not served",
    "schema": "owners go on, but what an operator changes is refused",
    "leases": "clients hear of the end of these brokers only when they read everything again",
    "members": "clients would hear of the end of these brokers only when they read everything again",
    "sweeper": "when a broker's host dies, nobody tells clients before they read everything again",
    "feed": "followers and clients read the whole table again, or take changes for older than they are",
    "memory": "the registry needs room to grow",
}
"""Why each finding of a health report matters."""


def check_store(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what is to be said of the store."""
    if isinstance(snapshot.health, Unknown):
        yield Finding(
            "store",
            Level.ERROR,
            snapshot.health.why,
            "clients and fronts serve the routes that they last knew, and learn of no change",
            "see whether the server runs, and whether URL, user and password are right",
        )
    else:
        yield fine("store", "answers")
        yield from _of_report(snapshot.health)
    yield from check_connection(snapshot.connection, snapshot.now_s)
    yield _clock_of(snapshot.clock)
    yield from _access_of(snapshot.access, snapshot.namespace)


def _of_report(report: HealthReport) -> Iterator[Finding]:
    for found in report.findings:
        is_unknown = found.text.startswith("unknown: ")
        level = Level.SKIPPED if is_unknown else _LEVELS[found.severity]
        yield Finding(found.what, level, found.text, WHY[found.what] if level.status else "", found.advice)


def check_connection(connection: Connection, now_s: float) -> Iterator[Finding]:
    """Yield what is to be said of the way to the store: encryption and certificates."""
    strangers = [host for host in connection.hosts if not _is_here(host)]
    if not connection.is_encrypted:
        if strangers:
            yield Finding(
                "tls",
                Level.WARNING,
                f"the connection to {', '.join(strangers)} is not encrypted",
                "whoever sees the traffic reads the password, and may change routes on the way",
                "let the server speak TLS, and name it rediss:// (docs/operating.md)",
            )
        else:
            yield fine("tls", "the store is on this host")
    elif not connection.checks_certificate:
        yield Finding(
            "tls",
            Level.WARNING,
            "the certificate of the server is not checked",
            "anybody between here and there can pose as the store",
            "take ssl_cert_reqs out of the URL, and name the authority with ssl_ca_certs",
        )
    else:
        yield _certificate(connection.certificate_ends_s, now_s)


def _certificate(ends_s: float | None, now_s: float) -> Finding:
    if ends_s is None:
        return fine("tls", "encrypted, and the certificate is checked")
    days = (ends_s - now_s) / _A_DAY_S
    text = f"the certificate of the server is good for {days:.0f} days"
    if days >= _SOON_DAYS:
        return fine("tls", text)
    level = Level.ERROR if days < _VERY_SOON_DAYS else Level.WARNING
    why = "once it has ended, agents and clients cannot connect any more, and all leases end"
    return Finding("tls", level, text, why, "renew it; the server takes it with CONFIG SET tls-cert-file")


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _clock_of(clock: Clock | Unknown) -> Finding:
    if isinstance(clock, Unknown):
        return unknown("clock-skew", clock.why)
    text = f"this host's clock is {abs(clock.ahead_s):.1f} s {'ahead of' if clock.ahead_s > 0 else 'behind'}"
    if abs(clock.ahead_s) - clock.uncertain_s <= _CLOCK_S:
        return fine("clock-skew", f"{text} the server's")
    return Finding(
        "clock-skew",
        Level.WARNING,
        f"{text} the server's",
        "times of changes, which are the server's, do not fit the times in logs of other hosts",
        "let a time service (chrony, ntpd) keep the clocks of both hosts",
    )


def _access_of(access: Access | Unknown, namespace: str) -> Iterator[Finding]:
    if isinstance(access, Unknown):
        yield unknown("access", access.why)
        return
    if access.admits_everybody and not access.is_protected:
        yield Finding(
            "access",
            Level.WARNING,
            "the server takes everybody, from everywhere, without a password",
            "whoever reaches its port may take brokers out of the routes, or put in others",
            "give each role a user (`sharedroutes acl`), then ACL SETUSER default off",
        )
    else:
        yield fine("access", "not everybody is let in")
    yield from (_rights(name, access.allowed[name], namespace) for name in sorted(access.allowed))


def _rights(name: str, allowed: frozenset[str], namespace: str) -> Finding:
    role = Role(name.rpartition("-")[2])
    lacking = sorted(commands_of(role) - allowed)
    if not lacking:
        return fine("rights", f"user {name} may do what the role {role} needs")
    return Finding(
        "rights",
        Level.ERROR,
        f"user {name} may not run {', '.join(lacking)}",
        f"what this release does with the role {role} is refused",
        f"give it those of this release: `sharedroutes acl {role} --namespace {namespace} --user {name}`",
    )
