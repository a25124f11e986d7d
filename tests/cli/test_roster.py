"""`clusters` and `leases` on a real server."""

from __future__ import annotations

from typing import Final

import pytest

from sharedroutes.registry import Broker, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.plans import fronts, register
from tests.cli.terminal import document, rows, run

ORDERS: Final = [TopicConfig("orders")]


@pytest.fixture
def registered(store: RouteStore) -> RouteStore:
    """Return the store with two clusters; in the first a broker is dead, one is out, one has only a slave."""
    store.register(Broker("broker-a", "10.0.0.1:1", cluster="c1"), [*ORDERS, TopicConfig("audit")])
    store.unregister(store.register(Broker("broker-b", "10.0.0.2:1", cluster="c1"), ORDERS))
    store.register(Broker("broker-c", "10.0.0.3:1", 1, cluster="c1"), [])
    out = Broker("broker-d", "10.0.0.4:1", cluster="c1")
    store.register(out, ORDERS)
    store.admin.withdraw(out, reason="drained")
    store.register(Broker("broker-e", "10.0.0.5:1", cluster="c2"), [])
    store.admin.wipe_write_perm("broker-e")
    return store


@pytest.mark.usefixtures("registered")
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
        long.register(Broker("broker-a", "10.0.0.1:1", cluster="c1"), ORDERS)
    of_agent = store.register(Broker("broker-b", "10.0.0.2:1"), ORDERS)
    of_front = Broker("broker-c", "10.0.0.3:1", heartbeat_timeout_ms=60_000)
    table = {topic.topic_name: topic for topic in ORDERS}
    held = store.run(register(store.config, of_front, table, joint=True))
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


@pytest.mark.usefixtures("registered")
def test_what_has_no_lease_is_not_among_the_leases(redis_url: str) -> None:
    assert {one["brokerName"] for one in document(redis_url, "leases")} == {
        "broker-a",
        "broker-c",
        "broker-e",
    }


@pytest.mark.usefixtures("registered")
def test_a_route_may_be_asked_for_by_the_singular(redis_url: str) -> None:
    assert run(redis_url, "route", "orders").stdout == run(redis_url, "routes", "orders").stdout != ""


def test_nothing_is_registered_and_nothing_is_listed(redis_url: str) -> None:
    assert document(redis_url, "clusters") == document(redis_url, "leases") == []
