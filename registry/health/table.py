"""What a health report says of the registry's own keys: each function judges one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ..config import RegistryConfig
from ..scripts import SCHEMA
from .report import Readings, Severity, Unknown, Verdict, told

_SLACK_MS: Final = 1_000
_STREAM_NODE: Final = 100
"""Redis trims whole nodes of a stream (stream-node-max-entries)."""

_FUTURE_MS: Final = 1_000
_SHOWN: Final = 3
_MIB: Final = 2**20
_SWEEP: Final = "start an agent or a front, or call RouteStore.sweep in a loop"


def late_ms(config: RegistryConfig) -> int:
    """Return how late the end of a lease may be announced: the sweep changes hands, and 1 s on top."""
    return round(config.sweeper_lease_s * 1000) + _SLACK_MS


def memory_bytes(readings: Readings) -> dict[str, int]:
    """Return the estimated memory by kind of key, without the kinds that are not known."""
    return {
        kind: sum(sample.estimate for sample in samples)
        for kind, samples in sorted(readings.memory.items())
        if not isinstance(samples, Unknown)
    }


def _keys(readings: Readings, _: RegistryConfig) -> Verdict:
    if readings.busy:
        text = "a script keeps the server busy: nobody is answered"
        return Severity.ERROR, text, "SCRIPT KILL, and find out whose script it is"
    if readings.foreign:
        text = f"another type than the registry writes: {', '.join(readings.foreign)}"
        return Severity.ERROR, text, "RENAME the foreign key away, or choose another namespace"
    if readings.failed:
        text = f"the registry's keys cannot be read: {readings.failed[0]}"
        return Severity.ERROR, text, "give the address of the server, or of the cluster, that holds them"
    return Severity.OK, "can be read", ""


def _schema(readings: Readings, _: RegistryConfig) -> Verdict:
    found = told(readings.schema)
    if found is None:
        return Severity.OK, "none yet: the first registration writes it", ""
    if not found.isdecimal():
        advice = f"SET it to {SCHEMA}, or restore it"
        return Severity.ERROR, f"the schema is {found[:40]!r}, which is none", advice
    if int(found) > SCHEMA:
        text = f"schema {found}, and this sharedroutes knows schemas up to {SCHEMA}"
        return Severity.ERROR, text, "upgrade this sharedroutes, or use another namespace"
    return Severity.OK, f"schema {found}", ""


def _leases(readings: Readings, config: RegistryConfig) -> Verdict:
    overdue = told(readings.overdue)
    if overdue:
        text = (
            f"leases that ended over {late_ms(config) / 1000:g} s ago, and nobody announced it: {overdue}. "
            "Lookups leave these brokers out, but clients learn of it only when they read everything again"
        )
        return Severity.ERROR, text, f"nobody sweeps: {_SWEEP}"
    return Severity.OK, f"{told(readings.live)} live, {told(readings.due)} just ended", ""


def _members(readings: Readings, _: RegistryConfig) -> Verdict:
    lost, seen = readings.without_deadline, told(readings.members_seen)
    if not lost:
        return Severity.OK, f"each of {seen} members that were looked at has a deadline", ""
    names = ", ".join(lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
    text = (
        f"{len(lost)} of {seen} members that were looked at have no deadline, so that "
        f"nobody would announce their end: {names}"
    )
    return Severity.WARNING, text, "live ones get it with their next heartbeat; unregister the others"


def _sweeper(readings: Readings, _: RegistryConfig) -> Verdict:
    holder = told(readings.sweeper)
    if holder is not None:
        return Severity.OK, f"{holder}, for another {max(0, told(readings.sweeper_left_ms))} ms", ""
    leases = told(readings.live) + told(readings.due)
    if not leases:
        return Severity.OK, "nobody, and there is no lease to look after", ""
    text = f"nobody; leases whose end would not be announced: {leases}"
    return Severity.WARNING, text, _SWEEP


def _feed(readings: Readings, config: RegistryConfig) -> Verdict:
    entries, brokers = told(readings.feed_entries), told(readings.brokers)
    if not entries:
        if not brokers:
            return Severity.OK, "empty, as the registry is", ""
        text = f"empty, and {brokers} brokers are known: somebody deleted or trimmed it"
        return Severity.WARNING, text, "find out who; followers notice, and read everything again"
    now_ms = told(readings.now_us) // 1000
    ahead_ms = (told(readings.feed_last_ms) or 0) - now_ms
    if ahead_ms > _FUTURE_MS:
        text = f"the newest change is {ahead_ms / 1000:.1f} s ahead of the server's clock, which went back"
        advice = "leases live longer by that; let the time service slew the clock, not step it"
        return Severity.WARNING, text, advice
    age_s = (now_ms - (told(readings.feed_first_ms) or 0)) / 1000
    text = f"{entries} changes, the oldest {age_s:.0f} s old"
    if entries > config.feed_max_entries + _STREAM_NODE and age_s > config.feed_min_age_s:
        text += f", above the {config.feed_max_entries} of this configuration"
        advice = "who writes has another feed_max_entries or feed_min_age_s: make them equal"
        return Severity.INFO, text, advice
    return Severity.OK, text, ""


def _memory(readings: Readings, _: RegistryConfig) -> Verdict:
    for samples in readings.memory.values():
        told(samples)
    return Severity.OK, f"about {sum(memory_bytes(readings).values()) / _MIB:.1f} MiB", ""


TABLE: Final[Mapping[str, Callable[[Readings, RegistryConfig], Verdict]]] = {
    "keys": _keys,
    "schema": _schema,
    "leases": _leases,
    "members": _members,
    "sweeper": _sweeper,
    "feed": _feed,
    "memory": _memory,
}
"""What is looked at, by its name in the report."""
