"""All processes of a run on one store: brokers, agents, fronts, clients, a follower, a watchdog."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, Self

import msgspec
import orjson

from demo.processes import ProcessGroup
from sharedroutes.client.config import ReadFrom
from sharedroutes.registry import EmbeddedServer
from tests.broker_agent.data_files import broker_conf, put, rewrite, topics_json
from tests.faults.checker.history import Replica, Started, TableContent, Writer
from tests.faults.matrix.settings import (
    CALL_S,
    CHUNK_TOPICS,
    FRONT_LEASE_MS,
    HEARTBEAT_S,
    LEASE_S,
    ON,
    SENT_TO,
    snapshot_of,
)
from tests.faults.matrix.stores import Store
from tests.faults.victims import AgentProcess, Program
from tests.ports import held_port
from tests.proxy import FaultyProxy, Whose

CHURN: Final = "churn-"
QUEUES: Final = 4
"""Of each topic, as a broker makes them."""

_HANG: Final = ("--hang-check", "1", "--hang-deadline", "1")
HAS_AGENT: Final = ("broker-a", "broker-b")
AT_FRONTS: Final = ("broker-b", "broker-c")
_ROOT: Final = Path(__file__).parents[3]
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - what POSIX's shared memory is named by
_FINDS_US: Final = {
    "PYTHONPATH": os.pathsep.join(map(str, (_ROOT / "src", _ROOT))),
    # Without byte code, a start takes seconds on a busy machine, and a fault is mostly that.
    "PYTHONPYCACHEPREFIX": os.environ.get("PYTHONPYCACHEPREFIX", str(_ROOT / ".venv" / "pycache")),
    "PYTHONDONTWRITEBYTECODE": "",
}


class Way:
    """What leads to a process: a proxy that is there as long as somebody listens behind it."""

    def __init__(self, listens: int) -> None:
        self.listens = listens
        """The port of the process."""

        self.proxy = FaultyProxy(listens, mirrors=True)
        self.address = self.proxy.address
        self.port = _address(self.address)[1]
        """The one that all others are told."""


class BrokerHost:
    """The files of a broker and its process; an agent beside it reads the files."""

    def __init__(
        self, name: str, folder: Path, way: Way, broker: str = "", more: str = "", topics: Sequence[str] = ()
    ) -> None:
        """`broker`: which one it says that it is; empty = of its name. `more`: lines of its broker.conf.

        `topics`: what it has; empty = what a broker of its name has.
        """
        self.name = name
        self.port = way.port
        self.address = f"127.0.0.1:{self.port}"
        self.listens = way.listens
        self.conf = folder / name / "broker.conf"
        self.topics_path = folder / name / "store" / "config" / "topics.json"
        put(self.topics_path, topics_json(*(topics or ON[broker or name]), queues=QUEUES))
        self.conf.write_text(broker_conf(broker or name, self.port, folder / name / "store") + more)


class Fleet:
    """The processes of one run; the end of the block ends them all, whatever happens to us."""

    def __init__(self, store: Store, folder: Path, history: Writer) -> None:
        self.store = store
        self._history = history
        self.folder = folder
        self._ports = ExitStack()
        self._ways: dict[str, Way] = {}
        self.hosts = {name: BrokerHost(name, folder / "hosts", self._way(name)) for name in ON}
        self._group = ProcessGroup()
        self.logs = folder / "logs"
        self.snapshots = folder / "snapshots"
        self._pids = set[int]()
        self._versions = count(2)
        self._numbers = count(2)
        self._writing = threading.Lock()
        self.churn: tuple[str, ...] = ()
        """Topics that broker-a has besides for now, all named CHURN and something."""

        self.fronts = {name: self._front(name, self._way(name)) for name in ("front-1", "front-2")}
        self.brokers = {name: self._broker(host) for name, host in self.hosts.items()}
        self.agents = {f"agent-{of[-1]}": self._agent(f"agent-{of[-1]}", self.hosts[of]) for of in HAS_AGENT}
        self.clients = {f"client-{kind}": self._client(kind) for kind in ("asyncio", "threads")}
        self.follower = self._program("follower", "follower", store.url, str(folder))
        self.watchdog = self._program("watchdog", "watchdog", str(folder))
        self.taken: Counter[str] = Counter()
        """Brokers and topics that faults have taken for now, and how many did."""

        self.guests: dict[str, Program] = {}
        """Processes that a fault has brought, and takes away."""

    def __enter__(self) -> Self:
        for path in (self.logs, *(self.snapshots / name for name in self.clients)):
            path.mkdir(parents=True)
        self._group.__enter__()
        for program in self:
            program.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._group.__exit__(*error)
        self._ports.close()
        for pid in self._pids:  # who is killed leaves behind what its faked clock stood in
            for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
                (_SHARED / name).unlink(missing_ok=True)

    def _port(self) -> int:
        return self._ports.enter_context(held_port())

    def _way(self, to: str) -> Way:
        self._ways[to] = way = Way(self._port())
        self._ports.enter_context(way.proxy)
        return way

    @contextmanager
    def network(
        self, fault: Callable[[FaultyProxy], AbstractContextManager[None]], whose: Whose, *to: str
    ) -> Iterator[None]:
        """Let somebody's connections to brokers or fronts suffer for the length of a block."""
        with ExitStack() as stack:
            for name in to:
                stack.enter_context(self._ways[name].proxy.concerning(whose))
                stack.enter_context(fault(self._ways[name].proxy))
            yield

    def connections(self, whose: Whose, to: str) -> int:
        """Return how many connections of somebody to a broker or a front are open."""
        return self._ways[to].proxy.count(whose)

    def __iter__(self) -> Iterator[Program]:
        """All processes, in the order in which they start."""
        yield self.watchdog
        for kind in (self.brokers, self.fronts, self.agents, self.clients):
            yield from kind.values()
        yield self.follower
        yield from tuple(self.guests.values())

    def __getitem__(self, name: str) -> Program:
        return next(program for program in self if program.name == name)

    def expected(self) -> TableContent:
        """Return what is true, as far as no fault has taken it."""
        living = [host for host in self.hosts.values() if not self.taken[host.name]]
        leases = tuple(Replica(host.name, 0, host.address) for host in living)
        topics = {name: [topic for topic in sorted(of) if not self.taken[topic]] for name, of in ON.items()}
        return TableContent(leases, {name: tuple(of) for name, of in topics.items()})

    def topics(
        self, *more: str, of: str = "broker-a", queues: int = QUEUES, without: str | None = None
    ) -> bytes:
        """Return a topics.json of the next version of a broker: with other topics than it has at first."""
        names = {*ON[of], *(self.churn if of == "broker-a" else ()), *more} - {without}
        return topics_json(*sorted(names), counter=next(self._versions), queues=queues)

    def write_topics(
        self, *more: str, of: str = "broker-a", queues: int = QUEUES, without: str | None = None
    ) -> None:
        """Have the broker write that."""
        with self._writing:
            rewrite(self.hosts[of].topics_path, self.topics(*more, of=of, queues=queues, without=without))

    def make_readable(self, of: str) -> None:
        """Have a broker whose topics.json is none write it anew, as one does that has read its .bak."""
        if of in self.hosts:
            try:
                orjson.loads(self.hosts[of].topics_path.read_bytes())
            except (OSError, ValueError):
                self.write_topics(of=of)

    def guest(self, name: str, broker: str) -> AgentProcess:
        """Return another agent beside a broker, which is not started."""
        guest = self._agent(name, self.hosts[broker])
        self.guests[name] = guest
        return guest

    def second(self, broker: str, more: str = "") -> tuple[BrokerHost, Program, AgentProcess]:
        """Return another broker of the same name at another address, and its agent; neither is started."""
        name = f"{broker}-{next(self._numbers)}"
        host = BrokerHost(name, self.folder / "hosts", self._way(name), broker, more)
        return self._guests(host, f"agent-{name[len('broker-') :]}")

    def newcomer(self, name: str, *topics: str) -> tuple[BrokerHost, Program, AgentProcess]:
        """Return a broker of another name, and its agent; neither is started."""
        host = BrokerHost(name, self.folder / "hosts", self._way(name), topics=topics)
        return self._guests(host, f"agent-of-{name}")

    def _guests(self, host: BrokerHost, agent_name: str) -> tuple[BrokerHost, Program, AgentProcess]:
        program, agent = self._broker(host), self._agent(agent_name, host)
        self.guests |= {program.name: program, agent.name: agent}
        return host, program, agent

    @contextmanager
    def visitor(self) -> Iterator[tuple[Program, Path]]:
        """Start a client that comes for the length of a block; return it, and the file of what it says."""
        name = f"visitor-{next(self._numbers)}"
        said = self.folder / f"{name}.jsonl"
        visitor = self._program(name, "visitor", self.store.url, str(said))
        visitor.start()
        self.guests[name] = visitor
        try:
            yield visitor, said
        finally:
            visitor.kill()
            del self.guests[name]

    def is_up(self, program: Program) -> bool:
        """Whether a process that was started has come so far that it works."""
        listens = None
        if program.name in self.hosts or program.name in self.fronts:
            listens = "127.0.0.1", self._ways[program.name].listens
        elif isinstance(program, AgentProcess):
            listens = _address(program.http)
        if listens is not None:
            with suppress(OSError), socket.create_connection(listens, timeout=0.5):
                return True
            return False
        history = self.folder / "history" / f"{program.name}.jsonl"
        return f'"pid":{program.pid}' in _last_line(history, '"what":"started"')

    def saved(self, client: str, broker: str) -> bool:
        """Whether the snapshot of a client names a broker's address."""
        path = snapshot_of(self.folder, client)
        return path.exists() and self.hosts[broker].address in path.read_text(encoding="utf-8")

    def asked(self, broker: str, queues: int) -> bool:
        """Whether a broker has asked all fronts for the topic that it changed last, to so many queues."""
        history = self.folder / "history" / f"{broker}.jsonl"
        return all(f'"queues":{queues},' in _last_line(history, f'"front":"{name}"') for name in self.fronts)

    def told(self) -> str:
        """Return the id of what the follower was told last."""
        said = self.said()
        return str(msgspec.json.decode(said)["id"]) if said else ""

    def said(self) -> str:
        """Return what the follower wrote down last of what it was told."""
        return _last_line(self.folder / "history" / f"{self.follower.name}.jsonl", '"what":"item"')

    def says(self, client: str, broker: str) -> bool:
        """Whether a client named a broker when it last spoke of a topic."""
        return f'["{broker}",' in self._said(client)

    def counts(self, client: str, broker: str, queues: int) -> bool:
        """Whether a client said last that a topic has so many queues at a broker."""
        return f'["{broker}",{queues}]' in self._said(client)

    def _said(self, client: str) -> str:
        history = self.folder / "history" / f"{client}.jsonl"
        return _last_line(history, f'"who":"{client}","topic":"{SENT_TO}"')

    def reads_at(self, client: str) -> EmbeddedServer | None:
        """Return the server at which a client said last that it reads, if it may read at replicas."""
        said = _last_line(self.folder / "history" / f"{client}.jsonl", '"server":')
        address = _address(msgspec.json.decode(said)["server"]) if said else None
        return next(
            (of for of in self.store.servers if address and self.store.proxies.port(of) == address[1]), None
        )

    def front_address(self, name: str) -> tuple[str, int]:
        """Return where a front answers."""
        return "127.0.0.1", self._ways[name].listens

    def _agent(self, name: str, host: BrokerHost) -> AgentProcess:
        return AgentProcess(
            name,
            self.logs,
            *("--broker-conf", str(host.conf), "--redis", self.store.url, *_HANG),
            *("--heartbeat", str(HEARTBEAT_S), "--lease-ttl", str(LEASE_S), "--call-deadline", str(CALL_S)),
            *("--log-format", "json", "--stop-watch", "0", "--chunk-topics", str(CHUNK_TOPICS)),
            environment=_FINDS_US,
            launch=partial(self._noted, name),
            http_port=self._port(),
        )

    def _front(self, name: str, way: Way) -> Program:
        words = (
            *("-m", "sharedroutes.nameserver", "--listen", f"127.0.0.1:{way.listens}"),
            *("--redis", self.store.url),
            *("--http", "off", "--call-deadline", str(CALL_S), "--log-format", "json", *_HANG),
            *("--order-message-enable", "true"),
        )
        return Program(name, self.logs, words, _FINDS_US, partial(self._noted, name))

    def _broker(self, host: BrokerHost) -> Program:
        fronts = [self._ways[name].address for name in self.fronts] if host.name in AT_FRONTS else []
        where = (host.name, host.address, str(host.listens))
        words = (str(host.topics_path), str(FRONT_LEASE_MS), str(self.folder / "history"))
        return self._program(host.name, "stand_in", *where, *words, *fronts)

    def _client(self, kind: str) -> Program:
        name = f"client-{kind}"
        at_replicas = kind == "asyncio" and self.store.can_fail_over
        where: ReadFrom = "replica" if at_replicas else "primary"
        return self._program(name, "sender", kind, name, self.store.url, str(self.folder), where)

    def _program(self, name: str, module: str, *words: str) -> Program:
        path = f"tests.faults.matrix.{module}"
        return Program(name, self.logs, ("-m", path, *words), _FINDS_US, self._start)

    def _start(
        self, command: Sequence[str], log: Path, *, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        started = self._group.start(command, log, environment=environment)
        self._pids.add(started.pid)
        return started

    def _noted(
        self, name: str, command: Sequence[str], log: Path, *, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a process that writes nothing into the history itself, and write down that it begins."""
        started = self._start(command, log, environment=environment)
        self._history.write(Started(who=name, pid=started.pid))
        return started


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _last_line(history: Path, mark: str) -> str:
    """Return the last line of a history that has a text; empty = there is none."""
    lines = history.read_text(encoding="utf-8").splitlines() if history.exists() else []
    return next((line for line in reversed(lines) if mark in line), "")
