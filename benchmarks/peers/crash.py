"""How soon does a client know that a broker's process was killed, here and in other registries?

What has registered is killed by SIGKILL, and with it what renews its lease: the same lease everywhere. Ours
once more as it is meant to run: an agent beside the broker, which lives. Peers: a registry on redis-py by
hand, ZooKeeper, etcd, RocketMQ's name server with its Java clients. Ratio: each to ours.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..kit.figures import Figure, Outcome, percentile
from ..kit.hosts import AgentSettings, Host
from ..kit.registries.all import Field, Running, running
from ..kit.registries.by_hand import BY_HAND
from ..kit.registries.etcd import ETCD
from ..kit.registries.field import beat, figures_of, named, registered
from ..kit.registries.name_server import ROCKETMQ, ROCKETMQ_FAST
from ..kit.registries.ours import OURS
from ..kit.registries.registry import (
    QUEUES,
    RENEWALS,
    TOPIC,
    VICTIM,
    Session,
    Watcher,
    registrant,
    table_of,
    watching,
)
from ..kit.registries.zookeeper import ZOOKEEPER

KNOWN: Final = "crash known, p50"
KNOWN_P99: Final = "crash known, p99"
BESIDE: Final = "sharedroutes, agent beside the broker"
_HOST: Final = "broker-host"
_SEED: Final = 20_260
_STEADY: Final = 4
"""Brokers that stay: a client holds back what takes most of them away at once."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    rounds: int = 10
    lease_s: float = 5.0
    topics: int = 10
    polled: int = 1
    """Kills with RocketMQ's own interval of 30 s, after the rounds; 0 = none."""


QUICK: Final = Size(rounds=1, lease_s=3.0, polled=0)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, and RuntimeError when another process ends early."""
    everyone = (OURS, BY_HAND, ZOOKEEPER, ETCD, ROCKETMQ_FAST)
    steady = {f"broker-{number:03d}": table_of(size.topics) for number in range(_STEADY)}
    with running(everyone) as field, registered(field, steady) as sessions:
        found = _rounds(field, sessions, size)
        if size.polled and ROCKETMQ_FAST.name in field.running:
            found[ROCKETMQ.name] = _polled(field.running[ROCKETMQ_FAST.name], size)
    figures = figures_of(KNOWN, "ms", found)
    figures += [Figure(named(KNOWN_P99, name), "ms", [percentile(ms, 0.99)]) for name, ms in found.items()]
    return Outcome(figures, [*_notes(size), *field.notes])


def _notes(size: Size) -> list[str]:
    return [
        (
            f"{size.rounds} rounds, in each of which all are killed one after the other, then awaited; "
            f"leases and sessions of {size.lease_s:g} s, renewed three times in that"
        ),
        "the median and the 99th of 100 of all kills, of RocketMQ by 10 clients each",
        (
            "RocketMQ's name server forgets a broker when its connection closes, and after 120 s of silence "
            "where it does not; the others wait for the lease in both cases, and so do we without an agent"
        ),
    ]


def _rounds(field: Field, sessions: Mapping[str, list[Session]], size: Size) -> dict[str, list[float]]:
    rng = random.Random(_SEED)
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        watchers = {
            name: stack.enter_context(watching(one.registry, one.server.address, TOPIC))
            for name, one in field.running.items()
        }
        beside = stack.enter_context(_beside(field.running[OURS.name], size))
        for _ in range(size.rounds):
            for of_one in sessions.values():
                beat(of_one)
            for name, times in _kill_all(field, watchers, beside, size, rng).items():
                found.setdefault(name, []).extend(times)
    return found


def _kill_all(
    field: Field, watchers: Mapping[str, Watcher], beside: _Beside, size: Size, rng: random.Random
) -> dict[str, list[float]]:
    """Let all register, kill them one after the other, and return when it was known (ms)."""
    killed_ns: dict[str, int] = {}
    with ExitStack() as stack:
        victims = {
            name: stack.enter_context(registrant(one.registry, one.server.address, size.lease_s, size.topics))
            for name, one in field.running.items()
        }
        beside.revive()
        for watcher in watchers.values():
            watcher.expect(VICTIM, QUEUES)
            watcher.seen()
        time.sleep(rng.uniform(0, size.lease_s / RENEWALS))
        for watcher in watchers.values():
            watcher.expect(VICTIM, None)
        killed_ns[BESIDE] = beside.kill()
        for name, victim in victims.items():
            os.kill(victim.pid, signal.SIGKILL)
            killed_ns[name] = time.monotonic_ns()
        seen = {name: watcher.seen() for name, watcher in {**watchers, BESIDE: beside.watcher}.items()}
    return {name: [(at - killed_ns[name]) / 1e6 for at in times] for name, times in seen.items()}


@dataclass(frozen=True, slots=True)
class _Beside:
    """A broker with an agent beside it, of which the broker alone is killed."""

    host: Host
    watcher: Watcher

    def revive(self) -> None:
        """Start the broker, and wait until a client has it."""
        self.host.start_broker()
        self.watcher.expect(_HOST, 1)
        self.watcher.seen()

    def kill(self) -> int:
        """Kill it; return when (ns)."""
        self.watcher.expect(_HOST, None)
        self.host.kill_broker()
        return time.monotonic_ns()


@contextmanager
def _beside(one: Running, size: Size) -> Iterator[_Beside]:
    url = one.server.address
    settings = AgentSettings(url, heartbeat_s=size.lease_s / RENEWALS, lease_ttl_s=size.lease_s)
    with (
        tempfile.TemporaryDirectory(prefix="sharedroutes-host-") as folder,
        watching(one.registry, url, TOPIC) as watcher,
        Host(Path(folder), _HOST, [TOPIC], settings) as host,
    ):
        host.start_agent()
        yield _Beside(host, watcher)


def _polled(one: Running, size: Size) -> list[float]:
    """Return when clients with RocketMQ's own interval knew (ms)."""
    found: list[float] = []
    for _ in range(size.polled):
        with (
            registrant(one.registry, one.server.address, size.lease_s, size.topics) as victim,
            watching(ROCKETMQ, one.server.address, TOPIC) as watcher,
        ):
            watcher.expect(VICTIM, QUEUES)
            watcher.seen()
            watcher.expect(VICTIM, None)
            os.kill(victim.pid, signal.SIGKILL)
            begin_ns = time.monotonic_ns()
            found += [(at_ns - begin_ns) / 1e6 for at_ns in watcher.seen()]
    return found
