"""What an agent costs while nothing happens: bytes on the wire, memory, CPU.

An agent process with few topics and one with many run side by side, each on a server of its own, behind a
proxy that counts bytes: those of requests and replies, without what TCP and IP put around them. Every agent
is alone on its server, so it is also the one that looks for ended leases. Memory and CPU are what Linux says
of the process; elsewhere they are left out. The agents run as an operator's do: in an environment that has
the extra `agent` alone, with the variables of the systemd unit.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from sharedroutes.registry import EmbeddedServer, RouteStore
from sharedroutes.registry.scripts import HEARTBEAT

from .kit.figures import Benchmark, Figure, Outcome, at_most
from .kit.hosts import Agent, AgentSettings, Host
from .kit.installed import HERE, Interpreter, install_agent
from .kit.workload import long_topic_names
from .wire import Tap

_BEAT: Final = "heartbeat"
_REST: Final = "all else"
_POLL_S: Final = 0.05
_DEADLINE_S: Final = 60.0
_NAME: Final = "broker-{:05d}"
"""Of one length for all: each letter of it is in every key of a heartbeat."""

_MB: Final = 1_000_000
MOST_MB: Final = 40
"""What an agent with 10,000 topics may take."""

_PROC: Final = Path("/proc")


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
    """What an agent took in a round."""

    beat_bytes: float
    bytes_a_second: float
    resident_mb: float
    core_percent: float


class _Idle:
    """An agent with so many topics, on a server of its own."""

    def __init__(self, stack: ExitStack, folder: Path, size: Size, topics: int, runs_on: Interpreter) -> None:
        self.name = f"{topics:,} topics"
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
        self._cpu_s = _cpu_s(self._agent.pid)

    def end(self) -> None:
        """End the round and take note of it; raises RuntimeError for one without a heartbeat."""
        cpu_s, took_s, counts = _cpu_s(self._agent.pid), time.monotonic() - self._began_s, self._tap.counts
        if not counts.requests[_BEAT]:
            raise RuntimeError(f"an agent with {self.name} sent no heartbeat in {took_s:.1f} s")
        self.rounds.append(
            _Round(
                counts.bytes[_BEAT] / counts.requests[_BEAT],
                counts.bytes.total() / took_s,
                resident_mb(self._agent.pid),
                100 * (cpu_s - self._cpu_s) / took_s,
            )
        )

    def figures(self) -> Iterator[Figure]:
        """Return what was found, a value a round."""
        beats, rates, resident, shares = zip(*self.rounds, strict=True)
        yield Figure(f"{self.name}: a heartbeat", "B", beats, at_most(300))
        yield Figure(f"{self.name}: all requests and replies", "B/s", rates)
        if processes_are_seen():
            yield Figure(f"{self.name}: resident memory", "MB", resident, at_most(MOST_MB))
            yield Figure(f"{self.name}: share of one core", "%", shares, at_most(0.5))


def processes_are_seen() -> bool:
    """Whether this system tells memory and CPU of other processes in /proc."""
    return (_PROC / "self" / "task" / str(os.getpid()) / "schedstat").exists()


def _name_of(request: Sequence[bytes]) -> str:
    return _BEAT if HEARTBEAT.sha.encode() in request else _REST


def await_registered(url: str, name: str) -> None:
    """Wait until a broker is registered; raises TimeoutError."""
    deadline = time.monotonic() + _DEADLINE_S
    with RouteStore.from_url(url) as store:
        while name not in store.cluster_info().brokers:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} was not registered within {_DEADLINE_S} s")
            time.sleep(_POLL_S)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB of 10^6 bytes; 0 where it is not seen."""
    if not processes_are_seen():
        return 0.0
    pages = (_PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MB


def _cpu_s(pid: int) -> float:
    """Return the CPU time of the threads of a process; 0 where it is not seen."""
    if not processes_are_seen():
        return 0.0
    threads = (_PROC / str(pid) / "task").glob("*/schedstat")
    return sum(int(thread.read_text(encoding="ascii").split()[0]) for thread in threads) / 1e9


BENCHMARK: Final = Benchmark(
    "What does an agent cost while nothing happens?",
    partial(run, Size()),
    partial(run, QUICK),
)
