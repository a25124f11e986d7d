"""Whether the fleet simulator is right: the same small fleet, real and simulated, and how far they are apart.

Real: brokers, agents and store are a process each, and a process has several clients that send at random.
Brokers are killed, or frozen together with their agents, one after the other. Simulated: the same settings,
by sharedroutes.pipeline.simulate. Compared are the times until a client's routes lack the broker, the times
until it left the broker alone, and the sends that went there.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np

from sharedroutes.pipeline.simulate import (
    ClientFaults,
    FaultModel,
    FleetConfig,
    Happening,
    SharedRoutes,
    Traffic,
)
from sharedroutes.pipeline.simulate.clients import Population
from sharedroutes.pipeline.simulate.tally import Played, play_block, world_of
from sharedroutes.registry import EmbeddedServer, RegistryConfig, RouteStore

from . import senders
from .child import Child, running
from .harness import Benchmark, Figure, Outcome, Target, at_most, percentile
from .hosts import AgentSettings, Host

__all__ = ["BENCHMARK", "Sample", "Size", "distance", "run", "simulated"]

_TOPIC: Final = "orders"
_SEED: Final = 20_260
_POLL_S: Final = 0.005
_DEADLINE_S: Final = 60.0
_NS: Final = 1e9
_NONE: Final = Happening()
_FAR: Final = 0.25
"""Forty rounds of the same distribution are less than 0.26 apart from it in 99 of 100 runs."""

_Kind: TypeAlias = Literal["crash", "lost"]


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    kills: int = 40
    losses: int = 40
    brokers: int = 5
    clients: int = 6
    sends_per_s: float = 20.0
    """Of each client, to all brokers together."""

    heartbeat_s: float = 1.0
    lease_ttl_s: float = 3.0
    lost_fails_after_s: float = 0.2
    """From a send to a frozen broker to its failure; short, to have several isolations in a lease."""

    targets: bool = True
    """Whether there are enough rounds to hold the distances against targets."""


QUICK: Final = Size(kills=6, losses=6, targets=False)


@dataclass(slots=True)
class Sample:
    """What clients met in the deaths of brokers; times in seconds."""

    avoid_s: list[float] = field(default_factory=list)
    exposed_s: list[float] = field(default_factory=list)
    misdirected: list[float] = field(default_factory=list)


def run(size: Size) -> Outcome:
    """Measure and simulate; raises EmbeddedServerError, RuntimeError, and TimeoutError."""
    figures: list[Figure] = []
    kinds: tuple[tuple[_Kind, str, int], ...]
    kinds = (("crash", "broker killed", size.kills), ("lost", "host lost", size.losses))
    for kind, name, rounds in kinds:
        measured = _measured(size, kind, rounds)
        computed = simulated(size, kind, percentile(measured.avoid_s, 0.5) if kind == "crash" else None)
        target = at_most(_FAR) if size.targets and kind == "lost" else None
        figures += _figures(f"{name}, until routes lack it", measured.avoid_s, computed.avoid_s, target)
        figures += _figures(f"{name}, until left alone", measured.exposed_s, computed.exposed_s, target)
        figures += _sends(f"{name}, misdirected sends", measured.misdirected, computed.misdirected, target)
    return Outcome(figures, _notes(size))


def _notes(size: Size) -> Sequence[str]:
    return [
        f"{size.brokers} brokers with agents; {size.clients} clients, {size.sends_per_s:g} sends/s each",
        f"lease {size.lease_ttl_s:g} s, heartbeat {size.heartbeat_s:g} s",
        f"a client leaves a broker alone for {senders.ISOLATION_S:g} s after a failure",
        "distance: the largest difference of the shares below a value (Kolmogorov-Smirnov), 0 to 1",
        "the clients of a round share the moment of the last heartbeat: the sample is smaller than it looks",
        "killed: how fast agents are here (closed_s) is taken from the measured p50; the rest is compared",
    ]


def _figures(
    name: str, measured: Sequence[float], computed: Sequence[float], target: Target | None
) -> Iterator[Figure]:
    for share, title in ((0.5, "p50"), (0.9, "p90")):
        yield Figure(f"{name}, {title}", "ms", [percentile(measured, share) * 1_000])
        yield Figure(f"{name}, {title} (simulated)", "ms", [percentile(computed, share) * 1_000])
    yield Figure(f"{name}, distance", "", [distance(measured, computed)], target)


def _sends(
    name: str, measured: Sequence[float], computed: Sequence[float], target: Target | None
) -> Iterator[Figure]:
    yield Figure(f"{name}, mean", "sends", [float(np.mean(measured))])
    yield Figure(f"{name}, mean (simulated)", "sends", [float(np.mean(computed))])
    yield Figure(f"{name}, distance", "", [distance(measured, computed)], target)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the largest difference of the shares of two samples below any value (Kolmogorov-Smirnov)."""
    points = np.unique([*one, *other])
    shares = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


# --- simulated ----------------------------------------------------------------------------------------------


def simulated(size: Size, kind: _Kind, killed_p50_s: float | None = None) -> Sample:
    """Return what the simulator says of the same fleet, in many more rounds.

    `killed_p50_s`: how soon clients know of a killed broker on this machine; None = as by default.
    """
    faults = ClientFaults(
        isolation_s=senders.ISOLATION_S, slow_start_s=senders.SLOW_START_S, consecutive_failures=0
    )
    system = SharedRoutes(lease_ttl_s=size.lease_ttl_s, heartbeat_s=size.heartbeat_s, faults=faults)
    if killed_p50_s is not None:
        system = replace(system, closed_s=max(0.0, killed_p50_s - system.doorbell_s * math.log(2)))
    happening = Happening(per_hour=1.0, mean_s=60.0, fixed=True)
    config = FleetConfig(
        brokers=size.brokers,
        topics=1,
        clients=size.clients,
        hours=1_000.0,
        seed=_SEED,
        traffic=Traffic(
            sends_per_s=size.sends_per_s,
            topics_per_client=1,
            brokers_per_topic=size.brokers,
            timeout_s=size.lost_fails_after_s,
        ),
        faults=FaultModel(
            crash=happening if kind == "crash" else _NONE,
            lost=happening if kind == "lost" else _NONE,
            hang=_NONE,
            restart=_NONE,
            store_outage=_NONE,
        ),
        systems=(system,),
    )
    world = world_of(config)
    return _sample(play_block(world, system, Population(config).met(world.faults, 0), 0))


def _sample(played: Played) -> Sample:
    misdirected = [float(number) for number in played.misdirected]
    return Sample(played.avoid_s.tolist(), played.exposed_s.tolist(), misdirected)


# --- real ---------------------------------------------------------------------------------------------------


def _measured(size: Size, kind: _Kind, rounds: int) -> Sample:
    """Kill or freeze one broker after the other; return what the clients met."""
    found, rng = Sample(), random.Random(_SEED)
    # What refuses a connection says so at once.
    fails_after_s = 0.001 if kind == "crash" else size.lost_fails_after_s
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer())
        hosts = _hosts(stack, server.url, size)
        config = RegistryConfig(lease_ttl_s=size.lease_ttl_s, call_deadline_s=size.heartbeat_s)
        store = stack.enter_context(RouteStore.from_url(server.url, config))
        _await(store, {host.name for host in hosts})
        arguments = (server.url, _TOPIC, size.clients, size.sends_per_s, fails_after_s)
        child = stack.enter_context(running("senders", *map(str, arguments)))
        for number in range(rounds):
            host = hosts[number % len(hosts)]
            # In step with no heartbeat, and with no isolation of the rounds before.
            time.sleep(rng.uniform(1, 2) * size.heartbeat_s + senders.ISOLATION_S + senders.SLOW_START_S)
            _one(child, host.name, host.kill_broker if kind == "crash" else host.freeze, found)
            if kind == "crash":
                host.start_broker()
            else:
                host.thaw()
            _await(store, {host.name for host in hosts})
    return found


def _one(child: Child, name: str, act: Callable[[], None], found: Sample) -> None:
    """Let one broker die, and add what the clients met."""
    child.tell(name)
    begin_ns = time.monotonic_ns()
    act()
    words = [int(word) for word in child.answer().split()]
    for avoided_ns, known_ns, sends in zip(words[::3], words[1::3], words[2::3], strict=True):
        left_ns = min(avoided_ns, known_ns) if known_ns else avoided_ns
        found.avoid_s.append((avoided_ns - begin_ns) / _NS)
        found.exposed_s.append((left_ns - begin_ns) / _NS)
        found.misdirected.append(float(sends))


def _hosts(stack: ExitStack, url: str, size: Size) -> list[Host]:
    """Start brokers with their agents."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-fleet-")))
    of_agents = AgentSettings(url, size.heartbeat_s, size.lease_ttl_s)
    names = [f"broker-{number}" for number in range(size.brokers)]
    hosts = [stack.enter_context(Host(folder / name, name, [_TOPIC], of_agents)) for name in names]
    for host in hosts:
        host.start_broker()
        host.start_agent()
    return hosts


def _await(store: RouteStore, names: set[str]) -> None:
    """Wait until the registry serves the topic from all of these brokers."""
    deadline_s = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline_s:
        route = store.routes([_TOPIC]).get(_TOPIC)
        if route is not None and names <= {data.broker_name for data in route.broker_datas}:
            return
        time.sleep(_POLL_S)
    raise TimeoutError(f"not all of {', '.join(sorted(names))} were served within {_DEADLINE_S} s")


BENCHMARK: Final = Benchmark(
    "Does a real fleet behave as the simulated one?",
    partial(run, Size()),
    partial(run, QUICK),
)
