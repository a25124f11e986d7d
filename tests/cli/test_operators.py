"""`wipe`, `lift`, `delete-topic`, `kv` and `changes` on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import pytest
from click.testing import Result

from sharedroutes.registry import Broker, RouteStore, TopicConfig
from sharedroutes.registry.plans import record_settings
from tests.cli import terminal

Run: TypeAlias = Callable[..., Result]


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    """Return a store with two brokers."""
    with RouteStore.from_url(redis_url) as store:
        for name, port in (("broker-a", 1), ("broker-b", 2)):
            store.register(
                Broker(name, f"h:{port}", cluster=name), [TopicConfig("orders"), TopicConfig("audit")]
            )
        yield store


@pytest.fixture
def run(redis_url: str) -> Run:
    """Return a function that runs a command on the store."""
    return partial(terminal.run, redis_url)


def perm(store: RouteStore, broker_name: str) -> int:
    rows = store.routes(["orders"])["orders"].queue_datas
    return next(row.perm for row in rows if row.broker_name == broker_name)


def test_a_broker_is_wiped_and_lifted(store: RouteStore, run: Run) -> None:
    done = run("wipe", "broker-a", "--output", "json")
    assert json.loads(done.stdout) == [{"brokerName": "broker-a", "topics": 2}]
    assert (perm(store, "broker-a"), perm(store, "broker-b")) == (4, 6)
    assert "wiped" in run("brokers").stdout
    assert run("lift", "broker-a").exit_code == 0
    assert perm(store, "broker-a") == 6


def test_an_unknown_broker_is_named_and_the_others_are_wiped(store: RouteStore, run: Run) -> None:
    done = run("wipe", "unknown", "broker-a")
    assert done.exit_code == 1
    assert "unknown: no broker" in done.stderr
    assert perm(store, "broker-a") == 4


def test_a_topic_is_deleted_from_one_cluster_and_then_everywhere(store: RouteStore, run: Run) -> None:
    done = run("delete-topic", "audit", "--cluster", "broker-a", "--output", "json")
    assert json.loads(done.stdout) == [{"brokerName": "broker-a"}]
    assert store.topics() == ["audit", "orders"]
    assert run("delete-topic", "audit").exit_code == 0
    assert store.topics() == ["orders"]
    done = run("delete-topic", "audit")
    assert done.exit_code == 1
    assert "no broker has 'audit'" in done.stderr


def test_who_deletes_a_topic_of_a_live_broker_is_told_that_it_comes_back(store: RouteStore, run: Run) -> None:
    store.unregister(store.register(Broker("broker-c", "h:3"), [TopicConfig("left")]))
    done = run("delete-topic", "orders")
    assert done.exit_code == 0
    assert "broker-a, broker-b are live: while the broker has 'orders'" in done.stderr
    assert "Delete the topic on the broker instead (mqadmin deleteTopic)" in done.stderr
    assert run("delete-topic", "left").stderr == ""


@pytest.mark.usefixtures("store")
def test_keys_and_values(run: Run) -> None:
    assert run("kv", "put", "ns", "k", "v").stdout == "set\n"
    assert run("kv", "put", "ns", "k", "v").stdout == "as it was\n"
    assert run("kv", "get", "ns", "k").stdout == "v\n"
    assert json.loads(run("kv", "list", "--output", "json").stdout) == [{"namespace": "ns"}]
    assert json.loads(run("kv", "list", "ns", "--output", "json").stdout) == [{"key": "k", "value": "v"}]
    missing = run("kv", "list", "other", "--output", "json")
    assert (missing.exit_code, json.loads(missing.stdout)) == (1, [])
    assert run("kv", "delete", "ns", "k").stdout == "removed\n"
    assert run("kv", "delete", "ns", "k").stdout == "no such key\n"
    for arguments in (("get", "ns", "k"), ("list", "unknown")):
        assert run("kv", *arguments).exit_code == 1


def test_topics_of_a_cluster(store: RouteStore, run: Run) -> None:
    store.register(Broker("broker-c", "h:3", cluster="c"), [TopicConfig("own", topic_sys_flag=1)])
    assert json.loads(run("topics", "--cluster", "c", "--output", "json").stdout) == [{"topic": "own"}]
    assert json.loads(run("topics", "--kind", "unit", "--output", "json").stdout) == [{"topic": "own"}]


def test_what_happened_is_listed_in_order(run: Run, store: RouteStore) -> None:
    run("wipe", "broker-a")
    run("kv", "put", "ns", "k", "v")
    run("delete-topic", "audit")
    store.run(record_settings(store.config, {"enableTopicList": "false"}))
    lines = [line.partition("; by ")[0].split()[2:] for line in run("changes").stdout.splitlines()[1:]]
    assert lines[:2] == [
        ["topics", "broker-a:0", "added", "2:", "audit", "orders"],
        ["up", "broker-a:0", "h:1"],
    ]
    assert lines[-4:] == [
        ["wiped", "broker-a:0", "write", "permission", "taken", "away"],
        ["kv", "ns/k", "put"],
        ["deleted", "audit", "from", "broker-a", "broker-b"],
        ["settings", "-", "enableTopicList=false"],
    ]
    records = [json.loads(line) for line in run("changes", "--output", "ndjson").stdout.splitlines()]
    assert [record["kind"] for record in records[-4:]] == ["wiped", "kv", "deleted", "settings"]
    after = run("changes", "--after", records[-2]["changeId"]).stdout.splitlines()
    assert [line.split()[2] for line in after[1:]] == ["settings"]


@pytest.mark.usefixtures("store")
def test_a_place_that_is_gone_is_said(run: Run) -> None:
    done = run("changes", "--after", "1-1")
    assert done.exit_code == 1
    assert "missing" in done.stderr
    assert len(done.stdout.splitlines()) == 1 + 4
    done = run("changes", "--after", "1-1", "--output", "json")
    assert (done.exit_code, len(json.loads(done.stdout))) == (1, 4)
