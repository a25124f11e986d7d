"""How long does a registration of 10,000 and of 100,000 topics take, and does it stall Redis?

Peer: a Lua script that writes the same keys and checks nothing. Ratio: a first registration to that.
Whether Redis stalls is the longest single command in its SLOWLOG.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import redis

from sharedroutes.registry import EmbeddedServer, Registration, RegistryConfig, RouteStore, TopicConfig
from sharedroutes.registry.codec import encode_config

from .kit.figures import Contestant, Figure, Outcome, at_most, interleave, ratio, seconds
from .kit.workload import Table, broker, fill, tables, topic_names

_FIRST: Final = "first time"
_SAME_AGAIN: Final = "1 changed topic"
_CROWDED: Final = "first time, the other brokers are there"
_BARE: Final = "bare Lua write"
_LONGEST: Final = "longest single command, first time"

_BARE_WRITE: Final = """
local configs, indexes = {}, {}
for i = 2, #KEYS do
  configs[#configs + 1] = string.sub(KEYS[i], ARGV[1] + 1)
  configs[#configs + 1] = ARGV[i + 1]
  indexes[#indexes + 1] = KEYS[i]
  indexes[#indexes + 1] = ARGV[2] .. ' ' .. ARGV[i + 1]
end
redis.call('HSET', KEYS[1], unpack(configs))
redis.call('MSET', unpack(indexes))
"""
"""The broker's table and the indexes, and none of the checks.

KEYS broker's topics, route index of each topic; ARGV bytes of the index keys before the topic's name, broker
name, one configuration a topic.
"""

_MANY_FIRST: Final = "many topics: first time"
_MANY_BARE: Final = "many topics: bare Lua write"
_LONGEST_FIRST: Final = "many topics: longest command, first time"
_LONGEST_READ: Final = "many topics: longest command, stored table read, all changed"
_LONGEST_REMOVED: Final = "many topics: longest command, all removed"

_SLOWLOG_ENTRIES: Final = 100_000
_NOT_OURS: Final = (b"CONFIG", b"SLOWLOG")


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 15
    topics: int = 10_000
    brokers: int = 8
    many_rounds: int = 7
    many_topics: int = 100_000


QUICK: Final = Size(rounds=4, many_rounds=2)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError."""
    with (
        EmbeddedServer() as server,
        RouteStore.from_url(server.url) as store,
        RouteStore.from_url(server.url, RegistryConfig(namespace="crowded")) as crowded,
        redis.Redis.from_url(server.url) as client,
    ):
        of_brokers = tables(topic_names(size.topics), size.brokers)
        fill(crowded, of_brokers[1:])
        newcomer = _Newcomer(store, client, of_brokers[0])
        contestants: dict[str, Contestant] = {
            _FIRST: newcomer.first_time,
            _SAME_AGAIN: newcomer.one_changed,
            _CROWDED: partial(_among_others, crowded, size.brokers, of_brokers[0]),
            _BARE: _BareWrite(store, client, of_brokers[0]).milliseconds,
            _LONGEST: newcomer.longest_command,
        }
        values = interleave(size.rounds, contestants)
        _forget(client, crowded)
        values |= _many(size, store, client)
        return _judge(size, store.config.chunk_topics, values)


def _many(size: Size, store: RouteStore, client: redis.Redis) -> dict[str, list[float]]:
    (table,) = tables(topic_names(size.many_topics), 1)
    newcomer = _Newcomer(store, client, table)
    contestants: dict[str, Contestant] = {
        _MANY_FIRST: newcomer.first_time,
        _MANY_BARE: _BareWrite(store, client, table).milliseconds,
        _LONGEST_FIRST: newcomer.longest_command,
        _LONGEST_READ: newcomer.longest_command_of_all_changed,
        _LONGEST_REMOVED: newcomer.longest_command_of_removal,
    }
    return interleave(size.many_rounds, contestants)


class _Newcomer:
    """A broker that registers in an empty registry; every figure is in ms."""

    def __init__(self, store: RouteStore, client: redis.Redis, table: Table) -> None:
        self._store = store
        self._client = client
        self._table = table
        self._held: Registration | None = None

    def first_time(self) -> float:
        _forget(self._client, self._store)
        return seconds(self._register) * 1_000

    def one_changed(self) -> float:
        """Continue the registration of first_time, which comes before."""
        topic, config = next(iter(self._table.items()))
        table = {**self._table, topic: replace(config, write_queue_nums=config.write_queue_nums + 1)}
        return seconds(partial(self._store.register, broker(0), table, held=self._held)) * 1_000

    def longest_command(self) -> float:
        """Not of a timed registration: writing the slow log costs time."""
        _forget(self._client, self._store)
        return _longest(self._client, self._register)

    def longest_command_of_all_changed(self) -> float:
        """Follows a registration of the same table by an owner that has forgotten it."""
        table = {
            topic: replace(config, write_queue_nums=config.write_queue_nums + 1)
            for topic, config in self._table.items()
        }
        return _longest(self._client, partial(self._store.register, broker(0), table))

    def longest_command_of_removal(self) -> float:
        """Follows a registration; the stored table is read, too."""
        return _longest(self._client, partial(self._store.register, broker(0), {}))

    def _register(self) -> None:
        self._held = self._store.register(broker(0), self._table)


def _longest(client: redis.Redis, work: Callable[[], object]) -> float:
    """Return ms of the longest command of `work` by the server's clock; one in a script counts for both."""
    client.config_set("slowlog-max-len", _SLOWLOG_ENTRIES)
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    work()
    client.config_set("slowlog-log-slower-than", -1)
    entries: Any = client.slowlog_get(_SLOWLOG_ENTRIES)
    ours = [entry["duration"] for entry in entries if not entry["command"].startswith(_NOT_OURS)]
    return float(max(ours)) / 1_000


def _among_others(store: RouteStore, number: int, table: Table) -> float:
    """Return ms for a registration of topics that the other brokers hold, too."""
    store.register(broker(number), {})
    return seconds(partial(store.register, broker(number), table)) * 1_000


class _BareWrite:
    """The same keys and values in the same chunks, arguments prepared beforehand, nothing checked."""

    def __init__(self, store: RouteStore, client: redis.Redis, table: Table) -> None:
        self._store = store
        self._client = client
        self._script = client.script_load(_BARE_WRITE)
        topics, chunk = list(table), store.config.chunk_topics
        parts = [topics[start : start + chunk] for start in range(0, len(topics), chunk)]
        self._calls = [self._call([table[topic] for topic in part]) for part in parts]

    def milliseconds(self) -> float:
        _forget(self._client, self._store)
        return seconds(self._write) * 1_000

    def _call(self, configs: Sequence[TopicConfig]) -> tuple[list[str], list[str | bytes]]:
        keys, name = self._store.keys, broker(0).broker_name
        indexes = [keys.topic(config.topic_name) for config in configs]
        values = [encode_config(config) for config in configs]
        return [keys.broker_topics(name), *indexes], [str(len(keys.topic(""))), name, *values]

    def _write(self) -> None:
        for keys, arguments in self._calls:
            self._client.evalsha(self._script, len(keys), *keys, *arguments)


def _forget(client: redis.Redis, store: RouteStore) -> None:
    """Delete the store's whole registry, and none of the others on the server."""
    keys = list(client.scan_iter(match=f"{store.keys.prefix}:*", count=10_000))
    if keys:
        client.delete(*keys)


def _judge(size: Size, chunk: int, values: dict[str, list[float]]) -> Outcome:
    targets = {_FIRST: at_most(40), _SAME_AGAIN: at_most(2)}
    targets |= dict.fromkeys((_LONGEST_FIRST, _LONGEST_READ, _LONGEST_REMOVED), at_most(5))
    found = {name: Figure(name, "ms", rounds, targets.get(name)) for name, rounds in values.items()}
    return Outcome(
        [
            *found.values(),
            ratio(found[_FIRST], found[_BARE], at_most(2.5)),
            ratio(found[_MANY_FIRST], found[_MANY_BARE], at_most(2.5)),
        ],
        [
            f"{size.topics:,} topics in chunks of {chunk}; {size.brokers - 1} other brokers have them too",
            f"many topics: {size.many_topics:,}, no other broker",
            "longest command: by SLOWLOG, so with what the machine takes the server's CPU away for",
            "bare Lua write: the broker's table and the indexes, arguments ready-made, nothing checked",
        ],
    )
