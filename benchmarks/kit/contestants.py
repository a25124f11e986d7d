"""The name servers that are compared, each with the same brokers connected to it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import RemotingCommand, ResponseCode

from .hosts import stand_in
from .name_servers import (
    Front,
    Link,
    brokers_of,
    heartbeat,
    loopback,
    registration,
    route_request,
)
from .processes import await_until
from .rocketmq import name_server
from .server_process import await_listening
from .usage import resident_mb
from .workload import Table, long_topic_names, tables

REAL: Final = "RocketMQ"
FRONT: Final = "front"
PLAIN: Final = "front without uvloop"


@dataclass(slots=True)
class Server:
    """A name server, the processes that it needs, and the brokers that are connected to it."""

    port: int
    pids: Sequence[int]
    store_url: str = ""
    """Of a front."""

    links: list[tuple[Link, RemotingCommand]] = field(default_factory=list)
    """Of each broker, and its heartbeat."""

    def beat(self) -> None:
        """Let the brokers send something: silent connections are closed."""
        for link, command in self.links:
            link.ask(command)

    def resident_mb(self) -> float:
        """Return the memory of the processes."""
        return sum(map(resident_mb, self.pids))


@contextmanager
def running(options: Sequence[str], *, brokers: int, topics: int) -> Iterator[Mapping[str, Server]]:
    """Run RocketMQ's name server and a front, which know so many brokers with the same topics."""
    of_brokers = tables(long_topic_names(topics), brokers)
    with ExitStack() as stack:
        redis = stack.enter_context(EmbeddedServer())
        real = stack.enter_context(name_server(options=options))
        await_listening(real.port, real)
        front = stack.enter_context(_front(redis.url, [redis.pid], uvloop=True))
        servers = {REAL: Server(real.port, [real.pid]), FRONT: front}
        broker_port = stack.enter_context(stand_in())
        for server in servers.values():
            _connect(stack, server, of_brokers, broker_port)
            _await_brokers(server, [*of_brokers[0]], brokers)
        yield servers


@contextmanager
def without_uvloop(front: Server, topics: Sequence[str]) -> Iterator[Server]:
    """Run another front on the store of one, whose brokers have the topics; it takes time from the others."""
    with _front(front.store_url, front.pids[1:], uvloop=False) as server:
        _await_brokers(server, topics, len(front.links))
        yield server


@contextmanager
def _front(store_url: str, store_pids: Sequence[int], *, uvloop: bool) -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="sharedroutes-front-") as folder,
        Front(store_url, Path(folder) / "log", uvloop=uvloop) as process,
    ):
        await_listening(process.port, process)
        yield Server(process.port, [process.pid, *store_pids], store_url)


def _connect(stack: ExitStack, server: Server, of_brokers: Sequence[Table], broker_port: int) -> None:
    """Register a broker for each table, and keep it connected."""
    for number, table in enumerate(of_brokers):
        link = stack.enter_context(Link(server.port))
        name, address = f"broker-{number:03d}", loopback(number, broker_port)
        succeed(link, registration(name, address, table))
        server.links.append((link, heartbeat(name, address)))


def _await_brokers(server: Server, topics: Sequence[str], brokers: int) -> None:
    """Wait until the routes have all brokers."""
    with Link(server.port) as link:
        for topic in (topics[0], topics[-1]):
            what = f"the route of {topic} has {brokers} brokers"
            await_until(partial(_has_brokers, link, topic, brokers), what)


def _has_brokers(link: Link, topic: str, count: int) -> bool:
    return len(brokers_of(link.ask(route_request(topic)))) == count


def succeed(link: Link, command: RemotingCommand) -> RemotingCommand:
    """Return the answer to a request; raises RuntimeError for any other than SUCCESS."""
    return succeeded(link.ask(command))


def succeeded(answer: RemotingCommand) -> RemotingCommand:
    """Return an answer; raises RuntimeError for any other than SUCCESS."""
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"a name server answered {answer.code}: {answer.remark}")
    return answer
