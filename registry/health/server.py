"""What a health report says of the server: each function judges one thing, by what the server answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from .report import NotTold, Readings, Severity, Verdict, info_field, told

SETTINGS: Final = ("save", "notify-keyspace-events", "min-replicas-to-write", "client-output-buffer-limit")
"""The settings that are looked at (CONFIG GET)."""

_OLDEST: Final = (6, 2)
_PERCENT: Final = 100
_NEARLY_FULL: Final = 75
_FULL: Final = 90
_STILL_US: Final = 1_000
_DOORBELL_BYTES: Final = 1_000_000
"""What a follower may lag behind: a few thousand doorbells, of up to 600 bytes each."""


def kind_and_version(readings: Readings) -> tuple[str, str]:
    """Return which server it is, and its own version."""
    info = told(readings.info)
    if "valkey_version" in info:  # it also tells the version of Redis that it is compatible with
        return "Valkey", str(info["valkey_version"])
    return "Redis", str(info_field(readings, "redis_version"))


def mode(readings: Readings) -> str:
    """Return standalone, sentinel-managed, cluster, or sentinel for one that keeps no data."""
    info = told(readings.info)
    found = str(info["server_mode"] if "server_mode" in info else info_field(readings, "redis_mode"))
    watched = isinstance(readings.sentinels, int) and readings.sentinels > 0
    return "sentinel-managed" if found == "standalone" and watched else found


def role(readings: Readings) -> str:
    """Return master or replica."""
    found = info_field(readings, "role")
    return "replica" if found == "slave" else str(found)


def persistence(readings: Readings) -> str:
    """Return what keeps the data over a restart: RDB, AOF, both or none."""
    aof = info_field(readings, "aof_enabled") == 1
    if aof and not isinstance(readings.settings["save"], str):
        return "AOF"
    rdb = told(readings.settings["save"]) != ""
    return {(False, False): "none", (True, False): "RDB", (False, True): "AOF"}.get((rdb, aof), "RDB and AOF")


def _version(readings: Readings) -> Verdict:
    kind, version = kind_and_version(readings)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if kind == "Redis" and numbers < _OLDEST:
        return Severity.ERROR, f"Redis {version} is too old", "upgrade to Redis 6.2 or newer, or to Valkey"
    return Severity.OK, f"{kind} {version}", ""


def _mode(readings: Readings) -> Verdict:
    found = mode(readings)
    if found == "sentinel":
        advice = "give the address of the server that it watches, or name the sentinels as such"
        return Severity.ERROR, "this is a sentinel, which keeps no data", advice
    return Severity.OK, found, ""


def _role(readings: Readings) -> Verdict:
    if role(readings) == "master":
        return Severity.OK, "a master", ""
    master = f"{info_field(readings, 'master_host')}:{info_field(readings, 'master_port')}"
    if info_field(readings, "master_link_status") != "up":
        advice = f"see whether {master} lives; until then what is read here is old"
        return Severity.ERROR, f"a replica that has lost its master {master}", advice
    advice = f"give the master's address ({master}) to whoever registers, sweeps or administrates"
    return Severity.ERROR, f"a replica of {master}: it refuses heartbeats and every other write", advice


def _failover(readings: Readings) -> Verdict:
    if role(readings) != "master":
        return Severity.OK, "this server is a replica itself", ""
    replicas = int(info_field(readings, "connected_slaves"))
    wanted = int(told(readings.settings["min-replicas-to-write"]))
    good = int(told(readings.info).get("min_slaves_good_slaves", replicas))
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
    if mode(readings) == "standalone":
        return Severity.INFO, "no replica: while this server is away, only clients' caches answer", advice
    return Severity.WARNING, f"{mode(readings)} without a replica: nothing can take over", advice


def _persistence(readings: Readings) -> Verdict:
    found = persistence(readings)
    if found != "none":
        return Severity.OK, found, ""
    text = (
        "neither RDB nor AOF: after a restart the registry is empty until the agents have registered again, "
        "one heartbeat later; operators' changes and the key-value store are lost"
    )
    return Severity.WARNING, text, "CONFIG SET appendonly yes (and CONFIG REWRITE)"


def _last_save(readings: Readings) -> Verdict:
    names = ("rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status")
    failed = [name for name in names if info_field(readings, name) != "ok"]
    if failed:
        text = f"{', '.join(failed)}: failed; Redis refuses writes after that (MISCONF)"
        return Severity.ERROR, text, "look into the server's log: a full disk, or no memory to fork"
    return Severity.OK, "nothing failed", ""


def _eviction(readings: Readings) -> Verdict:
    policy = str(info_field(readings, "maxmemory_policy"))
    if policy == "noeviction":
        return Severity.OK, policy, ""
    advice = "CONFIG SET maxmemory-policy noeviction, and keep caches in another server"
    if not int(info_field(readings, "maxmemory")):
        return Severity.WARNING, f"{policy} will evict keys of the registry once maxmemory is set", advice
    what = (
        "heartbeats first, so that live brokers vanish" if "volatile" in policy else "any key of the registry"
    )
    return Severity.ERROR, f"{policy} with maxmemory evicts {what}", advice


def _evicted(readings: Readings) -> Verdict:
    evicted = int(info_field(readings, "evicted_keys"))
    if not evicted:
        return Severity.OK, "none", ""
    advice = "set noeviction, let the brokers register again, and CONFIG RESETSTAT to count anew"
    text = f"{evicted} keys since the server started; the registry's may be among them"
    return Severity.WARNING, text, advice


def _headroom(readings: Readings) -> Verdict:
    used, most = int(info_field(readings, "used_memory")), int(info_field(readings, "maxmemory"))
    if not most:
        return Severity.INFO, "no maxmemory: the limit is that of the host", "set one below the host's memory"
    percent = used * _PERCENT // most
    text = f"{percent} % of maxmemory is used"
    advice = "raise maxmemory, or move other data away: at the limit registrations are refused (OOM)"
    if percent >= _FULL:
        return Severity.ERROR, text, advice
    return (Severity.WARNING, text, advice) if percent >= _NEARLY_FULL else (Severity.OK, text, "")


def _notifications(readings: Readings) -> Verdict:
    flags = told(readings.settings["notify-keyspace-events"])
    missing = [flag for flag in "Kxg" if flag not in flags and (flag == "K" or "A" not in flags)]
    if not missing:
        return Severity.OK, f"notify-keyspace-events is {flags!r}", ""
    text = f"notify-keyspace-events is {flags!r}: the sweep goes by its deadlines alone, which is enough"
    return Severity.INFO, text, "to speed it up, CONFIG SET notify-keyspace-events Kgxe on every node"


def _clock(readings: Readings) -> Verdict:
    first, now = told(readings.first_us), told(readings.now_us)
    if abs(now - first) < _STILL_US:
        text = "TIME stands still: no lease ever ends, and dead brokers stay in the routes"
        return Severity.ERROR, text, "mend the clock of the server's host (suspended? a frozen container?)"
    if now < first:
        text = f"TIME went back by {(first - now) / 1e6:.3f} s: leases live longer by that"
        return Severity.ERROR, text, "let the host's time service slew the clock, not step it"
    return Severity.OK, "moves", ""


def _rejected(readings: Readings) -> Verdict:
    rejected = int(info_field(readings, "rejected_connections"))
    if not rejected:
        return Severity.OK, "none", ""
    text = f"{rejected} connections were turned away since the server started"
    return Severity.WARNING, text, "raise maxclients, or find out who opens so many connections"


def _doorbell_buffer(readings: Readings) -> Verdict:
    limits = told(readings.settings["client-output-buffer-limit"]).split()
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


SERVER: Final[Mapping[str, Callable[[Readings], Verdict]]] = {
    "version": _version,
    "mode": _mode,
    "role": _role,
    "failover": _failover,
    "persistence": _persistence,
    "last-save": _last_save,
    "eviction": _eviction,
    "evicted-keys": _evicted,
    "headroom": _headroom,
    "notifications": _notifications,
    "clock": _clock,
    "rejected-connections": _rejected,
    "doorbell-buffer": _doorbell_buffer,
}
"""What is looked at, by its name in the report."""
