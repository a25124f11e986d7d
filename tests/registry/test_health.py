"""A health report finds what is wrong with a registry or its server, and says what to do about it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from sharedroutes.registry import (
    EmbeddedServer,
    RegistryConfig,
    RouteStore,
    StoreUnavailable,
)
from sharedroutes.registry.acl import Role, acl_rules
from sharedroutes.registry.health.findings import Finding, HealthReport, Severity, health
from sharedroutes.registry.plans import Batch, Reads
from tests.fix_redis import StoreMaker
from tests.registry.builders import broker, topics
from tests.registry.probes import recorded
from tests.registry.servers import BINARIES, client, quick
from tests.support import wait_until

CONFIG: Final = RegistryConfig(sweeper_lease_s=5.0)
SHORT: Final = RegistryConfig(sweeper_lease_s=0.05, lease_ttl_s=0.06)
LIBFAKETIME: Final = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)

RULE: Final = ">secret"

OK, INFO, WARNING, ERROR = Severity.OK, Severity.INFO, Severity.WARNING, Severity.ERROR


@pytest.fixture(params=[name for name, path in BINARIES.items() if path])
def binary(request: pytest.FixtureRequest) -> str:
    """Return each server that this machine has."""
    return BINARIES[request.param] or ""


@pytest.fixture
def server(binary: str) -> Iterator[EmbeddedServer]:
    server = quick(binary=binary).start()
    yield server
    server.kill()


@pytest.fixture
def admin(server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def store(server: EmbeddedServer) -> Iterator[RouteStore]:
    with RouteStore.from_url(server.url, CONFIG) as store:
        yield store


def found(report: HealthReport, what: str) -> Finding:
    (finding,) = (finding for finding in report.findings if finding.what == what)
    return finding


def severity(store: RouteStore, what: str) -> Severity:
    return found(store.health(), what).severity


def unknown(report: HealthReport) -> set[str]:
    return {finding.what for finding in report.findings if finding.text.startswith("unknown: ")}


async def test_both_stores_report_on_a_registry_that_is_well(
    make_store: StoreMaker, server: EmbeddedServer, admin: redis.Redis
) -> None:
    for name, value in {
        "appendonly": "yes",
        "maxmemory": "1gb",
        "notify-keyspace-events": "Kgxe",
    }.items():
        admin.config_set(name, value)
    store = make_store(server.url, CONFIG)
    await store.register(broker(), topics(3))
    await store.kv.put("ns", "key", "value")
    await store.sweep("us")
    report = await store.health()
    assert {finding.what for finding in report.findings if finding.severity is not OK} == {"failover"}
    assert report.severity is INFO
    assert (report.server["mode"], report.server["role"], report.server["replicas"]) == (
        "standalone",
        "master",
        0,
    )
    assert (report.server["persistence"], report.server["eviction_policy"]) == ("AOF", "noeviction")
    registry = report.registry
    expected = {"schema": "1", "brokers": 1, "topics": 3, "namespaces": 1, "feed_entries": 3}
    expected |= {"live_leases": 1, "due_leases": 0, "sweeper": "us"}
    assert registry.items() >= expected.items()
    assert registry["sweeper_left_s"] is not None
    assert 0 <= registry["sweeper_left_s"] <= CONFIG.sweeper_lease_s
    assert registry["feed_age_s"] is not None
    assert registry["feed_idle_s"] is not None
    assert 0 <= registry["feed_idle_s"] <= registry["feed_age_s"] < 10


def test_the_server_tells_what_it_is(store: RouteStore, binary: str) -> None:
    server = store.health().server
    assert server["kind"] == ("Valkey" if "valkey" in Path(binary).name else "Redis")
    assert server["version"] is not None
    assert severity(store, "version") is OK


def test_an_empty_registry_is_in_order(store: RouteStore) -> None:
    report = store.health()
    assert all(found(report, what).severity is OK for what in ("keys", "schema", "feed", "leases", "sweeper"))
    assert sum(report.registry["memory_bytes"].values()) == 0


def test_all_that_needs_no_change_has_no_advice_and_the_rest_has(store: RouteStore) -> None:
    store.register(broker(), topics(1))
    report = store.health()
    assert {finding.severity for finding in report.findings} >= {OK, INFO, WARNING}
    assert all(bool(finding.advice) is (finding.severity is not OK) for finding in report.findings)
    ranks = [finding.severity.rank for finding in report.findings]
    assert ranks == sorted(ranks, reverse=True)


def test_a_store_that_is_away_cannot_be_reported_on(store: RouteStore, server: EmbeddedServer) -> None:
    server.kill()
    with pytest.raises(StoreUnavailable):
        store.health()


_LIMIT: Final = "client-output-buffer-limit"


@pytest.mark.parametrize(
    ("what", "settings", "expected"),
    [
        ("eviction", {"maxmemory": "1gb"}, OK),
        ("eviction", {"maxmemory-policy": "allkeys-lru"}, WARNING),
        ("eviction", {"maxmemory-policy": "allkeys-lru", "maxmemory": "1gb"}, ERROR),
        ("eviction", {"maxmemory-policy": "volatile-ttl", "maxmemory": "1gb"}, ERROR),
        ("notifications", {"notify-keyspace-events": ""}, INFO),
        ("notifications", {"notify-keyspace-events": "Kx"}, INFO),
        ("notifications", {"notify-keyspace-events": "Egx"}, INFO),
        ("notifications", {"notify-keyspace-events": "Kgx"}, OK),
        ("notifications", {"notify-keyspace-events": "KA"}, OK),
        ("doorbell-buffer", {_LIMIT: "pubsub 32mb 8mb 60"}, OK),
        ("doorbell-buffer", {_LIMIT: "pubsub 0 0 0"}, WARNING),
        ("doorbell-buffer", {_LIMIT: "pubsub 32mb 0 0"}, OK),
        ("doorbell-buffer", {_LIMIT: "pubsub 1mb 500kb 60"}, WARNING),
    ],
)
def test_a_setting_is_judged(
    store: RouteStore, admin: redis.Redis, what: str, settings: dict[str, str], expected: Severity
) -> None:
    for name, value in settings.items():
        admin.config_set(name, value)
    report = store.health()
    finding = found(report, what)
    assert finding.severity is expected
    assert ("heartbeats" in finding.text) is ("volatile-ttl" in settings.values())
    if what == "notifications":
        assert set(report.server["notifications"] or "") == set(settings["notify-keyspace-events"])


@pytest.mark.parametrize(("percent", "expected"), [(50, OK), (80, WARNING), (96, ERROR)])
def test_how_much_of_maxmemory_is_left_is_judged(
    store: RouteStore, admin: redis.Redis, percent: int, expected: Severity
) -> None:
    store.health()  # connects, so that no more memory is needed
    admin.setrange("ballast", 20_000_000, "x")
    admin.config_set("maxmemory", int(admin.info("memory")["used_memory"]) * 100 // percent)
    assert severity(store, "headroom") is expected


def test_evictions_that_happened_are_found(store: RouteStore, admin: redis.Redis) -> None:
    admin.config_set("maxmemory-policy", "allkeys-random")
    for number in range(100):
        admin.set(f"ballast:{number}", b"x" * 10_000)
    admin.config_set("maxmemory", int(admin.info("memory")["used_memory"]) - 300_000)
    wait_until(lambda: admin.info("stats")["evicted_keys"], description="keys are evicted")
    admin.config_set("maxmemory", 0)
    admin.config_set("maxmemory-policy", "noeviction")
    assert severity(store, "evicted-keys") is WARNING
    admin.config_resetstat()
    assert severity(store, "evicted-keys") is OK


@pytest.mark.parametrize(
    ("save", "appendonly", "fact"),
    [("", "no", "none"), ("60 1", "no", "RDB"), ("", "yes", "AOF"), ("60 1", "yes", "RDB and AOF")],
)
def test_a_server_that_keeps_nothing_over_a_restart_is_found(
    store: RouteStore, admin: redis.Redis, save: str, appendonly: str, fact: str
) -> None:
    admin.config_set("save", save)
    admin.config_set("appendonly", appendonly)
    report = store.health()
    assert report.server["persistence"] == fact
    assert found(report, "persistence").severity is (WARNING if fact == "none" else OK)


def test_a_snapshot_that_failed_is_found(store: RouteStore, admin: redis.Redis) -> None:
    shutil.rmtree(str(admin.config_get("dir")["dir"]))
    assert severity(store, "last-save") is OK
    admin.bgsave()
    wait_until(
        lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err", description="the snapshot fails"
    )
    finding = found(store.health(), "last-save")
    assert finding.severity is ERROR
    assert "rdb_last_bgsave_status" in finding.text


@pytest.fixture
def replica(server: EmbeddedServer, admin: redis.Redis, binary: str) -> Iterator[EmbeddedServer]:
    """Return a replica of the server, in step with it."""
    admin.config_set("repl-diskless-sync-delay", 0)
    with quick("--replicaof", "127.0.0.1", str(server.port), binary=binary) as replica:
        wait_until(
            lambda: admin.info("replication").get("slave0", {}).get("state") == "online",
            timeout_s=20,
            description="the replica is in step",
        )
        yield replica


def test_a_replica_is_no_place_to_register(
    store: RouteStore, server: EmbeddedServer, replica: EmbeddedServer
) -> None:
    store.register(broker(), topics(1))
    with RouteStore.from_url(replica.url, CONFIG) as there:
        wait_until(there.topics, description="the replica has the topic")
        report = there.health()
        assert report.server["role"] == "replica"
        assert found(report, "role").severity is ERROR
        assert f"127.0.0.1:{server.port}" in found(report, "role").text
        server.kill()
        wait_until(
            lambda: "lost its master" in found(there.health(), "role").text,
            description="the master is missed",
        )


def test_whether_writes_survive_a_failover_is_judged(
    store: RouteStore, admin: redis.Redis, replica: EmbeddedServer
) -> None:
    report = store.health()
    assert report.server["replicas"] == 1
    assert found(report, "failover").severity is WARNING
    assert "a failover throws them away" in found(report, "failover").text
    admin.config_set("min-replicas-to-write", 1)
    wait_until(lambda: severity(store, "failover") is OK, description="a replica is in time")
    admin.config_set("min-replicas-to-write", 2)
    finding = found(store.health(), "failover")
    assert finding.severity is ERROR
    assert "all writes are refused" in finding.text


def test_a_server_that_sentinels_watch_needs_a_replica(store: RouteStore, admin: redis.Redis) -> None:
    assert severity(store, "failover") is INFO
    # Each Sentinel listens to this channel of the servers that it watches.
    with admin.pubsub() as sentinel:
        sentinel.subscribe("__sentinel__:hello")
        sentinel.get_message(timeout=5.0)
        report = store.health()
    assert report.server["mode"] == "sentinel-managed"
    assert found(report, "failover").severity is WARNING


def test_a_cluster_that_does_not_serve_the_keys_is_found(binary: str) -> None:
    with (
        quick("--cluster-enabled", "yes", binary=binary) as server,
        RouteStore.from_url(server.url, CONFIG) as store,
    ):
        report = store.health()
    assert report.server["mode"] == "cluster"
    assert found(report, "keys").severity is ERROR
    assert "CLUSTERDOWN" in found(report, "keys").text


def test_connections_that_were_turned_away_are_found(
    store: RouteStore, server: EmbeddedServer, admin: redis.Redis
) -> None:
    store.health()
    admin.config_set("maxclients", 1)
    with client(server.url) as other, pytest.raises(redis.ConnectionError):
        other.ping()
    assert severity(store, "rejected-connections") is WARNING


@pytest.mark.skipif(LIBFAKETIME is None, reason="libfaketime is not installed")
def test_a_clock_that_stands_still_is_found(monkeypatch: pytest.MonkeyPatch, binary: str) -> None:
    # libc before jemalloc, which asks for the time when it allocates, as libfaketime does when it is asked.
    monkeypatch.setenv("LD_PRELOAD", f"{LIBFAKETIME} libc.so.6")
    monkeypatch.setenv("FAKETIME", "2026-01-02 03:04:05")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    with quick(binary=binary) as server, RouteStore.from_url(server.url, CONFIG) as store:
        finding = found(store.health(), "clock")
    assert finding.severity is ERROR
    assert "stands still" in finding.text


def test_a_clock_that_went_back_is_found(store: RouteStore, admin: redis.Redis) -> None:
    seconds, _ = admin.time()
    report = store.run(health(CONFIG, (seconds + 100) * 1_000_000))
    assert found(report, "clock").severity is ERROR
    assert "went back" in found(report, "clock").text
    admin.xadd(store.keys.changes, {"c": "{}"}, id=f"{(seconds + 100) * 1000}-1")
    assert severity(store, "feed") is WARNING


def test_a_script_that_keeps_the_server_busy_is_found(
    store: RouteStore, server: EmbeddedServer, admin: redis.Redis
) -> None:
    admin.config_set("lua-time-limit", 10)

    def spin() -> None:
        with redis.Redis.from_url(server.url) as client, pytest.raises(redis.ResponseError):
            client.eval("while true do end", 0)

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        wait_until(lambda: severity(store, "keys") is ERROR, description="the server is busy")
        assert "keeps the server busy" in found(store.health(), "keys").text
    finally:
        admin.script_kill()
        thread.join()
    assert severity(store, "keys") is OK


def test_who_may_not_look_at_the_server_is_told_so_and_the_rest_is_reported(
    store: RouteStore, server: EmbeddedServer, admin: redis.Redis
) -> None:
    store.register(broker(), topics(1))
    rules = acl_rules(CONFIG.namespace, Role.READER, user="reader", password=RULE)
    admin.execute_command(*rules.split(" "))
    with RouteStore.from_url(f"redis://reader:secret@127.0.0.1:{server.port}", CONFIG) as reader:
        report = reader.health()
    assert report.severity is INFO
    assert unknown(report) >= {
        "version",
        "role",
        "persistence",
        "eviction",
        "notifications",
        "memory",
        "leases",
    }
    assert {finding.what for finding in report.findings if finding.severity is OK} == {
        "keys",
        "clock",
        "schema",
    }
    assert "sharedroutes acl admin" in found(report, "version").advice
    assert (report.server["kind"], report.server["max_bytes"], report.registry["topics"]) == (
        None,
        None,
        None,
    )


def test_a_user_without_any_permission_learns_just_that(server: EmbeddedServer, admin: redis.Redis) -> None:
    admin.acl_setuser("nobody", enabled=True, passwords=["+secret"], commands=["+ping"])
    with RouteStore.from_url(f"redis://nobody:secret@127.0.0.1:{server.port}", CONFIG) as nobody:
        report = nobody.health()
    assert unknown(report) == {finding.what for finding in report.findings} - {"keys"}
    assert {finding.text for finding in report.findings if finding.what in unknown(report)} == {
        "unknown: no permission"
    }


def test_keys_of_another_type_are_named(store: RouteStore, admin: redis.Redis) -> None:
    store.register(broker(), topics(1))
    for key in (store.keys.changes, store.keys.deadlines):
        admin.delete(key)
        admin.set(key, "foreign")
    finding = found(store.health(), "keys")
    assert finding.severity is ERROR
    assert store.keys.changes in finding.text
    assert store.keys.deadlines in finding.text


@pytest.mark.parametrize(
    ("what", "plant", "expected"),
    [
        ("schema", lambda admin, keys: admin.set(keys.schema, "99"), ERROR),
        ("schema", lambda admin, keys: admin.set(keys.schema, "none"), ERROR),
        ("feed", lambda admin, keys: admin.delete(keys.changes), WARNING),
    ],
    ids=["a newer schema", "a schema that is none", "a feed that somebody deleted"],
)
def test_a_key_that_is_not_as_the_registry_left_it_is_found(
    store: RouteStore, admin: redis.Redis, what: str, plant: Callable[..., object], expected: Severity
) -> None:
    store.register(broker(), topics(1))
    assert severity(store, what) is OK
    plant(admin, store.keys)
    assert severity(store, what) is expected


def test_a_feed_that_others_bound_otherwise_is_told(store: RouteStore, admin: redis.Redis) -> None:
    seconds, _ = admin.time()
    for number in range(1, 200):
        admin.xadd(store.keys.changes, {"c": "{}"}, id=f"{(seconds - 3_600) * 1000}-{number}")
    assert severity(store, "feed") is OK
    bounds = RegistryConfig(feed_max_entries=10)
    assert found(store.run(health(bounds, 0)), "feed").severity is INFO


def test_leases_that_nobody_announces_are_found_until_somebody_sweeps(server: EmbeddedServer) -> None:
    with RouteStore.from_url(server.url, SHORT) as store:
        store.register(broker(), topics(1))
        wait_until(lambda: severity(store, "leases") is ERROR, description="the end of the lease is overdue")
        report = store.health()
        assert (report.registry["live_leases"], report.registry["due_leases"]) == (0, 1)
        assert found(report, "sweeper").severity is WARNING
        store.sweep("us")
        assert severity(store, "leases") is OK


def test_live_leases_that_nobody_looks_after_are_found(store: RouteStore) -> None:
    store.register(broker(), topics(1))
    assert severity(store, "sweeper") is WARNING
    assert store.health().registry["sweeper"] == ""
    store.sweep("us")
    assert found(store.health(), "sweeper").text.startswith("us, ")


def test_members_without_a_deadline_are_named(store: RouteStore, admin: redis.Redis) -> None:
    held = [store.register(broker(name), topics(1)) for name in ("broker-a", "broker-b")]
    admin.zrem(store.keys.deadlines, "broker-b:0")
    finding = found(store.health(), "members")
    assert finding.severity is WARNING
    assert "broker-b:0" in finding.text
    assert "broker-a:0" not in finding.text
    store.heartbeat(held[1])
    assert severity(store, "members") is OK


def exact_bytes(admin: redis.Redis, prefix: str) -> int:
    """Return what all keys that begin so need."""
    return sum(admin.memory_usage(key, samples=0) or 0 for key in admin.scan_iter(f"{prefix}*", count=1_000))


def test_the_memory_of_the_registry_is_estimated_from_a_sample(store: RouteStore, admin: redis.Redis) -> None:
    for number in range(150):  # more than are looked at
        store.register(broker(f"broker-{number:03}"), topics(20, first=20 * number))
    store.register(broker(), topics(1_000))
    store.kv.put("ns", "key", "value" * 100)
    memory = store.health().registry["memory_bytes"]
    keys = store.keys
    assert memory["route index"] == pytest.approx(
        exact_bytes(admin, keys.topic("")) + exact_bytes(admin, keys.topics), rel=0.1
    )
    assert memory["leases"] == pytest.approx(
        exact_bytes(admin, f"{keys.prefix}:lease:") + exact_bytes(admin, keys.deadlines), rel=0.1
    )
    assert memory["key-value"] == exact_bytes(admin, keys.kv("")) + exact_bytes(admin, keys.namespaces)
    assert memory["feed"] == pytest.approx(exact_bytes(admin, keys.changes), rel=0.1)
    assert sum(memory.values()) == pytest.approx(exact_bytes(admin, keys.prefix), rel=0.2)


def test_a_report_takes_a_few_round_trips_whatever_the_size(store: RouteStore) -> None:
    for number in range(150):
        store.register(broker(f"broker-{number:03}"), topics(10))
    batches: list[Batch] = []
    store.run(recorded(health(CONFIG, 0), batches))
    assert len(batches) <= 6
    commands = [command for batch in batches if isinstance(batch, Reads) for command in batch.commands]
    assert len(commands) < 700
    whole: set[Any] = {"KEYS", "SCAN", "SSCAN", "HSCAN", "SMEMBERS", "HGETALL"}
    assert not {command[0] for command in commands} & whole


def test_a_report_changes_nothing(store: RouteStore, admin: redis.Redis) -> None:
    held = store.register(broker(), topics(3))
    with closing(store.doorbell()) as doorbell:
        doorbell.wait(5.0)
        before = {key: admin.dump(key) for key in admin.scan_iter() if b":lease:" not in key}
        store.health()
        assert {key: admin.dump(key) for key in admin.scan_iter() if b":lease:" not in key} == before
        assert doorbell.wait(0.0) is None
    assert store.heartbeat(held) == "ok"
