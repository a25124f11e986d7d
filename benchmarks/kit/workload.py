"""The tables that benchmarks write and read, the same in every run, and those one would write by hand."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import redis

from sharedroutes.registry import (
    Broker,
    EmbeddedServer,
    Registration,
    RegistryConfig,
    RouteStore,
    TopicConfig,
)
from sharedroutes.registry.codec import encode_config
from sharedroutes.registry.plans import Plan, Reads, Reply

Table: TypeAlias = dict[str, TopicConfig]

LASTING: Final = RegistryConfig(lease_ttl_s=3_600)
"""Its leases outlast every run, and need no heartbeat."""

_SEED: Final = 20_260
_SHAPES: Final = ((8, 8, 6), (4, 4, 6), (16, 16, 6), (8, 8, 4), (1, 1, 6), (8, 4, 6), (32, 32, 6), (8, 8, 2))
"""Read queues, write queues, permission: common sizes, one being shrunk, read-only and write-only ones."""

_DEVIATION: Final = 0.1
"""The share of (topic, broker) pairs that differ from the topic elsewhere: drained or scaled by hand."""


@contextmanager
def opened(
    config: RegistryConfig = LASTING, *options: str
) -> Iterator[tuple[EmbeddedServer, RouteStore, redis.Redis]]:
    """Start a server; give it, a store and a bare client. All are closed at the end of the block."""
    with (
        EmbeddedServer(*options) as server,
        RouteStore.from_url(server.url, config) as store,
        redis.Redis.from_url(server.url) as client,
    ):
        yield server, store, client


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


class Writer:
    """A broker that gives its first topic another number of write queues, again and again."""

    def __init__(self, store: RouteStore, table: Table) -> None:
        self._store = store
        self._held = store.register(broker(0), table)
        self._config = next(iter(table.values()))

    def write(self, write_queues: int) -> None:
        """Register the topic with so many write queues."""
        config = replace(self._config, write_queue_nums=write_queues)
        table = {**self._held.topics, config.topic_name: config}
        self._held = self._store.register(self._held.broker, table, held=self._held)


class Leaver:
    """A broker that leaves and comes back."""

    def __init__(self, store: RouteStore, table: Table) -> None:
        self._store = store
        self._table = table
        self.come_back()

    def leave(self) -> None:
        """Unregister."""
        self._store.unregister(self._held)

    def come_back(self) -> None:
        """Register."""
        self._held = self._store.register(broker(1), self._table)


def mget(keys: Sequence[str]) -> Plan[Reply]:
    """Read keys as they are."""
    (values,) = yield Reads((("MGET", *keys),))
    return values


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


def read_hashes(client: redis.Redis, topics: Sequence[str]) -> dict[str, dict[bytes, bytes]]:
    """Read so many topics of that table, in one pipeline."""
    pipeline = client.pipeline(transaction=False)
    for topic in topics:
        pipeline.hgetall(hash_key(topic))
    return dict(zip(topics, pipeline.execute(), strict=True))
