"""The tables that the benchmarks write and read: the same ones in every run."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import redis

from sharedroutes.registry import Broker, Registration, RouteStore, TopicConfig
from sharedroutes.registry.codec import encode_config

Table: TypeAlias = dict[str, TopicConfig]

_SEED: Final = 20_260
_SHAPES: Final = ((8, 8, 6), (4, 4, 6), (16, 16, 6), (8, 8, 4), (1, 1, 6), (8, 4, 6), (32, 32, 6), (8, 8, 2))
"""Read queues, write queues, permission: common sizes, one being shrunk, read-only and write-only ones."""

_DEVIATION: Final = 0.1
"""The share of (topic, broker) pairs that are not as the topic is elsewhere: drained or scaled by hand."""


def topic_names(count: int) -> list[str]:
    """Return the names of that many topics."""
    return [f"topic-{number:06d}" for number in range(count)]


def long_topic_names(count: int) -> list[str]:
    """Return the names of that many topics, 26 bytes each: about as long as those of real clusters."""
    return [f"benchmark-topic-{number:010d}" for number in range(count)]


def tables(topics: Sequence[str], brokers: int) -> list[Table]:
    """Return one table for each of so many brokers, all of them with all the topics."""
    rng = random.Random(_SEED)
    usual = {topic: rng.choice(_SHAPES) for topic in topics}
    return [
        {
            topic: TopicConfig(topic, *(rng.choice(_SHAPES) if rng.random() < _DEVIATION else shape))
            for topic, shape in usual.items()
        }
        for _ in range(brokers)
    ]


def spread(topics: Sequence[str], brokers_per_topic: int, brokers: int) -> list[Table]:
    """Return one table for each of so many brokers; each topic is on a few neighbours, all have as many."""
    rng = random.Random(_SEED)
    of_brokers: list[Table] = [{} for _ in range(brokers)]
    for number, topic in enumerate(topics):
        usual = TopicConfig(topic, *rng.choice(_SHAPES))
        for neighbour in range(brokers_per_topic):
            deviates = rng.random() < _DEVIATION
            config = TopicConfig(topic, *rng.choice(_SHAPES)) if deviates else usual
            of_brokers[(number * brokers_per_topic + neighbour) % brokers][topic] = config
    return of_brokers


def broker(number: int) -> Broker:
    """Return the master of the group with that number."""
    return Broker(f"broker-{number:03d}", f"10.0.{number // 250}.{number % 250 + 1}:10911")


def fill(store: RouteStore, of_brokers: Iterable[Table]) -> list[Registration]:
    """Register one broker for each table."""
    return [store.register(broker(number), table) for number, table in enumerate(of_brokers)]


def hash_key(topic: str) -> str:
    """Return the key of a topic in the table that one would write by hand."""
    return f"by-hand:{topic}"


def fill_hashes(client: redis.Redis, of_brokers: Sequence[Table]) -> None:
    """Write the table that one would write by hand: a hash a topic, a field a broker."""
    rows: defaultdict[str, list[str | bytes]] = defaultdict(list)
    for number, table in enumerate(of_brokers):
        for topic, config in table.items():
            rows[topic] += (broker(number).broker_name, encode_config(config))
    pipeline = client.pipeline(transaction=False)
    for topic, row in rows.items():
        pipeline.hset(hash_key(topic), items=row)
    pipeline.execute()
