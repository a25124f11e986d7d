"""What a registry that is compared has to offer, and processes that watch it, or register and are killed."""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self, TypeAlias

import orjson

from sharedroutes.registry import TopicConfig

from ..processes import Child, await_until, commands, running, say
from ..workload import Table, tables, topic_names

Queues: TypeAlias = Mapping[str, int]
"""Of one topic: how many write queues it has on each broker."""

RENEWALS: Final = 3
"""In the time of a lease, so that two may be lost."""

VICTIM: Final = "broker-victim"
TOPIC: Final = "orders"
"""The topic that is watched; every broker has it."""

QUEUES: Final = 4
"""Of that topic, at first."""
_POLL_S: Final = 20e-6
"""How often a view is looked at; a thread that never pauses would keep the client's own from running."""

DEADLINE_S: Final = 120.0


class Absent(Exception):
    """A registry cannot be run here, and why."""


class View(NamedTuple):
    """What a client keeps of a topic, and how to read it."""

    read: Callable[[], Any]
    """What a service calls for each message."""

    queues: Callable[[], Queues]
    """The same, for comparison."""


class Session(ABC):
    """A connection to a registry, as a service opens it: one broker registers by it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End the session in its own way."""

    @abstractmethod
    def ping(self) -> None:
        """Ask the least that the server answers."""

    def prepare(self, topics: Mapping[str, TopicConfig]) -> None:
        """Make what brokers find there already; of most, that is nothing."""
        del topics

    @abstractmethod
    def registering(self, name: str, table: Table) -> Callable[[], object]:
        """Return what registers a broker; what a broker has ready is made before."""

    @abstractmethod
    def beat(self) -> None:
        """Renew the lease, where the client's library does not do it by itself."""

    @abstractmethod
    def change(self, config: TopicConfig) -> None:
        """Give a topic of the broker other queues."""

    @abstractmethod
    def leave(self) -> None:
        """Take the broker away, with all that it has registered."""

    @abstractmethod
    def lookup(self, topic: str) -> Queues:
        """Ask the server for a topic's live brokers, with nothing known before."""


class WatchingSession(Session):
    """A session whose client is one for Python, and can watch."""

    @abstractmethod
    def watch(self, topic: str) -> View:
        """Keep a topic up to date in this process, from now on."""


class Watcher(Protocol):
    """Clients in another process, which keep a topic up to date."""

    def expect(self, broker: str, write_queues: int | None) -> None:
        """Get them ready for a broker that has so many write queues, or is no more (None)."""

    def seen(self) -> list[int]:
        """Wait until all have seen it; return when each did, in ns of the monotonic clock."""

    def cached_us(self, lookups: int) -> float:
        """Return how long one of them takes to read its own copy."""


@dataclass(frozen=True, slots=True)
class Server:
    """A registry that runs."""

    address: str
    """What a session needs to find it."""

    pid: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """One that is compared."""

    name: str
    terms: str
    """How it is set up."""

    run: Callable[[Path], AbstractContextManager[Server]]
    """Runs its server, with its files in a folder; raises Absent."""

    session: Callable[[str, float], Session]
    """Opens a session at an address, with leases of so many seconds."""

    watching: Callable[[str, str], AbstractContextManager[Watcher]] | None = None
    """Watches a topic at an address, where that is not a session in a process of its own."""


class ChildWatcher:
    """A session in another process."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def expect(self, broker: str, write_queues: int | None) -> None:
        """Get it ready."""
        self._child.tell(["expect", broker, write_queues])

    def seen(self) -> list[int]:
        """Return when it saw that."""
        return [int(self._child.answer())]

    def cached_us(self, lookups: int) -> float:
        """Return how long it takes to read its own copy."""
        self._child.send(["time", lookups])
        return float(self._child.answer())


@contextmanager
def watching(registry: Registry, address: str, topic: str) -> Iterator[Watcher]:
    """Watch a topic from another process until the block ends."""
    if registry.watching is not None:
        with registry.watching(address, topic) as watcher:
            yield watcher
        return
    with running(watch, registry.name, address, topic) as child:
        child.await_ready()
        yield ChildWatcher(child)


def watch(name: str, address: str, topic: str) -> None:
    """In the other process: watch, and say when the topic is as it is expected."""
    from .all import REGISTRIES  # noqa: PLC0415 - it names what this module is for

    with REGISTRIES[name].session(address, DEADLINE_S / 2) as session:
        if not isinstance(session, WatchingSession):
            raise TypeError(f"{name} is not watched from Python")
        view = session.watch(topic)
        say()
        for what, *arguments in commands():
            if what == "time":
                say(_read_us(view, *arguments))
                continue
            say()
            _await_queues(view, *arguments)
            say(time.monotonic_ns())


def _read_us(view: View, lookups: int) -> float:
    read = view.read
    begin_ns = time.perf_counter_ns()
    for _ in range(lookups):
        read()
    return (time.perf_counter_ns() - begin_ns) / lookups / 1_000


def _await_queues(view: View, broker: str, write_queues: int | None) -> None:
    await_until(
        lambda: view.queues().get(broker) == write_queues,
        f"{broker} has {write_queues} write queues",
        deadline_s=DEADLINE_S,
        poll_s=_POLL_S,
    )


@contextmanager
def registrant(registry: Registry, address: str, lease_s: float, topics: int) -> Iterator[Child]:
    """Run a process that registers the victim with so many topics, and holds it until it is killed."""
    with running(hold, registry.name, address, lease_s, topics) as child:
        child.await_ready()
        yield child


def hold(name: str, address: str, lease_s: float, topics: int) -> None:
    """In the other process: register, and renew the lease for ever."""
    from .all import REGISTRIES  # noqa: PLC0415 - it names what this module is for

    with REGISTRIES[name].session(address, lease_s) as session:
        session.registering(VICTIM, table_of(topics))()
        say()
        while True:
            time.sleep(lease_s / RENEWALS)
            session.beat()


def address_of(name: str) -> str:
    """Return the address of a broker, another one for each: name servers know brokers by that."""
    _, second, third, fourth = zlib.crc32(name.encode()).to_bytes(4)
    return f"127.{second}.{third}.{fourth}:10911"


def table_of(topics: int) -> Table:
    """Return the table of a broker with so many topics."""
    (others,) = tables(topic_names(topics - 1), 1)
    return {TOPIC: TopicConfig(TOPIC, QUEUES, QUEUES), **others}


def packed(config: TopicConfig) -> bytes:
    """Return what those that have no form of their own store of a topic at a broker."""
    return orjson.dumps([config.read_queue_nums, config.write_queue_nums, config.perm])


def write_queues(value: bytes) -> int:
    """Return the write queues in what `packed` has made."""
    return int(orjson.loads(value)[1])
