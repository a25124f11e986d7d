"""This registry on one Redis server, with the settings of a service that has none of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from sharedroutes.client import RouteClient
from sharedroutes.registry import (
    Broker,
    EmbeddedServer,
    QueueData,
    Registration,
    RegistryConfig,
    RouteStore,
    TopicConfig,
)
from sharedroutes.registry.embedded import find_server
from sharedroutes.registry.plans.expiry import server_time

from ..machine import server_version, version_said
from ..workload import Table
from .registry import Queues, Registry, Server, View, WatchingSession, address_of


class OurSession(WatchingSession):
    """A RouteStore, and a RouteClient to watch."""

    def __init__(self, url: str, lease_s: float) -> None:
        self._url = url
        self._store = RouteStore.from_url(url, RegistryConfig(lease_ttl_s=lease_s))
        self._client: RouteClient | None = None
        self._held: Registration | None = None

    def close(self) -> None:
        """Close both."""
        if self._client is not None:
            self._client.close()
        self._store.close()

    def ping(self) -> None:
        """Ask for the server's time."""
        self._store.run(server_time())

    def registering(self, name: str, table: Table) -> Callable[[], object]:
        """Return what registers a broker."""
        return partial(self._register, Broker(name, address_of(name)), table)

    def beat(self) -> None:
        """Renew the lease."""
        self._store.heartbeat(self._registration)

    def change(self, config: TopicConfig) -> None:
        """Register the table with another topic in it."""
        held = self._registration
        self._held = self._store.register(held.broker, {**held.topics, config.topic_name: config}, held=held)

    def leave(self) -> None:
        """Unregister, and forget the broker."""
        held = self._registration
        self._store.unregister(held)
        self._store.admin.forget(held.broker.broker_name)

    def lookup(self, topic: str) -> Queues:
        """Ask the store, which reads the index, the group and the lease."""
        route = self._store.routes([topic]).get(topic)
        return {} if route is None else _queues(route.queue_datas)

    def watch(self, topic: str) -> View:
        """Start a client."""
        client = self._client = RouteClient.from_url(self._url)
        client.start()
        client.get([topic])
        return View(
            partial(client.route, topic),
            lambda: _queues(found[topic].queue_datas) if (found := client.get([topic])) else {},
        )

    @property
    def _registration(self) -> Registration:
        if self._held is None:
            raise RuntimeError("this session has registered no broker")
        return self._held

    def _register(self, broker: Broker, table: Table) -> None:
        self._held = self._store.register(broker, table)


def _queues(rows: Sequence[QueueData]) -> Queues:
    return {row.broker_name: row.write_queue_nums for row in rows}


def _ours(name: str, terms: str, *options: str) -> Registry:
    return Registry(name=name, terms=terms, run=partial(redis_server, options), session=OurSession)


@contextmanager
def redis_server(options: Sequence[str], folder: Path) -> Iterator[Server]:
    """Run a Redis server with these options, and its files in a folder."""
    with EmbeddedServer("--dir", str(folder), *options) as server:
        yield Server(server.url, server.pid, server_version(version_said(find_server(), "--version")))


OURS: Final = _ours("sharedroutes", "Redis without persistence, as a registry of soft state may run")
OURS_EVERYSEC: Final = _ours(
    "sharedroutes, fsync each second",
    "Redis with appendonly yes, appendfsync everysec",
    *("--appendonly", "yes", "--appendfsync", "everysec"),
)
OURS_ALWAYS: Final = _ours(
    "sharedroutes, fsync always",
    "Redis with appendonly yes, appendfsync always: an answer means that it is on the disk",
    *("--appendonly", "yes", "--appendfsync", "always"),
)
