"""`topics`, `brokers` and `routes` on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from sharedroutes.cli.commands import sharedroutes
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    with RouteStore.from_url(redis_url) as store:
        yield store


@pytest.fixture
def registered(store: RouteStore) -> RouteStore:
    """Return the store with a master and its slave, and another master."""
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders", 8, 4), TopicConfig("audit")])
    store.register(Broker("broker-a", "10.0.0.9:10911", 1), [])
    store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders", 2, 2, perm=4)])
    return store


def run(url: str, *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(sharedroutes, [*arguments, "--redis", url], env=environment)


def document(url: str, *arguments: str) -> Any:
    done = run(url, *arguments, "--output", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(done: Result) -> list[list[str]]:
    """Return the words of a table, without its head."""
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.stdout.splitlines()[1:]]


@pytest.mark.usefixtures("registered")
def test_topics_are_listed(redis_url: str) -> None:
    assert document(redis_url, "topics") == ["audit", "orders"]
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
    found = document(redis_url, "routes", "orders", "audit")
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
    assert json.loads(done.stdout).keys() == {"audit"}
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


@pytest.mark.parametrize("command", ["topics", "brokers"])
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
    assert document(redis_url, "topics", "--namespace", "other") == ["payments"]
    assert rows(run(redis_url, "topics", SHAREDROUTES_NAMESPACE="other")) == [["payments"]]
    assert registered.topics() == ["audit", "orders"]


@pytest.mark.usefixtures("registered")
def test_the_store_can_be_named_by_the_environment(redis_url: str) -> None:
    done = CliRunner().invoke(sharedroutes, ["topics"], env={"SHAREDROUTES_REDIS_URL": redis_url})
    assert rows(done) == [["audit"], ["orders"]]


@pytest.mark.parametrize("arguments", [("topics",), ("brokers",), ("routes", "orders")])
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
