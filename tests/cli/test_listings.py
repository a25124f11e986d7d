"""`topics`, `routes`, `brokers`, `clusters` and `leases` on a real server."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from sharedroutes.cli.root import sharedroutes
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.plans import fronts, register
from tests.cli.terminal import document, rows, run
from tests.support import wait_until

A, B, C = (Broker(f"broker-{name}", f"10.0.0.{n}:10911", zone_name="z1") for n, name in enumerate("abc", 1))
ORDERS = TopicConfig("orders")
TOPICS = [ORDERS, TopicConfig("audit")]


@pytest.fixture
def registered(store: RouteStore) -> RouteStore:
    """Return the store with a master and its slave, and another master."""
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders", 8, 4), TopicConfig("audit")])
    store.register(Broker("broker-a", "10.0.0.9:10911", 1), [])
    store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders", 2, 2, perm=4)])
    return store


@pytest.fixture
def with_a(store: RouteStore) -> RouteStore:
    """Return the store with one broker."""
    store.register(A, TOPICS)
    return store


@pytest.mark.usefixtures("registered")
def test_topics_are_listed(redis_url: str) -> None:
    assert document(redis_url, "topics") == [{"topic": "audit"}, {"topic": "orders"}]
    assert rows(run(redis_url, "topics")) == [["audit"], ["orders"]]


@pytest.mark.usefixtures("registered")
def test_brokers_are_listed_with_their_live_replicas(redis_url: str) -> None:
    assert document(redis_url, "brokers") == [
        {
            "cluster": "DefaultCluster",
            "brokerName": "broker-a",
            "brokerAddrs": {"0": "10.0.0.1:10911", "1": "10.0.0.9:10911"},
        },
        {"cluster": "DefaultCluster", "brokerName": "broker-b", "brokerAddrs": {"0": "10.0.0.2:10911"}},
    ]
    assert rows(run(redis_url, "brokers")) == [
        ["DefaultCluster", "broker-a", "0", "10.0.0.1:10911", "yes"],
        ["DefaultCluster", "broker-a", "1", "10.0.0.9:10911", "yes"],
        ["DefaultCluster", "broker-b", "0", "10.0.0.2:10911", "yes"],
    ]


@pytest.mark.usefixtures("registered")
def test_routes_are_shown_in_the_terms_of_rocketmq(redis_url: str) -> None:
    found = {route["topic"]: route for route in document(redis_url, "routes", "orders", "audit")}
    assert found.keys() == {"orders", "audit"}
    assert found["orders"]["queueDatas"] == [
        {"brokerName": "broker-a", "readQueueNums": 8, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 0},
        {"brokerName": "broker-b", "readQueueNums": 2, "writeQueueNums": 2, "perm": 4, "topicSysFlag": 0},
    ]
    assert found["orders"]["brokerDatas"] == document(redis_url, "brokers")
    assert rows(run(redis_url, "routes", "orders")) == [
        ["orders", "broker-a", "8", "4", "6", "0", "10.0.0.1:10911"],
        ["orders", "broker-a", "8", "4", "6", "1", "10.0.0.9:10911"],
        ["orders", "broker-b", "2", "2", "4", "0", "10.0.0.2:10911"],
    ]


@pytest.mark.usefixtures("registered")
def test_a_topic_without_a_route_is_named_and_the_others_are_shown(redis_url: str) -> None:
    done = run(redis_url, "routes", "audit", "no-such", "--output", "json")
    assert done.exit_code == 1
    assert [route["topic"] for route in json.loads(done.stdout)] == ["audit"]
    assert done.stderr == "Error: no live broker holds 'no-such'\n"


def test_a_corrupt_route_is_named(
    registered: RouteStore, redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    key = registered.keys.topic("audit")
    admin.delete(key)
    admin.lpush(key, "foreign")
    foreign_keys.append(key)
    done = run(redis_url, "routes", "orders", "audit")
    assert done.exit_code == 1
    assert "10.0.0.1:10911" in done.stdout
    assert done.stderr.startswith(f"Error: {key}: ")


@pytest.mark.parametrize("command", ["topics", "brokers", "clusters", "leases"])
def test_an_empty_registry_is_an_empty_list(redis_url: str, command: str) -> None:
    assert document(redis_url, command) == []
    assert rows(run(redis_url, command)) == []


def test_names_are_printed_as_they_are(store: RouteStore, redis_url: str) -> None:
    topic = "[bold]:smile:" + "x" * 200
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig(topic)])
    assert rows(run(redis_url, "topics")) == [[topic]]


def test_another_namespace_is_another_registry(registered: RouteStore, redis_url: str) -> None:
    with RouteStore.from_url(redis_url, RegistryConfig(namespace="other")) as other:
        other.register(Broker("broker-x", "10.0.0.3:10911"), [TopicConfig("payments")])
    assert document(redis_url, "topics", "--namespace", "other") == [{"topic": "payments"}]
    assert rows(run(redis_url, "topics", SHAREDROUTES_NAMESPACE="other")) == [["payments"]]
    assert registered.topics() == ["audit", "orders"]


@pytest.mark.usefixtures("registered")
def test_the_store_can_be_named_by_the_environment(redis_url: str) -> None:
    done = CliRunner().invoke(sharedroutes, ["topics"], env={"SHAREDROUTES_REDIS_URL": redis_url})
    assert rows(done) == [["audit"], ["orders"]]


@pytest.mark.parametrize("arguments", [("topics",), ("brokers",), ("routes", "orders"), ("health",)])
def test_a_store_that_is_away_is_one_line_and_status_1(
    own_server: EmbeddedServer, arguments: tuple[str, ...]
) -> None:
    own_server.stop()
    done = run(own_server.url, *arguments)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: the store cannot be reached: ")
    assert done.stderr.count("\n") == 1


def test_an_address_that_is_none_is_wrong_usage() -> None:
    done = run("http://127.0.0.1", "topics")
    assert done.exit_code == 2
    assert "Error: Redis URL: " in done.stderr


def test_a_namespace_that_cannot_be_one_is_wrong_usage(redis_url: str) -> None:
    done = run(redis_url, "topics", "--namespace", "a b")
    assert done.exit_code == 2
    assert "namespace: 'a b'" in done.stderr


def listed(url: str) -> dict[str, dict[str, Any]]:
    found = document(url, "brokers", "--all")
    return {f"{one['brokerName']}:{one['brokerId']}": one for one in found}


def now_ms(store: RouteStore) -> int:
    return int(store.changes_since("0-0").changes[-1].change_id.partition("-")[0])


@pytest.mark.usefixtures("with_a")
def test_a_live_broker_is_listed_with_its_lease(redis_url: str) -> None:
    found = listed(redis_url)["broker-a:0"]
    expected = ("live", A.address, 2, "z1")
    assert (found["state"], found["address"], found["topics"], found["zoneName"]) == expected
    assert 0 < found["leaseLeftMs"] <= found["leaseTtlMs"] == 15_000
    done = run(redis_url, "brokers", "--all")
    assert " s ago, ends in " in done.stdout
    assert done.stderr == ""


def test_a_broker_that_left_is_listed_with_when_and_why_and_can_be_forgotten(
    with_a: RouteStore, redis_url: str
) -> None:
    with_a.unregister(with_a.register(B, TOPICS), reason="unregistered")
    left_ms = now_ms(with_a)
    found = listed(redis_url)["broker-b:0"]
    expected = {
        "state": "dead",
        "sinceMs": left_ms,
        "reason": "unregistered",
        "address": B.address,
        "topics": 2,
    }
    assert expected.items() <= found.items()
    shown = run(redis_url, "brokers")
    assert "broker-b" not in shown.stdout
    assert "not shown: 1 dead; `brokers --all` lists them" in shown.stderr
    (row,) = (row for row in rows(run(redis_url, "brokers", "--all")) if row[1] == "broker-b")
    assert datetime.fromisoformat(row[5]).timestamp() == left_ms / 1_000
    assert datetime.fromisoformat(row[5]).utcoffset() is not None
    forgotten = run(redis_url, "forget", "broker-b")
    assert forgotten.exit_code == 0
    assert listed(redis_url).keys() == {"broker-a:0"}
    assert run(redis_url, "brokers").stderr == ""


def test_a_lease_that_has_ended_is_dated_before_and_after_somebody_says_so(
    with_a: RouteStore, redis_url: str
) -> None:
    with RouteStore.from_url(redis_url, RegistryConfig(lease_ttl_s=0.05)) as hasty:
        hasty.register(C, TOPICS)
        wait_until(lambda: hasty.member_group("broker-c") is None, description="the lease has ended")
        unsaid = listed(redis_url)["broker-c:0"]
        hasty.expire("broker-c", 0)
    said = listed(redis_url)["broker-c:0"]
    assert (unsaid["state"], unsaid["reason"], unsaid["address"]) == ("dead", "expired", C.address)
    assert unsaid["zoneName"] == "z1"
    assert {**unsaid, "zoneName": ""} == said


def test_a_broker_that_an_operator_took_out_says_so(with_a: RouteStore, redis_url: str) -> None:
    with_a.admin.withdraw(A, reason="drained")
    found = listed(redis_url)["broker-a:0"]
    assert (found["state"], found["reason"], found["address"]) == ("out", "drained", A.address)
    assert "not shown: 1 out" in run(redis_url, "brokers").stderr


def test_what_the_change_stream_does_not_tell_any_more_is_unknown(
    with_a: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    with_a.unregister(with_a.register(B, TOPICS))
    admin.delete(with_a.keys.changes)
    shown = {row[1]: row for row in rows(run(redis_url, "brokers", "--all"))}
    assert shown["broker-b"][3:8] == ["unknown", "dead", "unknown", "unknown", "none"]
    assert shown["broker-a"][4:7] == ["live", "unknown", "-"]


def test_only_one_replica_of_a_broker_may_be_dead(with_a: RouteStore, redis_url: str) -> None:
    slave = Broker("broker-a", "10.0.0.9:10911", 1)
    with_a.unregister(with_a.register(slave, TOPICS))
    assert {name: one["state"] for name, one in listed(redis_url).items()} == {
        "broker-a:0": "live",
        "broker-a:1": "dead",
    }


def test_a_foreign_change_stream_and_foreign_deadlines_are_named_and_the_rest_is_listed(
    with_a: RouteStore, redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    for key in (with_a.keys.changes, with_a.keys.deadlines):
        admin.delete(key)
        admin.set(key, "foreign")
        foreign_keys.append(key)
    done = run(redis_url, "brokers", "--all")
    assert done.exit_code == 0
    assert with_a.keys.changes in done.stderr
    assert with_a.keys.deadlines in done.stderr
    assert done.stdout.splitlines()[1].split()[1:5] == ["broker-a", "0", A.address, "live"]


def test_the_change_stream_is_read_as_far_back_as_it_is_needed(
    with_a: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    with_a.unregister(with_a.register(B, TOPICS))
    left_ms = now_ms(with_a)
    with admin.pipeline(transaction=False) as pipeline:
        for _ in range(2_500):
            pipeline.xadd(
                with_a.keys.changes, {"c": b'{"kind":"kv","namespace":"n","key":"k","reason":"put"}'}
            )
        pipeline.execute()
    assert listed(redis_url)["broker-b:0"]["sinceMs"] == left_ms


def test_write_permission_is_never_blank(with_a: RouteStore, redis_url: str) -> None:
    with_a.register(Broker("broker-b", "10.0.0.2:10911", 1, enable_acting_master=True), [])
    with_a.register(C, TOPICS)
    with_a.admin.wipe_write_perm("broker-c")
    assert [row[4:] for row in rows(run(redis_url, "brokers"))] == [["yes"], ["no", "master"], ["wiped"]]


def test_an_empty_registry_says_where_to_look(redis_url: str) -> None:
    done = run(redis_url, "brokers")
    assert (done.exit_code, done.stderr) == (
        0,
        "no broker was ever registered here: see --redis and --namespace\n",
    )


@pytest.fixture
def in_clusters(store: RouteStore) -> RouteStore:
    """Return the store with two clusters; in the first a broker is dead, one is out, one has only a slave."""
    store.register(Broker("broker-a", "10.0.0.1:1", cluster="c1"), TOPICS)
    store.unregister(store.register(Broker("broker-b", "10.0.0.2:1", cluster="c1"), [ORDERS]))
    store.register(Broker("broker-c", "10.0.0.3:1", 1, cluster="c1"), [])
    out = Broker("broker-d", "10.0.0.4:1", cluster="c1")
    store.register(out, [ORDERS])
    store.admin.withdraw(out, reason="drained")
    store.register(Broker("broker-e", "10.0.0.5:1", cluster="c2"), [])
    store.admin.wipe_write_perm("broker-e")
    return store


@pytest.mark.usefixtures("in_clusters")
def test_clusters_are_listed_with_what_is_out_of_order(redis_url: str) -> None:
    first, second = document(redis_url, "clusters")
    assert first == {
        "cluster": "c1",
        "brokerNames": ["broker-a", "broker-b", "broker-c", "broker-d"],
        "liveReplicas": 2,
        "deadReplicas": 1,
        "withdrawnReplicas": 1,
        "withoutMaster": ["broker-c"],
        "writePermWiped": [],
        "topics": 2,
    }
    assert (second["cluster"], second["topics"], second["writePermWiped"]) == ("c2", 0, ["broker-e"])
    assert rows(run(redis_url, "clusters")) == [
        ["c1", "4", "2", "1", "1", "2", "broker-c", "-"],
        ["c2", "1", "1", "0", "0", "0", "-", "broker-e"],
    ]


def test_leases_are_listed_by_their_end_with_their_holder(store: RouteStore, redis_url: str) -> None:
    config = RegistryConfig(lease_ttl_s=600.0)
    with RouteStore.from_url(redis_url, config) as long:
        long.register(Broker("broker-a", "10.0.0.1:1", cluster="c1"), [ORDERS])
    of_agent = store.register(Broker("broker-b", "10.0.0.2:1"), [ORDERS])
    of_front = Broker("broker-c", "10.0.0.3:1", heartbeat_timeout_ms=60_000)
    held = store.run(register(store.config, of_front, {"orders": ORDERS}, joint=True))
    store.run(fronts.vouch(store.config, of_front, "front.1", anew=True))
    found = document(redis_url, "leases")
    assert [(one["brokerName"], one["holder"]) for one in found] == [
        ("broker-b", "agent"),
        ("broker-c", "fronts"),
        ("broker-a", "agent"),
    ]
    assert [one["epoch"] for one in found[:2]] == [of_agent.epoch, held.epoch]
    assert all(0 < one["leaseLeftMs"] <= one["leaseTtlMs"] for one in found)
    assert [one["brokerName"] for one in document(redis_url, "leases", "--cluster", "c1")] == ["broker-a"]
    assert [row[1] for row in rows(run(redis_url, "leases"))] == ["broker-b", "broker-c", "broker-a"]


@pytest.mark.usefixtures("in_clusters")
def test_what_has_no_lease_is_not_among_the_leases(redis_url: str) -> None:
    assert {one["brokerName"] for one in document(redis_url, "leases")} == {
        "broker-a",
        "broker-c",
        "broker-e",
    }


@pytest.mark.usefixtures("registered")
def test_a_route_may_be_asked_for_by_the_singular(redis_url: str) -> None:
    assert run(redis_url, "route", "orders").stdout == run(redis_url, "routes", "orders").stdout != ""
