"""How many topics a second does one look at the table answer for?

Peers: a pipeline of HGETALL with a hash a topic, and redis-benchmark, where it is installed. Ratios: raw
MGET of the route indexes to redis-benchmark, decoded lookups to the pipeline.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import redis

from sharedroutes.registry import RouteStore

from .kit import redis_benchmark
from .kit.figures import Contestant, Figure, Outcome, at_least, interleave, ratio, seconds
from .kit.workload import fill, fill_hashes, hash_key, mget, opened, tables, topic_names

T = TypeVar("T")

_RAW: Final = "raw MGET"
_DECODED: Final = "decoded, groups known"
_COLD: Final = "decoded, no group known"
_BY_HAND: Final = "HGETALL pipeline"
_REDIS_BENCHMARK: Final = "redis-benchmark"

_NOTES: Final = (
    "raw MGET: the route indexes, undecoded; decoded: lookup().routes() and routes(), row caches warm; "
    "HGETALL pipeline: a hash a topic, undecoded, redis-py; redis-benchmark: -c 1 -P 1000 GET, same values"
)

_SETTLE: Final = 10
"""Lookups before the clock starts: after a pause the first ones are half as fast, whatever is measured."""

_KEYS_OF_PIPELINE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 10
    topics: int = 10_000
    brokers: int = 8
    topics_per_lookup: int = 1_000
    lookups: int = 50
    """In one round, of each of ours; a fifth of it of what is written by hand."""

    gets: int = 400_000
    """In one round of redis-benchmark."""


QUICK: Final = Size(rounds=3, lookups=20, gets=200_000)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    with opened() as (server, store, client):
        names = topic_names(size.topics)
        of_brokers = tables(names, size.brokers)
        fill(store, of_brokers)
        fill_hashes(client, of_brokers)
        _fill_plain_keys(client, store, names)
        contestants = _ours(size, store, client, names)
        if redis_benchmark.is_there():
            contestants[_REDIS_BENCHMARK] = partial(_redis_benchmark, server.port, size)
        return _judge(size, interleave(size.rounds, contestants))


def _ours(size: Size, store: RouteStore, client: redis.Redis, names: Sequence[str]) -> dict[str, Contestant]:
    rng = random.Random(1)
    picks = [rng.sample(names, size.topics_per_lookup) for _ in range(_SETTLE + size.lookups)]
    keys = [[store.keys.topic(topic) for topic in pick] for pick in picks]
    hashes = [[hash_key(topic) for topic in pick] for pick in picks[: _SETTLE + size.lookups // 5 + 1]]
    known = store.lookup(names).groups
    return {
        _RAW: partial(_rate, size, lambda wanted: store.run(mget(wanted)), keys),
        _DECODED: partial(_rate, size, lambda pick: store.lookup(pick, known).routes(), picks),
        _COLD: partial(_rate, size, store.routes, picks),
        _BY_HAND: partial(_rate, size, partial(_hgetall, client), hashes),
    }


def _rate(size: Size, look: Callable[[T], object], picks: Sequence[T]) -> float:
    """Return thousands of topics a second."""
    _each(look, picks[:_SETTLE])
    timed = picks[_SETTLE:]
    return len(timed) * size.topics_per_lookup / seconds(partial(_each, look, timed)) / 1_000


def _each(look: Callable[[T], object], picks: Iterable[T]) -> None:
    for pick in picks:
        look(pick)


def _hgetall(client: redis.Redis, keys: Sequence[str]) -> list[object]:
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.hgetall(key)
    return pipeline.execute()


def _fill_plain_keys(client: redis.Redis, store: RouteStore, names: Sequence[str]) -> None:
    """Copy every route index to a key that redis-benchmark can name, so that the values are the same."""
    for start in range(0, len(names), _KEYS_OF_PIPELINE):
        part = names[start : start + _KEYS_OF_PIPELINE]
        values = store.run(mget([store.keys.topic(topic) for topic in part]))
        client.mset({f"key:{start + number:012d}": value for number, value in enumerate(values)})


def _redis_benchmark(port: int, size: Size) -> float:
    """Return thousands of GETs a second."""
    command = ("GET", "key:__rand_int__")
    return redis_benchmark.rate(port, size.gets, command, pipeline=1_000, keys=size.topics) / 1_000


def _judge(size: Size, values: dict[str, list[float]]) -> Outcome:
    found = {name: Figure(name, "k topics/s", rounds) for name, rounds in values.items()}
    figures = list(found.values())
    notes = [
        f"{size.topics_per_lookup:,} random topics of {size.topics:,} a lookup, {size.brokers} brokers each",
        _NOTES,
    ]
    if _REDIS_BENCHMARK in found:
        figures.append(ratio(found[_RAW], found[_REDIS_BENCHMARK], at_least(0.6)))
    else:
        notes.append(redis_benchmark.ABSENT.format("the raw read"))
    figures.append(ratio(found[_DECODED], found[_BY_HAND], at_least(1)))
    return Outcome(figures, notes)
