"""`brokers`: which replicas are live, which are not, and since when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from sharedroutes.cli.commands import sharedroutes
from sharedroutes.registry import Broker, RegistryConfig, RouteStore, TopicConfig
from tests.support import wait_until

A, B, C = (Broker(f"broker-{name}", f"10.0.0.{n}:10911", zone_name="z1") for n, name in enumerate("abc", 1))
TOPICS = [TopicConfig("orders"), TopicConfig("audit")]


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    with RouteStore.from_url(redis_url) as store:
        store.register(A, TOPICS)
        yield store


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(sharedroutes, ["brokers", *arguments, "--redis", url])


def listed(url: str) -> dict[str, dict[str, Any]]:
    done = run(url, "--all", "--output", "json")
    assert done.exit_code == 0, done.output
    return {f"{one['brokerName']}:{one['brokerId']}": one for one in json.loads(done.stdout)}


def now_ms(store: RouteStore) -> int:
    return int(store.changes_since("0-0").changes[-1].change_id.partition("-")[0])


@pytest.mark.usefixtures("store")
def test_a_live_broker_is_listed_with_its_lease(redis_url: str) -> None:
    found = listed(redis_url)["broker-a:0"]
    assert (found["state"], found["address"], found["topics"], found["zoneName"]) == (
        "live",
        A.address,
        2,
        "z1",
    )
    assert 0 < found["leaseLeftMs"] <= found["leaseTtlMs"] == 15_000
    done = run(redis_url, "--all")
    assert " s ago, ends in " in done.stdout
    assert done.stderr == ""


def test_a_broker_that_left_is_listed_with_when_and_why_and_can_be_forgotten(
    store: RouteStore, redis_url: str
) -> None:
    store.unregister(store.register(B, TOPICS), reason="unregistered")
    left_ms = now_ms(store)
    found = listed(redis_url)["broker-b:0"]
    expected = {
        "state": "dead",
        "sinceMs": left_ms,
        "reason": "unregistered",
        "address": B.address,
        "topics": 2,
    }
    assert expected.items() <= found.items()
    shown = run(redis_url)
    assert "broker-b" not in shown.stdout
    assert "not shown: 1 dead; `brokers --all` lists them" in shown.stderr
    row = next(line for line in run(redis_url, "--all").stdout.splitlines() if "broker-b" in line).split()
    assert datetime.fromisoformat(row[5]).timestamp() == left_ms / 1_000
    assert datetime.fromisoformat(row[5]).utcoffset() is not None
    forgotten = CliRunner().invoke(sharedroutes, ["forget", "broker-b", "--redis", redis_url])
    assert forgotten.exit_code == 0
    assert listed(redis_url).keys() == {"broker-a:0"}
    assert run(redis_url).stderr == ""


def test_a_lease_that_has_ended_is_dated_before_and_after_somebody_says_so(
    store: RouteStore, redis_url: str
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


def test_a_broker_that_an_operator_took_out_says_so(store: RouteStore, redis_url: str) -> None:
    store.admin.withdraw(A, reason="drained")
    found = listed(redis_url)["broker-a:0"]
    assert (found["state"], found["reason"], found["address"]) == ("out", "drained", A.address)
    assert "not shown: 1 out" in run(redis_url).stderr


def test_what_the_change_stream_does_not_tell_any_more_is_unknown(
    store: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    store.unregister(store.register(B, TOPICS))
    admin.delete(store.keys.changes)
    rows = {line.split()[1]: line.split() for line in run(redis_url, "--all").stdout.splitlines()[1:]}
    assert rows["broker-b"][3:8] == ["unknown", "dead", "unknown", "unknown", "none"]
    assert rows["broker-a"][4:7] == ["live", "unknown", "-"]


def test_only_one_replica_of_a_broker_may_be_dead(store: RouteStore, redis_url: str) -> None:
    slave = Broker("broker-a", "10.0.0.9:10911", 1)
    store.unregister(store.register(slave, TOPICS))
    assert {name: one["state"] for name, one in listed(redis_url).items()} == {
        "broker-a:0": "live",
        "broker-a:1": "dead",
    }


def test_a_foreign_change_stream_and_foreign_deadlines_are_named_and_the_rest_is_listed(
    store: RouteStore, redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    for key in (store.keys.changes, store.keys.deadlines):
        admin.delete(key)
        admin.set(key, "foreign")
        foreign_keys.append(key)
    done = run(redis_url, "--all")
    assert done.exit_code == 0
    assert store.keys.changes in done.stderr
    assert store.keys.deadlines in done.stderr
    assert done.stdout.splitlines()[1].split()[1:5] == ["broker-a", "0", A.address, "live"]


def test_the_change_stream_is_read_as_far_back_as_it_is_needed(
    store: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    store.unregister(store.register(B, TOPICS))
    left_ms = now_ms(store)
    with admin.pipeline(transaction=False) as pipeline:
        for _ in range(2_500):
            pipeline.xadd(
                store.keys.changes, {"c": b'{"kind":"kv","namespace":"n","key":"k","reason":"put"}'}
            )
        pipeline.execute()
    assert listed(redis_url)["broker-b:0"]["sinceMs"] == left_ms


def test_write_permission_is_never_blank(store: RouteStore, redis_url: str) -> None:
    store.register(Broker("broker-b", "10.0.0.2:10911", 1, enable_acting_master=True), [])
    store.register(C, TOPICS)
    store.admin.wipe_write_perm("broker-c")
    rows = [line.split() for line in run(redis_url).stdout.splitlines()[1:]]
    assert [row[4:] for row in rows] == [["yes"], ["no", "master"], ["wiped"]]


def test_an_empty_registry_says_where_to_look(redis_url: str) -> None:
    done = run(redis_url)
    assert (done.exit_code, done.stderr) == (
        0,
        "no broker was ever registered here: see --redis and --namespace\n",
    )
