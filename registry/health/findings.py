"""What the readings mean and what to do about it: each function judges one thing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from ..config import RegistryConfig
from ..plans import ErrorReply, Plan
from ..plans.expiry import late_ms
from ..scripts import SCHEMA
from .readings import NotTold, Readings, RegistryFacts, ServerFacts, read

CLOCK_PAUSE_S: Final = 0.05
"""Between two looks at the server's clock: long enough for any clock to move."""

_ADVICE: Final = "to know it, ask as a user with the role admin (`sharedroutes acl admin`)"
_SWEEP: Final = "start an agent or a front, or call RouteStore.sweep in a loop"
_OLDEST: Final = (6, 2)
_PERCENT: Final = 100
_NEARLY_FULL: Final = 75
_FULL: Final = 90
_STILL_US: Final = 1_000
_DOORBELL_BYTES: Final = 1_000_000
"""What a follower may lag behind: a few thousand doorbells, of up to 600 bytes each."""

_STREAM_NODE: Final = 100
"""Redis trims whole nodes of a stream (stream-node-max-entries)."""

_FUTURE_MS: Final = 1_000
_SHOWN: Final = 3
_MIB: Final = 2**20


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


Verdict: TypeAlias = tuple[Severity, str, str]
"""Severity, text and advice of a finding."""


def health(config: RegistryConfig, first_us: int | ErrorReply) -> Plan[HealthReport]:
    """Report on a registry and its server, the worst findings first.

    `first_us` is what plans.server_time said CLOCK_PAUSE_S earlier. What the user has no permission for is
    left out, and named.
    """
    readings = yield from read(config, first_us)
    findings = [_finding(judge, readings) for judge in _VERDICTS]
    findings.sort(key=lambda finding: -finding.severity.rank)
    return HealthReport(config.namespace, *readings.facts(), tuple(findings))


def _finding(judge: Callable[[Readings], Verdict], readings: Readings) -> Finding:
    what = judge.__name__[1:].replace("_", "-")
    try:
        severity, text, advice = judge(readings)
    except NotTold as error:
        return Finding(Severity.INFO, what, f"unknown: {error}", _ADVICE)
    return Finding(severity, what, text, advice)


def _version(readings: Readings) -> Verdict:
    kind, version = readings.kind_and_version
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if kind == "Redis" and numbers < _OLDEST:
        return Severity.ERROR, f"Redis {version} is too old", "upgrade to Redis 6.2 or newer, or to Valkey"
    return Severity.OK, f"{kind} {version}", ""


def _mode(readings: Readings) -> Verdict:
    found = readings.mode
    if found == "sentinel":
        advice = "give the address of the server that it watches, or name the sentinels as such"
        return Severity.ERROR, "this is a sentinel, which keeps no data", advice
    return Severity.OK, found, ""


def _role(readings: Readings) -> Verdict:
    if readings.role == "master":
        return Severity.OK, "a master", ""
    master = f"{readings.info('master_host')}:{readings.info('master_port')}"
    if readings.info("master_link_status") != "up":
        advice = f"see whether {master} lives; until then what is read here is old"
        return Severity.ERROR, f"a replica that has lost its master {master}", advice
    advice = f"give the master's address ({master}) to whoever registers, sweeps or administrates"
    return Severity.ERROR, f"a replica of {master}: it refuses heartbeats and every other write", advice


def _failover(readings: Readings) -> Verdict:
    if readings.role != "master":
        return Severity.OK, "this server is a replica itself", ""
    replicas = int(readings.info("connected_slaves"))
    wanted = int(readings["min-replicas-to-write"])
    good = int(readings.info("min_slaves_good_slaves", replicas))
    if wanted > good:
        text = f"min-replicas-to-write is {wanted} and {good} replicas are in time: all writes are refused"
        return Severity.ERROR, text, "bring the replicas back, or lower min-replicas-to-write"
    if replicas and not wanted:
        text = (
            f"{replicas} replicas and min-replicas-to-write 0: a master that is cut off goes on taking "
            "registrations, and a failover throws them away"
        )
        advice = "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10 on every node"
        return Severity.WARNING, text, advice
    if replicas:
        return Severity.OK, f"{replicas} replicas, of which writes need {wanted}", ""
    advice = "add a replica, and Sentinel or a Cluster, if lookups of new clients must survive this host"
    if readings.mode == "standalone":
        return Severity.INFO, "no replica: while this server is away, only clients' caches answer", advice
    return Severity.WARNING, f"{readings.mode} without a replica: nothing can take over", advice


def _persistence(readings: Readings) -> Verdict:
    found = readings.persistence
    if found != "none":
        return Severity.OK, found, ""
    text = (
        "neither RDB nor AOF: after a restart the registry is empty until the agents have registered again, "
        "one heartbeat later; operators' changes and the key-value store are lost"
    )
    return Severity.WARNING, text, "CONFIG SET appendonly yes (and CONFIG REWRITE)"


def _last_save(readings: Readings) -> Verdict:
    names = ("rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status")
    failed = [name for name in names if readings.info(name) != "ok"]
    if failed:
        text = f"{', '.join(failed)}: failed; Redis refuses writes after that (MISCONF)"
        return Severity.ERROR, text, "look into the server's log: a full disk, or no memory to fork"
    return Severity.OK, "nothing failed", ""


def _eviction(readings: Readings) -> Verdict:
    policy = str(readings.info("maxmemory_policy"))
    if policy == "noeviction":
        return Severity.OK, policy, ""
    advice = "CONFIG SET maxmemory-policy noeviction, and keep caches in another server"
    if not int(readings.info("maxmemory")):
        return Severity.WARNING, f"{policy} will evict keys of the registry once maxmemory is set", advice
    what = (
        "heartbeats first, so that live brokers vanish" if "volatile" in policy else "any key of the registry"
    )
    return Severity.ERROR, f"{policy} with maxmemory evicts {what}", advice


def _evicted_keys(readings: Readings) -> Verdict:
    evicted = int(readings.info("evicted_keys"))
    if not evicted:
        return Severity.OK, "none", ""
    advice = "set noeviction, let the brokers register again, and CONFIG RESETSTAT to count anew"
    text = f"{evicted} keys since the server started; the registry's may be among them"
    return Severity.WARNING, text, advice


def _headroom(readings: Readings) -> Verdict:
    used, most = int(readings.info("used_memory")), int(readings.info("maxmemory"))
    if not most:
        return Severity.INFO, "no maxmemory: the limit is that of the host", "set one below the host's memory"
    percent = used * _PERCENT // most
    text = f"{percent} % of maxmemory is used"
    advice = "raise maxmemory, or move other data away: at the limit registrations are refused (OOM)"
    if percent >= _FULL:
        return Severity.ERROR, text, advice
    return (Severity.WARNING, text, advice) if percent >= _NEARLY_FULL else (Severity.OK, text, "")


def _notifications(readings: Readings) -> Verdict:
    flags = readings["notify-keyspace-events"]
    missing = [flag for flag in "Kxg" if flag not in flags and (flag == "K" or "A" not in flags)]
    if not missing:
        return Severity.OK, f"notify-keyspace-events is {flags!r}", ""
    text = f"notify-keyspace-events is {flags!r}: the sweep goes by its deadlines alone, which is enough"
    return Severity.INFO, text, "to speed it up, CONFIG SET notify-keyspace-events Kgxe on every node"


def _clock(readings: Readings) -> Verdict:
    first, now = readings["first_us"], readings["now_us"]
    if abs(now - first) < _STILL_US:
        text = "TIME stands still: no lease ever ends, and dead brokers stay in the routes"
        return Severity.ERROR, text, "mend the clock of the server's host (suspended? a frozen container?)"
    if now < first:
        text = f"TIME went back by {(first - now) / 1e6:.3f} s: leases live longer by that"
        return Severity.ERROR, text, "let the host's time service slew the clock, not step it"
    return Severity.OK, "moves", ""


def _rejected_connections(readings: Readings) -> Verdict:
    rejected = int(readings.info("rejected_connections"))
    if not rejected:
        return Severity.OK, "none", ""
    text = f"{rejected} connections were turned away since the server started"
    return Severity.WARNING, text, "raise maxclients, or find out who opens so many connections"


def _doorbell_buffer(readings: Readings) -> Verdict:
    limits = readings["client-output-buffer-limit"].split()
    if "pubsub" not in limits:
        raise NotTold("client-output-buffer-limit does not tell of pubsub")
    hard, soft = (int(number) for number in limits[limits.index("pubsub") + 1 :][:2])
    if not hard:
        text = "no hard limit for subscribers: one that hangs takes memory until the server has none"
        return Severity.WARNING, text, "CONFIG SET client-output-buffer-limit 'pubsub 32mb 8mb 60'"
    least = min(hard, soft or hard)
    if least < _DOORBELL_BYTES:
        text = f"subscribers that are {least} bytes behind are cut off, and read the feed instead"
        return Severity.WARNING, text, "CONFIG SET client-output-buffer-limit 'pubsub 32mb 8mb 60'"
    return Severity.OK, f"subscribers may be {least} bytes behind", ""


def _keys(readings: Readings) -> Verdict:
    if readings["busy"]:
        text = "a script keeps the server busy: nobody is answered"
        return Severity.ERROR, text, "SCRIPT KILL, and find out whose script it is"
    if readings["foreign"]:
        text = f"another type than the registry writes: {', '.join(readings['foreign'])}"
        return Severity.ERROR, text, "RENAME the foreign key away, or choose another namespace"
    if readings["failed"]:
        text = f"the registry's keys cannot be read: {readings['failed'][0]}"
        return Severity.ERROR, text, "give the address of the server, or of the cluster, that holds them"
    return Severity.OK, "can be read", ""


def _schema(readings: Readings) -> Verdict:
    found = readings["schema"]
    if found is None:
        return Severity.OK, "none yet: the first registration writes it", ""
    if not found.isdecimal():
        advice = f"SET it to {SCHEMA}, or restore it"
        return Severity.ERROR, f"the schema is {found[:40]!r}, which is none", advice
    if int(found) > SCHEMA:
        text = f"schema {found}, and this sharedroutes knows schemas up to {SCHEMA}"
        return Severity.ERROR, text, "upgrade this sharedroutes, or use another namespace"
    return Severity.OK, f"schema {found}", ""


def _leases(readings: Readings) -> Verdict:
    overdue = readings["overdue"]
    if overdue:
        text = (
            f"leases that ended over {late_ms(readings.config) / 1000:g} s ago, and nobody announced it: "
            f"{overdue}. Lookups leave these brokers out, but clients learn of it only when they read "
            "everything again"
        )
        return Severity.ERROR, text, f"nobody sweeps: {_SWEEP}"
    return Severity.OK, f"{readings['live']} live, {readings['due']} just ended", ""


def _members(readings: Readings) -> Verdict:
    lost, seen = readings["without_deadline"], readings["members_seen"]
    if not lost:
        return Severity.OK, f"each of {seen} members that were looked at has a deadline", ""
    names = ", ".join(lost[:_SHOWN]) + (", ..." if len(lost) > _SHOWN else "")
    text = (
        f"{len(lost)} of {seen} members that were looked at have no deadline, so that "
        f"nobody would announce their end: {names}"
    )
    return Severity.WARNING, text, "live ones get it with their next heartbeat; unregister the others"


def _sweeper(readings: Readings) -> Verdict:
    holder = readings["sweeper"]
    if holder is not None:
        return Severity.OK, f"{holder}, for another {max(0, readings['sweeper_left_ms'])} ms", ""
    leases = readings["live"] + readings["due"]
    if not leases:
        return Severity.OK, "nobody, and there is no lease to look after", ""
    text = f"nobody; leases whose end would not be announced: {leases}"
    return Severity.WARNING, text, _SWEEP


def _feed(readings: Readings) -> Verdict:
    entries, brokers = readings["feed_entries"], readings["brokers"]
    if not entries:
        if not brokers:
            return Severity.OK, "empty, as the registry is", ""
        text = f"empty, and {brokers} brokers are known: somebody deleted or trimmed it"
        return Severity.WARNING, text, "find out who; followers notice, and read everything again"
    now_ms = readings["now_us"] // 1000
    ahead_ms = (readings["feed_last_ms"] or 0) - now_ms
    if ahead_ms > _FUTURE_MS:
        text = f"the newest change is {ahead_ms / 1000:.1f} s ahead of the server's clock, which went back"
        advice = "leases live longer by that; let the time service slew the clock, not step it"
        return Severity.WARNING, text, advice
    age_s = (now_ms - (readings["feed_first_ms"] or 0)) / 1000
    text = f"{entries} changes, the oldest {age_s:.0f} s old"
    if entries > readings.config.feed_max_entries + _STREAM_NODE and age_s > readings.config.feed_min_age_s:
        text += f", above the {readings.config.feed_max_entries} of this configuration"
        advice = "who writes has another feed_max_entries or feed_min_age_s: make them equal"
        return Severity.INFO, text, advice
    return Severity.OK, text, ""


def _memory(readings: Readings) -> Verdict:
    sizes = readings["memory"].values()
    refusal = next((size for size in sizes if isinstance(size, ErrorReply)), None)
    if refusal is not None:
        raise NotTold(refusal.reason)
    return Severity.OK, f"about {sum(sizes) / _MIB:.1f} MiB", ""


_VERDICTS: Final = (
    *(_version, _mode, _role, _failover, _persistence, _last_save, _eviction, _evicted_keys, _headroom),
    *(_notifications, _clock, _rejected_connections, _doorbell_buffer),
    *(_keys, _schema, _leases, _members, _sweeper, _feed, _memory),
)
"""What is looked at; the name of a finding is that of the function."""
