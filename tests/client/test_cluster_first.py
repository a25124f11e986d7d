"""The example of a strategy: one cluster takes the messages while it is large enough."""

from __future__ import annotations

from examples.cluster_first import ClusterFirst, client
from sharedroutes.registry import Broker, RouteStore, TopicConfig


def register(store: RouteStore, **clusters: str) -> None:
    for place, (name, cluster) in enumerate(clusters.items(), 1):
        broker = Broker(name, f"10.0.0.{place}:10911", cluster=cluster)
        store.register(broker, [TopicConfig("orders", read_queue_nums=2, write_queue_nums=2)])


def chosen(url: str, cluster: str) -> set[str]:
    with client(url, cluster) as routes:
        return {routes.select_queue("orders").broker_name for _ in range(12)}


def test_the_cluster_takes_all_messages_while_it_has_enough_brokers(
    agent: RouteStore, redis_url: str
) -> None:
    register(agent, a="old", b="old", c="new", d="new")
    assert chosen(redis_url, "new") == {"c", "d"}


def test_others_step_in_when_too_few_are_left(agent: RouteStore, redis_url: str) -> None:
    register(agent, a="old", b="old", c="new")
    assert chosen(redis_url, "new") == {"a", "b", "c"}


def test_a_cluster_without_brokers_is_no_fault(agent: RouteStore, redis_url: str) -> None:
    register(agent, a="old")
    assert ClusterFirst("new").enough == 2
    assert chosen(redis_url, "new") == {"a"}
