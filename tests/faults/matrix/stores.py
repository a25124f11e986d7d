"""The stores of the matrix: servers of four kinds, each behind a proxy through which all others go."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Generic, Self, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from sharedroutes.registry import EmbeddedServer, RegistryConfig
from tests.cluster.servers import SERVICE, ClusterServers, Group, SentinelServers, server_binary
from tests.proxy import FaultyProxy, Whose

NAMESPACE: Final = RegistryConfig().namespace
_ANSWER_S: Final = 1.0
_SOON_MS: Final = 3_000
"""A second would do, but for machines that let nobody run for so long: each would be a failover."""

_REPLICA_OF: Final = "--replicaof"
_NODES: Final = "nodes.conf"
_APPENDING: Final = ("--appendonly", "yes", "--appendfsync", "no")
"""What it has answered is in the file after a kill, which takes no power away. To wait for the disk would
stop the server for seconds where others write much: no fault of the matrix, nor one that the checker sees."""


class LastingServer(EmbeddedServer):
    """A server that finds its data and its configuration again when it is started after a kill."""

    _lasting: Path | None = None

    def _working_folder(self) -> Path:
        self._lasting = self._folder = self._lasting or super()._working_folder()
        return self._lasting

    def _forget(self) -> None:
        """Keep the folder until `discard`."""

    def follow(self, port: int | None) -> None:
        """Be a replica of the server at a port from the next start on; None = of none.

        Sentinels write that into the file of a server, which ours has not.
        """
        if _REPLICA_OF in self._options:
            place = self._options.index(_REPLICA_OF)
            self._options = (*self._options[:place], *self._options[place + 2 :])
        if port is not None:
            self._options = (*self._options, _REPLICA_OF, f"127.0.0.1 {port}")

    def run_as(self, program: Callable[[str], str]) -> str:
        """Be another program from the next start on, made of the one of before, which is returned."""
        before, self._binary = self._binary, program(self._binary)
        return before

    def wipe(self) -> None:
        """Remove the data; what a node knows of its Cluster stays."""
        for path in self._working_folder().iterdir():
            if path.name != _NODES:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def discard(self) -> None:
        """End the server and remove its folder."""
        self.kill()
        super()._forget()


class Proxied:
    """Proxies in front of servers, whose ports are all that anybody is told."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._proxies: dict[EmbeddedServer, FaultyProxy] = {}

    def add(self, make: Callable[[int], LastingServer]) -> LastingServer:
        """Return a server that is not started yet, made for the port of its proxy."""
        proxy = FaultyProxy(0)
        server = make(self._port(proxy))
        self._stack.callback(server.discard)
        self._proxies[server] = self._stack.enter_context(proxy)
        return server

    def of(self, server: EmbeddedServer) -> FaultyProxy:
        """Return the proxy in front of a server."""
        return self._proxies[server]

    def lead(self, server: EmbeddedServer) -> None:
        """Lead connections to a server that has been started."""
        self._proxies[server].lead_to(server.port)

    def port(self, server: EmbeddedServer) -> int:
        """Return the port of the proxy."""
        return self._port(self._proxies[server])

    def close(self) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[FaultyProxy]:
        return iter(self._proxies.values())

    @staticmethod
    def _port(proxy: FaultyProxy) -> int:
        return int(proxy.address.rpartition(":")[2])


class Store(ABC):
    """Servers that hold one registry."""

    name: str
    can_fail_over = False
    replicas = 0
    """Of the primary that has the registry."""

    keeps_data = False
    """Whether a server that is started again has what it had."""

    def __init__(self) -> None:
        self.proxies = Proxied()
        self.paused: set[EmbeddedServer] = set()
        self._admins: dict[int, redis.Redis] = {}

    @abstractmethod
    def __enter__(self) -> Self:
        """Start the servers."""

    def __exit__(self, *_: object) -> None:
        for admin in self._admins.values():
            admin.close()

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for those who use the registry."""

    @property
    @abstractmethod
    def servers(self) -> list[EmbeddedServer]:
        """All that hold the data, or a copy of it."""

    @property
    def helpers(self) -> list[EmbeddedServer]:
        """Servers that hold no data: Sentinels."""
        return []

    @abstractmethod
    def primary(self) -> EmbeddedServer | None:
        """Return the server that has the registry; None = nobody knows at the moment."""

    def kill(self, server: EmbeddedServer) -> None:
        """Kill a server."""
        server.kill()

    def revive(self, server: EmbeddedServer) -> None:
        """Start a server again that was killed, in the role that it had."""
        server.start()

    def switch(self) -> None:
        """Have a replica take over from the primary, as an operator does; raises RuntimeError without one."""
        raise RuntimeError(f"{self.name}: there is no replica that could take over")

    def is_settled(self) -> bool:
        """Whether all servers run and are in step."""
        return all(server.running for server in self.servers) and self.primary() is not None

    def admin(self, server: EmbeddedServer) -> redis.Redis:
        """Return a plain client of one server, past the proxies."""
        if server.port not in self._admins:
            self._admins[server.port] = redis.Redis(
                port=server.port,
                socket_timeout=_ANSWER_S,
                socket_connect_timeout=_ANSWER_S,
                retry=Retry(NoBackoff(), 0),
            )
        return self._admins[server.port]

    def living(self) -> list[EmbeddedServer]:
        """Return the servers that run and are not paused."""
        return [server for server in self.servers if server.running and server not in self.paused]

    @contextmanager
    def network(
        self, fault: Callable[[FaultyProxy], Any], whose: Whose, at: EmbeddedServer | None = None
    ) -> Iterator[None]:
        """Let somebody's connections suffer for the length of a block: all, or those to one server."""
        with ExitStack() as stack:
            for proxy in self.proxies if at is None else [self.proxies.of(at)]:
                stack.enter_context(proxy.concerning(whose))
                stack.enter_context(fault(proxy))
            yield

    def deafen(self, whose: Whose) -> None:
        """Let somebody's subscriptions stay open and carry nothing any more."""
        for proxy in self.proxies:
            with proxy.concerning(whose):
                proxy.abandon(b"SUBSCRIBE")

    def reset(self, whose: Whose) -> None:
        """Reset somebody's connections to the store."""
        for proxy in self.proxies:
            with proxy.concerning(whose):
                proxy.reset()


class Standalone(Store):
    """One server, which comes back empty."""

    name = "standalone"
    options: tuple[str, ...] = ()

    def __enter__(self) -> Self:
        self._server = self.proxies.add(
            lambda _: LastingServer("--hz", "50", *self.options, binary=server_binary())
        )
        self._server.start()
        self.proxies.lead(self._server)
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.proxies.close()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.proxies.port(self._server)}/0"

    @property
    def servers(self) -> list[EmbeddedServer]:
        return [self._server]

    def primary(self) -> EmbeddedServer | None:
        return self._server if self.living() else None


class Appending(Standalone):
    """One server that writes each change to its file, and has it when it comes back."""

    name = "aof"
    options = _APPENDING
    keeps_data = True


class _BehindProxies(Group):
    """Servers of a group that last, and that others know by the ports of their proxies."""

    soon_ms = _SOON_MS
    announces: tuple[str, ...] = ("--replica-announce-port",)
    """The options by which a server tells others its port."""

    proxied: Proxied

    def server(self, *options: str, binary: str = "") -> EmbeddedServer:
        def make(port: int) -> LastingServer:
            announced = () if binary else [word for name in self.announces for word in (name, str(port))]
            return LastingServer(*options, *announced, binary=binary or server_binary())

        return self.proxied.add(make)

    def port(self, server: EmbeddedServer) -> int:
        return self.proxied.port(server)

    def launch(self, server: EmbeddedServer) -> EmbeddedServer:
        server.start()
        self.proxied.lead(server)
        return server


class _Sentinels(_BehindProxies, SentinelServers):
    pass


class _Cluster(_BehindProxies, ClusterServers):
    announces = ("--cluster-announce-port", "--replica-announce-port")


G = TypeVar("G", bound=_BehindProxies)


class _Replicated(Store, Generic[G]):
    """A group of servers, of which another one can become the primary."""

    can_fail_over = True

    def __init__(self, group: G) -> None:
        super().__init__()
        self._group = group
        group.proxied = self.proxies

    def __enter__(self) -> Self:
        self._group.__enter__().fail_over_soon()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._group.stop()
        self.proxies.close()

    @property
    def url(self) -> str:
        return self._group.url

    @property
    def servers(self) -> list[EmbeddedServer]:
        return self._group.stores

    def is_settled(self) -> bool:
        return super().is_settled() and _in_step(self)


class Sentinel(_Replicated[_Sentinels]):
    """A primary with two replicas, and three Sentinels."""

    name = "sentinel"
    replicas = 2

    def __init__(self, folder: Path) -> None:
        super().__init__(_Sentinels(folder))

    @property
    def helpers(self) -> list[EmbeddedServer]:
        return self._group.sentinels

    def kill(self, server: EmbeddedServer) -> None:
        role: Any = self.admin(server).execute_command("ROLE")
        if isinstance(server, LastingServer) and role[0] != b"sentinel":
            server.follow(None if role[0] == b"master" else int(role[2]))
        super().kill(server)

    def switch(self) -> None:
        with suppress(redis.RedisError, OSError):
            self.admin(self.helpers[0]).execute_command("SENTINEL", "FAILOVER", SERVICE)

    def primary(self) -> EmbeddedServer | None:
        for sentinel in self.helpers:
            with suppress(redis.RedisError, OSError):
                answer: Any = self.admin(sentinel).execute_command(
                    "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE
                )
                port = int(answer[1])
                for server in self.living():
                    if self.proxies.port(server) == port and _is_primary(self.admin(server)):
                        return server
        return None


class Cluster(_Replicated[_Cluster]):
    """Three primaries with a replica each; the registry is at one of them."""

    name = "cluster"
    replicas = 1

    def __init__(self) -> None:
        super().__init__(_Cluster("--cluster-config-file", _NODES))

    def revive(self, server: EmbeddedServer) -> None:
        super().revive(server)
        self._group.fail_over_soon_at(server)

    def switch(self) -> None:
        with suppress(redis.RedisError, OSError, AssertionError):
            self._group.cluster(self._group.replica(NAMESPACE), "FAILOVER", "FORCE")

    def primary(self) -> EmbeddedServer | None:
        """Return the primary of the registry's slot that most nodes name."""
        votes: dict[EmbeddedServer, int] = {}
        for node in self.living():
            with suppress(redis.RedisError, OSError, AssertionError):
                named = self._group.owner_by(node, NAMESPACE)
                votes[named] = votes.get(named, 0) + 1
        best = max(votes, key=lambda node: votes[node], default=None)
        if best not in self.living() or best is None:
            return None
        with suppress(redis.RedisError, OSError):
            return best if _is_primary(self.admin(best)) else None
        return None


def _is_primary(admin: redis.Redis) -> bool:
    role: Any = admin.execute_command("ROLE")
    return bool(role[0] == b"master")


def _in_step(store: Store) -> bool:
    """Whether every server is a primary or a replica that hears of its primary."""
    with suppress(redis.RedisError, OSError):
        roles: list[Any] = [store.admin(server).execute_command("ROLE") for server in store.servers]
        return all(role[0] == b"master" or role[3] == b"connected" for role in roles)
    return False


STORES: Final[Mapping[str, Callable[[Path], Store]]] = {
    "standalone": lambda _: Standalone(),
    "aof": lambda _: Appending(),
    "sentinel": Sentinel,
    "cluster": lambda _: Cluster(),
}
"""What makes each kind of store, in a folder of its own."""
