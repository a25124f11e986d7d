"""Whatever tables brokers register in whatever order, the index says exactly what the last ones said."""

from __future__ import annotations

from dataclasses import dataclass

import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharedroutes.registry import (
    Broker,
    QueueData,
    Registration,
    RegistryConfig,
    RouteStore,
    TopicConfig,
    topic_table,
)
from tests.registry.builders import ADDRESS, row, topic_configs
from tests.support import examples

# Names that a careless search in the rows would take for one another.
BROKERS = ["a", "aa", "a-a", "%a", "a.", "[a]", "4", "日"]
TOPICS = ["t", "tt", "t:t", "{t}", "%t%", "topics", "日本"]


@dataclass(frozen=True, slots=True)
class Step:
    """One broker registers, as a running owner or as a restarted one."""

    broker: Broker
    table: dict[str, TopicConfig]
    chunk_topics: int
    restarted: bool


def steps() -> st.SearchStrategy[Step]:
    configs = st.lists(
        topic_configs(st.sampled_from(TOPICS)), max_size=6, unique_by=lambda config: config.topic_name
    )
    brokers = st.sampled_from(BROKERS).map(lambda name: Broker(name, ADDRESS))
    return st.builds(Step, brokers, configs.map(topic_table), st.integers(1, 4), st.booleans())


def rows(held: dict[str, Registration], topic: str) -> set[QueueData]:
    """Return what the route of a topic should say."""
    return {row(name, owned.topics[topic]) for name, owned in held.items() if topic in owned.topics}


# The fixture is made once for all examples: each example empties the server itself.
@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(steps(), min_size=1, max_size=6))
def test_the_index_is_what_the_last_registrations_said(admin: redis.Redis, steps: list[Step]) -> None:
    admin.flushall()
    held: dict[str, Registration] = {}
    for step in steps:
        store = RouteStore.from_client(admin, RegistryConfig(chunk_topics=step.chunk_topics))
        name = step.broker.broker_name
        held[name] = store.register(step.broker, step.table, held=None if step.restarted else held.get(name))
        expected = {topic: rows(held, topic) for topic in TOPICS if rows(held, topic)}
        found = store.routes(TOPICS)
        assert {topic: set(route.queue_datas) for topic, route in found.items()} == expected
        assert store.topics() == sorted(expected)
        assert admin.exists(*(store.keys.topic(topic) for topic in TOPICS)) == len(expected)


@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(first=topic_configs(), second=topic_configs())
def test_any_legal_topic_can_be_registered_and_replaced(
    admin: redis.Redis, first: TopicConfig, second: TopicConfig
) -> None:
    admin.flushall()
    store = RouteStore.from_client(admin)
    for config in (first, second):
        store.register(Broker("a", ADDRESS), [config])
        assert store.routes([config.topic_name])[config.topic_name].queue_datas == (row("a", config),)
        assert store.topics() == [config.topic_name]
