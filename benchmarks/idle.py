"""What does an agent cost while nothing happens?

Bytes on the wire, memory, CPU. An agent process with few topics and one with many run side by side, each on
a server of its own, behind a proxy that counts bytes: those of requests and replies, without what TCP and
IP put around them. Every agent is alone on its server, so it is also the one that looks for ended leases.
Memory and CPU are what Linux says of the process; elsewhere they are left out. The agents run as an
operator's do: in an environment that has the extra `agent` alone, with the variables of the systemd unit.
Ratio: a heartbeat of many topics to one of few.
"""

from __future__ import annotations

import asyncio
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import hiredis

from sharedroutes.registry import EmbeddedServer, RouteStore
from sharedroutes.registry.scripts import HEARTBEAT

from .kit.figures import Figure, Outcome, at_most
from .kit.hosts import HERE, Agent, AgentSettings, Host, Interpreter, install_agent
from .kit.processes import await_until
from .kit.usage import cpu_s, processes_are_seen, resident_mb
from .kit.workload import long_topic_names

_BEAT: Final = "heartbeat"
_REST: Final = "all else"
_NAME: Final = "broker-{:05d}"
"""Of one length for all, as it is part of every key of a heartbeat."""

MOST_MB: Final = 40
"""The limit for an agent with 10,000 topics."""

_MOST_WITH_FEW_MB: Final = 36

_LOOPBACK: Final = "127.0.0.1"
_AT_ONCE: Final = 65_536
_START_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    few_topics: int = 10
    many_topics: int = 10_000
    rounds: int = 3
    round_s: float = 15.0
    """Longer than a heartbeat interval."""

    settle_s: float = 10.0
    """After the registration, until the first round begins."""

    heartbeat_s: float = 5.0
    lease_ttl_s: float = 15.0
    installs: bool = True
    """Whether the agents run as an operator's do, which takes pip and its index, or on what runs this."""


QUICK: Final = Size(rounds=2, round_s=3.0, settle_s=2.0, heartbeat_s=1.0, lease_ttl_s=4.0)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and TimeoutError for an agent that does not register."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-idle-")))
        runs_on = install_agent(folder) if size.installs else HERE
        few_and_many = (size.few_topics, size.many_topics)
        idle = [_Idle(stack, folder, size, topics, runs_on) for topics in few_and_many]
        time.sleep(size.settle_s)
        for _ in range(size.rounds):
            for one in idle:
                one.begin()
            time.sleep(size.round_s)
            for one in idle:
                one.end()
        figures = [figure for one in idle for figure in one.figures()]
    few, many = ([round_.beat_bytes for round_ in one.rounds] for one in idle)
    figures.append(
        Figure(
            f"heartbeat, {idle[1].name} / {idle[0].name}",
            "x",
            [more / less for more, less in zip(many, few, strict=True)],
            at_most(1.02),
        )
    )
    notes = [
        f"{size.rounds} rounds of {size.round_s:g} s, a heartbeat every {size.heartbeat_s:g} s",
        f"the broker's name has {len(_NAME.format(0))} letters, which three keys of a heartbeat hold",
        "bytes: requests and replies; each of both is one packet, with 52 bytes of TCP and IP around it",
    ]
    return Outcome(figures, notes)


class _Round(NamedTuple):
    """The costs of an agent in a round."""

    beat_bytes: float
    bytes_a_second: float
    resident_mb: float
    core_percent: float


class _Idle:
    """An agent with so many topics, on a server of its own."""

    def __init__(self, stack: ExitStack, folder: Path, size: Size, topics: int, runs_on: Interpreter) -> None:
        self.name = f"{topics:,} topics"
        self._most_mb = _MOST_WITH_FEW_MB if topics == size.few_topics else MOST_MB
        self.rounds: list[_Round] = []
        server = stack.enter_context(EmbeddedServer())
        self._tap = stack.enter_context(Tap(server.port, _name_of))
        settings = AgentSettings(self._tap.url, size.heartbeat_s, size.lease_ttl_s, runs_on)
        name = _NAME.format(topics)
        host = stack.enter_context(Host(folder / name, name, long_topic_names(topics), settings))
        host.start_broker()
        self._agent: Agent = host.start_agent()
        await_registered(server.url, name)

    def begin(self) -> None:
        """Begin a round."""
        self._tap.start_anew()
        self._began_s = time.monotonic()
        self._cpu_s = cpu_s(self._agent.pid)

    def end(self) -> None:
        """End the round and record it; raises RuntimeError for one without a heartbeat."""
        used_s, took_s, counts = cpu_s(self._agent.pid), time.monotonic() - self._began_s, self._tap.counts
        if not counts.requests[_BEAT]:
            raise RuntimeError(f"an agent with {self.name} sent no heartbeat in {took_s:.1f} s")
        self.rounds.append(
            _Round(
                counts.bytes[_BEAT] / counts.requests[_BEAT],
                counts.bytes.total() / took_s,
                resident_mb(self._agent.pid),
                100 * (used_s - self._cpu_s) / took_s,
            )
        )

    def figures(self) -> Iterator[Figure]:
        """Return the figures, a value for each round."""
        beats, rates, resident, shares = zip(*self.rounds, strict=True)
        yield Figure(f"{self.name}: a heartbeat", "B", beats, at_most(300))
        yield Figure(f"{self.name}: all requests and replies", "B/s", rates)
        if processes_are_seen():
            yield Figure(f"{self.name}: resident memory", "MB", resident, at_most(self._most_mb))
            yield Figure(f"{self.name}: share of one core", "%", shares, at_most(0.5))


def _name_of(request: Sequence[bytes]) -> str:
    return _BEAT if HEARTBEAT.sha.encode() in request else _REST


def await_registered(url: str, name: str) -> None:
    """Wait until a broker is registered; raises TimeoutError."""
    with RouteStore.from_url(url) as store:
        await_until(lambda: name in store.cluster_info().brokers, f"{name} is registered")


class Counts:
    """Requests and bytes, of requests and replies, by the name that `name_of` gives a request."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()


class Tap:
    """A TCP proxy to the server at a loopback port, on a thread of its own, which counts requests and bytes.

    The bytes of a reply count for the last request of the connection: clients wait for replies.
    """

    def __init__(self, server_port: int, name_of: Callable[[Sequence[bytes]], str]) -> None:
        self.counts = Counts()
        self._server_port = server_port
        self._name_of = name_of
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tap", daemon=True)
        self._links: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server((_LOOPBACK, 0))
        self.url = f"redis://{_LOOPBACK}:{self._listener.getsockname()[1]}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start_anew(self) -> None:
        """Count from now on."""
        self.counts = Counts()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    async def _close(self) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = self._loop.create_task(self._carry(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(_LOOPBACK, self._server_port)
        link = _Link(self)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, requests, link.request))
                group.create_task(_pump(answers, writer, link.reply))
        finally:
            writer.transport.abort()
            requests.transport.abort()

    def count(self, request: Sequence[bytes] | None, name: str, size: int) -> str:
        """Add bytes to a name, or to that of a request that begins; return the name."""
        if request is not None:
            name = self._name_of(request)
            self.counts.requests[name] += 1
        self.counts.bytes[name] += size
        return name


class _Link:
    """One connection of a client."""

    def __init__(self, tap: Tap) -> None:
        self._tap = tap
        self._parser = hiredis.Reader()
        self._name = ""

    def request(self, data: bytes) -> None:
        self._parser.feed(data)
        pack: Any = hiredis.pack_command  # its stub knows commands of one word only
        while (words := self._parser.gets()) is not False:
            self._name = self._tap.count(words, "", len(pack(tuple(words))))

    def reply(self, data: bytes) -> None:
        self._tap.count(None, self._name, len(data))


async def _pump(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, tell: Callable[[bytes], None]
) -> None:
    """Carry the bytes of one direction until the connection ends."""
    with suppress(OSError):
        while data := await source.read(_AT_ONCE):
            tell(data)
            target.write(data)
            await target.drain()
        target.close()
