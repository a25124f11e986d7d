"""What one would write with redis-py in an afternoon: a key a route, one that ends a broker, and pub/sub.

It asks nobody who owns a broker, takes no order of changes, and does not notice what it missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import redis

from sharedroutes.registry import TopicConfig

from ..workload import Table
from .ours import redis_server
from .registry import Queues, Registry, View, WatchingSession, address_of, packed, write_queues

CHANNEL: Final = "changes"
_EXPIRED: Final = "__keyevent@0__:expired"
_ALIVE: Final = "alive:"
_SCANNED: Final = 1_000
_POLL_S: Final = 1.0


class HandWritten(WatchingSession):
    """`route:TOPIC:BROKER` for each row, and `alive:BROKER` that ends unless it is renewed."""

    def __init__(self, url: str, lease_s: float) -> None:
        self._client = redis.Redis.from_url(url)
        self._lease_ms = round(lease_s * 1_000)
        self._name = ""
        self._topics: list[str] = []
        self._known: dict[str, Queues] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """Close the connections."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def ping(self) -> None:
        """Ask with PING."""
        self._client.ping()

    def registering(self, name: str, table: Table) -> Callable[[], object]:
        """Return what registers a broker."""
        return partial(self._register, name, table)

    def beat(self) -> None:
        """Renew the key that ends."""
        self._client.psetex(_ALIVE + self._name, self._lease_ms, address_of(self._name))

    def change(self, config: TopicConfig) -> None:
        """Write the row, and tell."""
        pipeline = self._client.pipeline()
        pipeline.set(_row(config.topic_name, self._name), packed(config))
        pipeline.publish(CHANNEL, f"{config.topic_name}:{self._name}:{config.write_queue_nums}")
        pipeline.execute()

    def leave(self) -> None:
        """Delete all of it."""
        self._client.delete(_ALIVE + self._name, *(_row(topic, self._name) for topic in self._topics))

    def lookup(self, topic: str) -> Queues:
        """Look for the rows, and read those whose broker lives."""
        rows: list[bytes] = [*self._client.scan_iter(match=_row(topic, "*"), count=_SCANNED)]
        if not rows:
            return {}
        names = [row.rpartition(b":")[2].decode() for row in rows]
        values: Any = self._client.mget([*rows, *(_ALIVE + name for name in names)])
        return {
            name: write_queues(value)
            for name, value, alive in zip(names, values, values[len(rows) :], strict=False)
            if value and alive
        }

    def watch(self, topic: str) -> View:
        """Subscribe, then look once; what is told from then on is all in the messages."""
        subscriber: Any = self._client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe(CHANNEL, _EXPIRED)
        subscriber.get_message(timeout=_POLL_S)
        subscriber.get_message(timeout=_POLL_S)
        self._known[topic] = self.lookup(topic)
        self._thread = threading.Thread(target=self._listen, args=(subscriber,), daemon=True)
        self._thread.start()
        return View(partial(self._known.get, topic), lambda: self._known[topic])

    def _register(self, name: str, table: Table) -> None:
        self._name, self._topics = name, [*table]
        pipeline = self._client.pipeline()
        for topic, config in table.items():
            pipeline.set(_row(topic, name), packed(config))
        pipeline.psetex(_ALIVE + name, self._lease_ms, address_of(self._name))
        for topic, config in table.items():
            pipeline.publish(CHANNEL, f"{topic}:{name}:{config.write_queue_nums}")
        pipeline.execute()

    def _listen(self, subscriber: Any) -> None:
        with suppress(redis.ConnectionError):
            while not self._over.is_set():
                message = subscriber.get_message(timeout=_POLL_S)
                if message is not None:
                    self._take(message["channel"].decode(), message["data"].decode())
        subscriber.close()

    def _take(self, channel: str, said: str) -> None:
        if channel == _EXPIRED:
            gone = said.removeprefix(_ALIVE)
            for topic, known in self._known.items():
                self._known[topic] = {name: queues for name, queues in known.items() if name != gone}
            return
        topic, name, queues = said.split(":")
        if topic in self._known:
            self._known[topic] = {**self._known[topic], name: int(queues)}


def _row(topic: str, name: str) -> str:
    return f"route:{topic}:{name}"


BY_HAND: Final = Registry(
    name="redis-py by hand",
    terms="Redis without persistence; SET, PSETEX, SCAN, pub/sub, keyspace events of keys that ended",
    run=partial(redis_server, ("--notify-keyspace-events", "Ex")),
    session=HandWritten,
)
