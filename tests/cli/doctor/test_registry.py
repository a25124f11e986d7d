"""What `doctor` says of registries that are really in that state."""

from __future__ import annotations

from typing import Final

import pytest
import redis

from sharedroutes.registry import Broker, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.plans import fronts, register
from tests.cli.doctor.examined import ERROR, OK, SKIPPED, WARNING, doctor
from tests.support import wait_until

A: Final = Broker("broker-a", "10.0.0.1:10911")
B: Final = Broker("broker-b", "10.0.0.2:10911")
ORDERS: Final = [TopicConfig("orders")]
CHECKS: Final = (
    "verify",
    "brokers",
    "replicas",
    "withdrawn",
    "wiped",
    "without-master",
    "routes",
    "hints",
    "prober",
)


@pytest.fixture
def with_a(store: RouteStore) -> RouteStore:
    """Return the store with one live broker."""
    store.register(A, ORDERS)
    return store


@pytest.mark.usefixtures("with_a")
def test_nothing_is_said_of_a_registry_in_order(redis_url: str) -> None:
    found = doctor(redis_url)
    assert [check for check in CHECKS if found[check].level is not OK] == []
    assert found["verify"].what == "tables, routes and indexes agree"


def test_a_registry_in_which_no_broker_ever_was_is_a_warning_since_it_may_be_the_wrong_one(
    with_a: RouteStore, redis_url: str
) -> None:
    found = doctor(redis_url, "--namespace", "sharedruotes")
    assert [check for check in CHECKS if found[check].level is not OK] == ["brokers"]
    assert found["brokers"].what == "none was ever registered in the registry 'sharedruotes'"
    assert "--namespace" in found["brokers"].advice
    assert doctor(redis_url)["brokers"].level is OK


def test_a_route_that_is_not_that_of_the_brokers_table_is_an_error(
    with_a: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    admin.set(with_a.keys.topic("orders"), "broker-a 9 9 6 0")
    said = doctor(redis_url)["verify"]
    assert (said.level, said.what.partition(";")[0]) == (ERROR, "1 row-stale")
    assert "rebuild" in said.advice


def test_a_topic_that_is_not_listed_is_a_warning(
    with_a: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    admin.srem(with_a.keys.topics, "orders")
    said = doctor(redis_url)["verify"]
    assert (said.level, said.what.partition(";")[0]) == (WARNING, "1 topic-unlisted")


def test_a_broker_that_is_down_and_its_topics_are_named(with_a: RouteStore, redis_url: str) -> None:
    with_a.unregister(with_a.register(B, [*ORDERS, TopicConfig("audit")]), reason="host lost")
    found = doctor(redis_url)
    assert found["brokers"].level is WARNING
    assert "no replica lives: broker-b:0 since 2" in found["brokers"].what
    assert found["brokers"].what.endswith("(host lost)")
    assert (found["routes"].level, found["routes"].what) == (ERROR, "topics without a live broker: audit")


def test_a_slave_that_was_lost_is_named_and_one_that_left_is_not(with_a: RouteStore, redis_url: str) -> None:
    with_a.unregister(with_a.register(Broker("broker-a", "10.0.0.8:1", 2), []))
    assert doctor(redis_url)["replicas"].level is OK
    with RouteStore.from_url(redis_url, RegistryConfig(lease_ttl_s=0.05)) as hasty:
        hasty.register(Broker("broker-a", "10.0.0.9:1", 1), [])
        wait_until(lambda: hasty.expire("broker-a", 1), description="its lease has ended")
    said = doctor(redis_url)["replicas"]
    assert said.level is WARNING
    assert "lost, while others of their broker live: broker-a:1 since 2" in said.what


def test_a_broker_that_an_operator_took_out_is_named_with_the_way_back(
    with_a: RouteStore, redis_url: str
) -> None:
    with_a.admin.withdraw(A, reason="drained")
    found = doctor(redis_url)
    assert found["withdrawn"].level is WARNING
    assert "broker-a:0 since 2" in found["withdrawn"].what
    assert "agent-ctl resume" in found["withdrawn"].advice
    assert found["brokers"].level is OK  # it is out because somebody wants it so


def test_a_wiped_broker_is_named_with_the_way_back(with_a: RouteStore, redis_url: str) -> None:
    with_a.admin.wipe_write_perm("broker-a")
    said = doctor(redis_url)["wiped"]
    assert (said.level, said.what.endswith(": broker-a"), "lift" in said.advice) == (WARNING, True, True)


def test_a_broker_of_which_only_a_slave_lives_is_named(with_a: RouteStore, redis_url: str) -> None:
    with_a.register(Broker("broker-c", "10.0.0.3:1", 1, enable_acting_master=True), [])
    said = doctor(redis_url)["without-master"]
    assert (said.level, said.what) == (WARNING, "only slaves live: broker-c")


def test_brokers_that_clients_cannot_reach_are_named(with_a: RouteStore, redis_url: str) -> None:
    for client in ("client-1", "client-2"):
        with_a.hint(client, ["broker-a"], ttl_s=60.0)
    said = doctor(redis_url)["hints"]
    assert (said.level, said.what) == (WARNING, "clients cannot reach: broker-a (2 clients)")


def test_brokers_at_fronts_of_which_none_asks_are_told(with_a: RouteStore, redis_url: str) -> None:
    broker = Broker("broker-f", "10.0.0.4:1", heartbeat_timeout_ms=60_000)
    with_a.run(register(with_a.config, broker, {"orders": ORDERS[0]}, joint=True))
    with_a.run(fronts.vouch(with_a.config, broker, "front.1", anew=True))
    said = doctor(redis_url)["prober"]
    assert (said.level, "the 1 replicas live" in said.what) == (WARNING, True)
    with_a.run(fronts.front_beat(with_a.config, "front-1", 60_000))
    said = doctor(redis_url)["prober"]
    assert (said.level, said.what) == (OK, "front-1 asks 1 replicas; 1 fronts live")


def test_a_prober_and_fronts_that_cannot_be_read_are_not_said_to_be_missing(
    with_a: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    broker = Broker("broker-f", "10.0.0.4:1", heartbeat_timeout_ms=60_000)
    with_a.run(register(with_a.config, broker, {"orders": ORDERS[0]}, joint=True))
    with_a.run(fronts.vouch(with_a.config, broker, "front.1", anew=True))
    admin.set(with_a.keys.fronts, "foreign")
    found = doctor(redis_url)
    admin.delete(with_a.keys.fronts)
    assert found["prober"].level is found["fronts"].level is SKIPPED
    assert found["prober"].what.startswith(f"not looked at: {with_a.keys.fronts} cannot be read: ")


def test_a_route_that_is_lost_is_told_by_verify_and_routes_are_not_well(
    with_a: RouteStore, redis_url: str, admin: redis.Redis
) -> None:
    admin.delete(with_a.keys.topic("orders"))
    found = doctor(redis_url)
    assert found["verify"].level is ERROR
    assert (found["routes"].level, "verify" in found["routes"].what) == (SKIPPED, True)


def test_topics_of_people_are_told_before_those_that_brokers_make(store: RouteStore, redis_url: str) -> None:
    own = ("%RETRY%group", "RMQ_SYS_TRACE_TOPIC", "TBW102", "broker-a", "DefaultCluster_REPLY_TOPIC")
    store.unregister(store.register(A, [TopicConfig(name) for name in (*own, "orders", "payments")]))
    said = doctor(redis_url)["routes"]
    assert said.what.startswith("topics without a live broker: orders, payments, "), said


def test_quick_reads_nothing_whole(with_a: RouteStore, redis_url: str, admin: redis.Redis) -> None:
    admin.srem(with_a.keys.topics, "orders")
    with_a.unregister(with_a.register(B, [TopicConfig("audit")]))
    found = doctor(redis_url, "--quick")
    assert found["verify"].what == found["routes"].what == "not looked at: left out by --quick"
    assert found["brokers"].level is WARNING


def test_many_brokers_are_not_all_named(store: RouteStore, redis_url: str) -> None:
    for number in range(7):
        store.register(Broker(f"broker-{number}", f"10.0.0.{number}:1"), ORDERS)
        store.admin.wipe_write_perm(f"broker-{number}")
    said = doctor(redis_url)["wiped"]
    assert said.what.endswith(": broker-0, broker-1, broker-2, broker-3, broker-4 and 2 more")
