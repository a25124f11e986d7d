"""How much memory does a (topic, broker) entry take, in the route index and in the brokers' tables?

Everything is the server's own count (`used_memory`), after the writers are gone: a kind of key takes what
deleting its keys gives back. The route index takes what is left above the empty server when all else is
deleted, so the server's main table of keys is part of it. Peers: what people write by hand, a JSON string
or a packed hash for each topic. Ratios: either to the route index.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import redis

from sharedroutes.registry import EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.codec import encode_config
from sharedroutes.registry.keys import Keys

from .kit.figures import Figure, Outcome, at_most, ratio
from .kit.workload import LASTING, Table, broker, fill, long_topic_names, spread

_INDEX: Final = "route index"
_TABLES: Final = "broker tables"
_TOPICS: Final = "index of topics"
_CHANGES: Final = "change stream"
_REST: Final = "groups, leases, other indexes"
_JSON: Final = "JSON string a topic, by hand"
_PACKED: Final = "packed hash a topic, by hand"

_TARGETS: Final = {_INDEX: at_most(60), _TABLES: at_most(130)}
_KEYS_OF_COMMAND: Final = 1_000
_FEW_BYTES: Final = 16_384
_PAUSE_S: Final = 0.25

_HASHES: Final = """
local from = 2
for _, key in ipairs(KEYS) do
  redis.call('HSET', key, unpack(ARGV, from, from + ARGV[1] - 1))
  from = from + ARGV[1]
end
"""
"""KEYS a hash each; ARGV how many of the rest belong to one hash, fields and values in the keys' order."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    entries: int = 1_000_000
    brokers: int = 100
    brokers_per_topic: Sequence[int] = (8, 3)
    """One measurement each; the first one, the shape of RocketMQ's own benchmarks, is held to the targets."""


QUICK: Final = Size(entries=50_000, brokers=8)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when the server does not come to rest."""
    figures: list[Figure] = []
    for number, per_topic in enumerate(size.brokers_per_topic):
        figures += _measure(size, per_topic, held_to_targets=number == 0)
    return Outcome(
        figures,
        [
            f"{size.entries:,} (topic, broker) entries of {size.brokers} brokers, topic names of 26 bytes",
            "the change stream is bounded by its own settings, not by the size of the table",
            "JSON string: RocketMQ's queueDatas; packed: broker to `8 8 6 0`, the densest form of a hash",
        ],
    )


def _measure(size: Size, per_topic: int, *, held_to_targets: bool) -> list[Figure]:
    names = long_topic_names(size.entries // per_topic)
    of_brokers = spread(names, per_topic, size.brokers)
    entries = len(names) * per_topic
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as admin:
        parts = parts_of(server.url, admin, of_brokers)
        rows = _rows(names, of_brokers)
        for name, write in ((_JSON, _write_json), (_PACKED, _write_packed)):
            parts[name] = _by_hand(server.url, admin, partial(write, rows))
    figures = {
        name: Figure(
            f"{per_topic} brokers a topic: {name}",
            "B/entry",
            [part / entries],
            _TARGETS.get(name) if held_to_targets else None,
        )
        for name, part in parts.items()
    }
    index = figures[_INDEX]
    return [*figures.values(), *(ratio(figures[name], index) for name in (_JSON, _PACKED))]


def parts_of(url: str, admin: redis.Redis, of_brokers: Sequence[Table]) -> dict[str, float]:
    """Register all brokers; return the bytes of each kind of key, and leave the server empty.

    Raises RuntimeError as settled_memory, and when a topic has no route index.
    """
    _register_and_delete(url, admin, of_brokers[:1])  # the server sets up some things only once
    return _register_and_delete(url, admin, of_brokers)


def _register_and_delete(url: str, admin: redis.Redis, of_brokers: Sequence[Table]) -> dict[str, float]:
    empty = settled_memory(admin)
    with RouteStore.from_url(url, LASTING) as store:
        fill(store, of_brokers)
    left = settled_memory(admin)
    kinds = _by_kind(url, Keys(LASTING.namespace))
    topics = len(set().union(*of_brokers))
    if len(kinds[_INDEX]) != topics:
        raise RuntimeError(f"{len(kinds[_INDEX]):,} route indexes stand for {topics:,} topics")
    parts: dict[str, float] = {_INDEX: 0.0}
    for name in (_TABLES, _TOPICS, _CHANGES, _REST):
        _delete(url, kinds[name])
        after = settled_memory(admin)
        parts[name] = left - after
        left = after
    parts[_INDEX] = left - empty
    admin.flushall()
    return parts


def _by_kind(url: str, keys: Keys) -> dict[str, list[bytes]]:
    named = {keys.topics.encode(): _TOPICS, keys.changes.encode(): _CHANGES}
    index, group = keys.topic("").encode(), keys.broker("").encode()
    kinds: dict[str, list[bytes]] = defaultdict(list)
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(count=10_000):
            if key.startswith(index):
                kinds[_INDEX].append(key)
            elif key.startswith(group) and key.endswith(b":topics"):
                kinds[_TABLES].append(key)
            else:
                kinds[named.get(key, _REST)].append(key)
    return kinds


def _delete(url: str, keys: Sequence[bytes]) -> None:
    """Over a new connection: the server keeps the buffers of a connection as long as it exists."""
    with redis.Redis.from_url(url) as client:
        for start in range(0, len(keys), _KEYS_OF_COMMAND):
            client.delete(*keys[start : start + _KEYS_OF_COMMAND])


def settled_memory(admin: redis.Redis, within_s: float = 20.0) -> float:
    """Return the bytes the server uses, when only `admin` is connected and they no longer change.

    Raises RuntimeError when that does not come about in time.
    """
    deadline = time.monotonic() + within_s
    before = used_bytes(admin)
    while time.monotonic() < deadline:
        time.sleep(_PAUSE_S)  # the server goes on moving its tables by itself, ten times a second
        now = used_bytes(admin)
        if abs(now - before) < _FEW_BYTES and len(admin.client_list()) == 1:
            return now
        before = now
    raise RuntimeError(f"the server's memory did not come to rest within {within_s} s")


def used_bytes(admin: redis.Redis) -> float:
    """Return how many bytes the server counts as used."""
    memory: Any = admin.info("memory")
    return float(memory["used_memory"])


def _rows(names: Iterable[str], of_brokers: Sequence[Table]) -> dict[str, list[tuple[str, TopicConfig]]]:
    rows: dict[str, list[tuple[str, TopicConfig]]] = {name: [] for name in names}
    for number, table in enumerate(of_brokers):
        broker_name = broker(number).broker_name
        for topic, config in table.items():
            rows[topic].append((broker_name, config))
    return rows


def _by_hand(url: str, admin: redis.Redis, write: Callable[[redis.Redis], None]) -> float:
    """Return the bytes of a table by hand, and leave the server empty."""
    empty = settled_memory(admin)
    with redis.Redis.from_url(url) as client:
        write(client)
    full = settled_memory(admin)
    admin.flushall()
    return full - empty


def _write_json(rows: dict[str, list[tuple[str, TopicConfig]]], client: redis.Redis) -> None:
    key = Keys(LASTING.namespace).topic
    topics = list(rows)
    for start in range(0, len(topics), _KEYS_OF_COMMAND):
        part = topics[start : start + _KEYS_OF_COMMAND]
        client.mset({key(topic): _queue_datas(rows[topic]) for topic in part})


def _queue_datas(rows: Iterable[tuple[str, TopicConfig]]) -> str:
    datas = [
        {
            "brokerName": broker_name,
            "perm": config.perm,
            "readQueueNums": config.read_queue_nums,
            "topicSysFlag": config.topic_sys_flag,
            "writeQueueNums": config.write_queue_nums,
        }
        for broker_name, config in rows
    ]
    return json.dumps(datas, separators=(",", ":"))


def _write_packed(rows: dict[str, list[tuple[str, TopicConfig]]], client: redis.Redis) -> None:
    script = client.script_load(_HASHES)
    key = Keys(LASTING.namespace).topic
    topics = list(rows)
    for start in range(0, len(topics), _KEYS_OF_COMMAND):
        part = topics[start : start + _KEYS_OF_COMMAND]
        fields = [
            item for topic in part for name, config in rows[topic] for item in (name, encode_config(config))
        ]
        keys = [key(topic) for topic in part]
        client.evalsha(script, len(keys), *keys, str(len(fields) // len(part)), *fields)
