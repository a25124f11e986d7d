"""etcd, as Debian packages it, with aetcd."""

from __future__ import annotations

import asyncio
import math
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aetcd

from sharedroutes.registry import TopicConfig

from ..machine import version_said
from ..server_process import ServerProcess, await_listening, free_port
from ..workload import Table
from .registry import Absent, Queues, Registry, Server, View, WatchingSession, packed, write_queues

_PREFIX: Final = "/topics/"
_MOST_OPS: Final = 100_000


class EtcdSession(WatchingSession):
    """A key `/topics/TOPIC/BROKER` for each row, all with one lease, put in one transaction."""

    def __init__(self, address: str, lease_s: float) -> None:
        host, _, port = address.partition(":")
        self._runner = asyncio.Runner()
        self._make = partial(aetcd.Client, host, int(port))
        self._client = self._make()
        self._lease_s = math.ceil(lease_s)
        self._lease: Any = None
        self._name = ""
        self._watch: _Watch | None = None

    def close(self) -> None:
        """Close the connections; the lease ends by itself."""
        if self._watch is not None:
            self._watch.close()
        self._run(self._client.close())
        self._runner.close()

    def ping(self) -> None:
        """Ask for a key that is not there."""
        self._run(self._client.get(b"absent"))

    def registering(self, name: str, table: Table) -> Callable[[], object]:
        """Return what registers a broker."""
        return lambda: self._run(self._register(name, table))

    def beat(self) -> None:
        """Renew the lease."""
        self._run(self._lease.refresh())

    def change(self, config: TopicConfig) -> None:
        """Put the key again."""
        self._run(self._client.put(key_of(config.topic_name, self._name), packed(config), lease=self._lease))

    def leave(self) -> None:
        """Revoke the lease, which deletes its keys."""
        self._run(self._lease.revoke())

    def lookup(self, topic: str) -> Queues:
        """Ask for the keys of the topic."""
        return {
            _broker(found.key): write_queues(found.value)
            for found in self._run(self._client.get_prefix(key_of(topic, "")))
        }

    def watch(self, topic: str) -> View:
        """Read the topic, and keep it in a dict by a watch from then on, as aetcd has no cache."""
        watch = self._watch = _Watch(self._make, topic)
        return View(partial(watch.known.get, topic), lambda: watch.known[topic])

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    async def _register(self, name: str, table: Table) -> None:
        client = self._client
        self._name, self._lease = name, await client.lease(self._lease_s)
        puts = [
            client.transactions.put(key_of(topic, name), packed(config), lease=self._lease)
            for topic, config in table.items()
        ]
        await client.transaction([], puts, [])


class _Watch:
    """A topic that a thread with an event loop of its own keeps up to date."""

    def __init__(self, make: Callable[[], Any], topic: str) -> None:
        self.known: dict[str, Queues] = {topic: {}}
        self._make = make
        self._topic = topic
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._follow())
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait()

    def close(self) -> None:
        """Stop watching."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(asyncio.wait([self._task]))
        finally:
            self._ready.set()
            self._loop.close()

    async def _follow(self) -> None:
        prefix = key_of(self._topic, "")
        async with self._make() as client:
            first = await client.get_prefix(prefix)
            self.known[self._topic] = {_broker(one.key): write_queues(one.value) for one in first}
            events = await client.watch_prefix(prefix, start_revision=first.header.revision + 1)
            self._ready.set()
            async for event in events:
                known = dict(self.known[self._topic])
                if event.kind == aetcd.EventKind.DELETE:
                    known.pop(_broker(event.kv.key), None)
                else:
                    known[_broker(event.kv.key)] = write_queues(event.kv.value)
                self.known[self._topic] = known


def key_of(topic: str, name: str) -> bytes:
    """Return where a row is."""
    return f"{_PREFIX}{topic}/{name}".encode()


def _broker(key: bytes) -> str:
    return key.rpartition(b"/")[2].decode()


@contextmanager
def _run(folder: Path) -> Iterator[Server]:
    binary = shutil.which("etcd")
    if binary is None:
        raise Absent("etcd is not on PATH: apt-get install etcd-server")
    port, peer = free_port(), f"http://127.0.0.1:{free_port()}"
    url = f"http://127.0.0.1:{port}"
    options = {
        "data-dir": folder / "data",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "max-txn-ops": _MOST_OPS,
        "log-level": "error",
    }
    server = ServerProcess(
        "etcd server", (binary, *(f"--{name}={value}" for name, value in options.items())), folder, port
    )
    server.start()
    try:
        await_listening(port, server)
        yield Server(f"{server.host}:{port}", server.pid, version_said(binary, "--version"))
    finally:
        server.kill()


ETCD: Final = Registry(
    name="etcd",
    terms="one member, fsync of each transaction, max-txn-ops 100,000, else its defaults; aetcd over gRPC",
    run=_run,
    session=EtcdSession,
)
