"""`health` prints the facts, the findings and the advice, and exits with what they mean."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis

from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from tests.cli.terminal import run

PATIENT = RegistryConfig(sweeper_lease_s=60.0)


@pytest.fixture
def admin(own_server: EmbeddedServer) -> Iterator[redis.Redis]:
    """Return a plain client of a server that keeps its data."""
    with redis.Redis.from_url(own_server.url) as admin:
        admin.config_set("appendonly", "yes")
        yield admin


@pytest.fixture
def store(own_server: EmbeddedServer) -> Iterator[RouteStore]:
    """Return a store with a broker, whose lease somebody looks after."""
    with RouteStore.from_url(own_server.url, PATIENT) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        store.sweep("agent-1")
        yield store


@pytest.mark.usefixtures("admin", "store")
def test_what_needs_no_change_is_status_0(own_server: EmbeddedServer) -> None:
    done = run(own_server.url, "health")
    assert done.exit_code == 0, done.output
    facts = {line[:23].strip(): line[23:].strip() for line in done.stdout.splitlines()}
    assert facts["mode, role"] == "standalone, master"
    assert facts["brokers, topics"] == "1, 1"
    assert facts["sweep"] == "agent-1"
    assert "INFO failover: no replica" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("OK version, ")


@pytest.mark.usefixtures("admin")
def test_warnings_are_status_3_and_come_with_advice(own_server: EmbeddedServer, store: RouteStore) -> None:
    with redis.Redis.from_url(own_server.url) as admin:
        admin.delete(store.keys.sweeper)
    done = run(own_server.url, "health")
    assert done.exit_code == 3
    lines = done.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("WARNING sweeper: nobody"))
    assert lines[at + 1].startswith("  start an agent")
    assert any(line.split() == ["sweep", "nobody"] for line in lines)


@pytest.mark.usefixtures("store")
def test_errors_are_status_4_and_come_first(own_server: EmbeddedServer, admin: redis.Redis) -> None:
    admin.config_set("maxmemory", "1gb")
    admin.config_set("maxmemory-policy", "allkeys-lru")
    admin.config_set("appendonly", "no")
    done = run(own_server.url, "health", "--output", "json")
    assert done.exit_code == 4
    report = json.loads(done.stdout)
    assert report["severity"] == "error"
    assert [(one["severity"], one["what"]) for one in report["findings"][:2]] == [
        ("error", "eviction"),
        ("warning", "persistence"),
    ]
    assert report["server"]["eviction_policy"] == "allkeys-lru"
    assert report["registry"]["topics"] == 1


def test_what_the_user_may_not_see_is_unknown(own_server: EmbeddedServer, admin: redis.Redis) -> None:
    admin.acl_setuser("nobody", enabled=True, passwords=["+secret"], commands=["+ping"])
    url = f"redis://nobody:secret@127.0.0.1:{own_server.port}"
    done = run(url, "health")
    assert done.exit_code == 0, done.output
    assert "INFO persistence: unknown: no permission" in done.stdout
    assert any(line.split() == ["eviction", "unknown"] for line in done.stdout.splitlines())
