"""ZooKeeper, as Debian packages it, with kazoo."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.recipe.cache import TreeCache, TreeEvent

from sharedroutes.registry import TopicConfig

from ..processes import await_until
from ..server_process import ServerProcess, await_listening, free_port
from ..workload import Table
from .registry import Absent, Queues, Registry, Server, View, WatchingSession, packed, write_queues

_JARS: Final = Path("/usr/share/java")
_ZOOKEEPER: Final = _JARS / "zookeeper.jar"
_NO_LOG: Final = _JARS / "slf4j-nop.jar"
_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
_CONF: Final = """\
tickTime=500
maxSessionTimeout=120000
maxClientCnxns=0
dataDir={folder}/data
clientPortAddress=127.0.0.1
clientPort={port}
clientPortListenBacklog=4096
admin.enableServer=false
"""
"""A thousand clients come at once: beyond the usual backlog of 50 they would wait, and be thrown out."""

_START_S: Final = 20.0


class ZooKeeperSession(WatchingSession):
    """An ephemeral znode `/topics/TOPIC/BROKER` for each row, made in one transaction."""

    def __init__(self, address: str, lease_s: float) -> None:
        self._client = KazooClient(address, timeout=lease_s)
        self._client.start(_START_S)
        self._cache: Any = None
        self._name = ""
        self._topics: list[str] = []

    def close(self) -> None:
        """End the session, and with it all that is ephemeral."""
        if self._cache is not None:
            self._cache.close()
        self._client.stop()
        self._client.close()

    def ping(self) -> None:
        """Ask whether the root is there."""
        self._client.exists("/")

    def prepare(self, topics: Mapping[str, TopicConfig]) -> None:
        """Make the topics' own znodes."""
        self._client.ensure_path("/topics")
        transaction = self._client.transaction()
        for topic in topics:
            transaction.create(f"/topics/{topic}")
        _commit(transaction)

    def registering(self, name: str, table: Table) -> Callable[[], object]:
        """Return what registers a broker."""
        return partial(self._register, name, table)

    def beat(self) -> None:
        """Do nothing: kazoo does that by itself."""

    def change(self, config: TopicConfig) -> None:
        """Set the znode."""
        self._client.set(path_of(config.topic_name, self._name), packed(config))

    def leave(self) -> None:
        """Delete the znodes."""
        transaction = self._client.transaction()
        for topic in self._topics:
            transaction.delete(path_of(topic, self._name))
        _commit(transaction)

    def lookup(self, topic: str) -> Queues:
        """Ask for the names, then for all values at once."""
        try:
            names = self._client.get_children(f"/topics/{topic}")
        except NoNodeError:
            return {}
        asked = [(name, self._client.get_async(path_of(topic, name))) for name in names]
        return {name: write_queues(one.get()[0]) for name, one in asked}

    def watch(self, topic: str) -> View:
        """Start kazoo's TreeCache."""
        path, complete = f"/topics/{topic}", Event()
        self._client.ensure_path(path)
        cache = self._cache = TreeCache(self._client, path)

        def listen(event: Any) -> None:
            if event.event_type == TreeEvent.INITIALIZED:
                complete.set()

        cache.listen(listen)
        cache.start()
        if not complete.wait(_START_S):
            raise TimeoutError(f"kazoo's cache of {path} is not complete within {_START_S:g} s")

        def read() -> Mapping[str, Any]:
            return {name: cache.get_data(f"{path}/{name}") for name in cache.get_children(path, default=())}

        return View(read, lambda: {name: write_queues(one.data) for name, one in read().items() if one})

    def _register(self, name: str, table: Table) -> None:
        self._name, self._topics = name, [*table]
        transaction = self._client.transaction()
        for topic, config in table.items():
            transaction.create(path_of(topic, name), packed(config), ephemeral=True)
        _commit(transaction)


def path_of(topic: str, name: str) -> str:
    """Return where a row is."""
    return f"/topics/{topic}/{name}"


def _commit(transaction: Any) -> None:
    for result in transaction.commit():
        if isinstance(result, Exception):
            raise result


@contextmanager
def _run(folder: Path) -> Iterator[Server]:
    if shutil.which("java") is None:
        raise Absent("java is not on PATH")
    if not (_ZOOKEEPER.exists() and _NO_LOG.exists()):
        raise Absent("no ZooKeeper in /usr/share/java: apt-get install zookeeper libslf4j-java")
    port, conf = free_port(), folder / "zoo.cfg"
    conf.write_text(_CONF.format(folder=folder, port=port), encoding="utf-8")
    server = ServerProcess(
        "ZooKeeper server", ("java", "-cp", f"{_ZOOKEEPER}:{_NO_LOG}", _MAIN, str(conf)), folder, port
    )
    server.start()
    try:
        await_listening(port, server)
        await_until(partial(_serves, port), "ZooKeeper serves")
        yield Server(f"{server.host}:{port}", server.pid, _version())
    finally:
        server.kill()


def _serves(port: int) -> bool:
    """Whether it takes sessions; it listens before, and kazoo waits long for what comes too early."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0) as asked:
        asked.sendall(b"srvr")
        return b"Mode:" in asked.makefile("rb").read()
    return False


def _version() -> str:
    found = re.search(r"-(\d\S*)\.jar", " ".join(path.name for path in _JARS.glob("zookeeper-[0-9]*.jar")))
    return f"ZooKeeper {found[1] if found else 'of unknown version'}"


ZOOKEEPER: Final = Registry(
    name="ZooKeeper",
    terms="one server, fsync of each transaction, Java's own settings, tickTime 500 ms; kazoo, TreeCache",
    run=_run,
    session=ZooKeeperSession,
)
