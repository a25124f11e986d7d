"""A fleet played event by event, a client and a send at a time, in plain Python: what simulate() is held to.

Nothing of the simulator is used here. The client's fault memory, its choice of queues and the agent's check
for brokers that hang are the real ones.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf

from benchmarks.simulation import ClientFaults, NameServers, SharedRoutes
from sharedroutes.client import FaultConfig, Ladder, RoundRobin
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.faults.config import Tuning
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.client.selection import PublishView
from sharedroutes.registry import BrokerData, QueueData, TopicRoute
from sharedroutes.remoting.broker.probing import BrokerGone, Probing, Rules

DEAD = "broker-0"


@dataclass(frozen=True)
class Case:
    """One client that uses one topic of a broker that fails at 0."""

    kind: str
    lasted_s: float
    sends_per_s: float
    """To this topic."""

    brokers: int
    fails_after_s: float
    only_topic: bool = True


@dataclass(frozen=True)
class Seen:
    """What the client met."""

    avoid_s: float
    exposed_s: float
    misdirected: int


def times(rng: random.Random, every_s: float, *, start_s: float = 0.0) -> Iterator[float]:
    """Yield when something periodic happens from a moment on, its phase being what it will."""
    begin_s = start_s - every_s + rng.random() * every_s
    return (at for n in itertools.count() if (at := begin_s + n * every_s) >= start_s)


def before(rng: random.Random, every_s: float) -> float:
    """Return when something periodic last happened before 0."""
    return -rng.random() * every_s


def avoided_by_name_servers(rng: random.Random, system: NameServers, case: Case) -> float:
    """Return when the client's routes lack the broker."""
    if case.brokers == 1:
        return inf
    given_up_s = system.closed_s
    if case.kind in ("hang", "lost"):
        registered_s = before(rng, system.register_s)
        heard_s = max(registered_s, before(rng, system.traffic_s))
        scanned_s = next(at for at in times(rng, system.scan_s) if registered_s + system.timeout_s < at)
        given_up_s = min(scanned_s, heard_s + system.idle_s)
    return next(at for at in times(rng, system.poll_s) if at >= given_up_s)


def avoided_by_shared_routes(rng: random.Random, system: SharedRoutes, case: Case) -> float:
    """Return when the client's routes lack the broker."""
    announced_s = ended_s = system.closed_s
    if case.kind == "lost":
        ended_s = before(rng, system.heartbeat_s) + system.lease_ttl_s
        announced_s = ended_s + _exponential(rng, system.sweep_s)
    elif case.kind == "hang":
        announced_s = ended_s = _hang_found(rng, system)
    if ended_s == inf:
        return inf
    rings = rng.random() >= system.doorbell_lost_share
    rung_s = announced_s + _exponential(rng, system.doorbell_s) if rings else inf
    looked_s = next(times(rng, system.tail_s, start_s=ended_s))
    held_s = system.guard_hold_s if case.kind == "lost" and case.brokers == 1 and case.only_topic else 0.0
    return min(rung_s, looked_s) + held_s


def _hang_found(rng: random.Random, system: SharedRoutes) -> float:
    rules = Rules(
        attempts=3,
        check_s=system.hang_check_s,
        deadline_s=system.hang_deadline_s,
        failures=system.hang_failures,
    )
    if not system.hang_check_s:
        return inf
    probing, now_s = Probing(rules), -5 * system.hang_check_s + before(rng, system.hang_check_s)
    while True:
        probing.asked(now_s)
        if now_s < 0:
            probing.answered(now_s)
        else:
            now_s += probing.patience_s
            if isinstance(probing.unanswered("it is stopped"), BrokerGone):
                return now_s
        assert probing.ask_at_s is not None
        now_s = max(now_s, probing.ask_at_s)


def _exponential(rng: random.Random, mean: float) -> float:
    return rng.expovariate(1 / mean) if mean else 0.0


def play(rng: random.Random, system: NameServers | SharedRoutes, case: Case) -> Seen:
    """Play one client through one fault."""
    if isinstance(system, NameServers):
        avoid_s = avoided_by_name_servers(rng, system, case)
        chooser = _rocketmq_chooser(rng, system, case)
    else:
        avoid_s = avoided_by_shared_routes(rng, system, case)
        chooser = _real_chooser(rng, system.faults, case)
    until_s = min(avoid_s, case.lasted_s)
    choose, failed = chooser
    misdirected, known_s, now_s = 0, inf, 0.0
    under_way: list[float] = []
    while (now_s := now_s + rng.expovariate(case.sends_per_s)) < until_s:
        while under_way and under_way[0] <= now_s:
            failed(heapq.heappop(under_way))
        if choose(now_s) == DEAD:
            misdirected += 1
            known_s = min(known_s, now_s + case.fails_after_s)
            heapq.heappush(under_way, now_s + case.fails_after_s)
    remembers = system.faults is not None and case.brokers > 1
    return Seen(avoid_s, min(until_s, known_s) if remembers else until_s, misdirected)


Chooser = tuple[Callable[[float], str], Callable[[float], None]]


def _rocketmq_chooser(rng: random.Random, system: NameServers, case: Case) -> Chooser:
    """Return how RocketMQ's client chooses brokers, and what it makes of a failure."""
    names = [f"broker-{n}" for n in range(case.brokers)]
    available_at_s = -inf

    def choose(now_s: float) -> str:
        others = names[1:] if now_s < available_at_s and case.brokers > 1 else names
        return rng.choice(others)

    def failed(now_s: float) -> None:
        nonlocal available_at_s
        if system.faults is not None:
            available_at_s = max(available_at_s, now_s + system.faults.isolation_s)

    return choose, failed


def _real_chooser(rng: random.Random, faults: ClientFaults | None, case: Case) -> Chooser:
    """Return how our client chooses brokers, and what it makes of a failure; queues take turns at random."""
    names = [f"broker-{n}" for n in range(case.brokers)]
    route = TopicRoute(
        "orders",
        tuple(QueueData(name, 1, 1, 6) for name in names),
        tuple(BrokerData("c", name, {0: "127.0.0.1:10911"}) for name in names),
    )
    turns = iter(lambda: rng.randrange(case.brokers), -1)
    view = PublishView(route, RoundRobin(), turns, max_isolated_share=0.75)
    memory = FaultMemory(rng=rng) if faults is None else _memory(faults, rng)

    def choose(now_s: float) -> str:
        return view.pick(memory.verdict(now_s), frozenset(), rng).broker_name

    def failed(now_s: float) -> None:
        if faults is not None:
            memory.record(DEAD, Result(case.fails_after_s, failed=True), now_s)

    return choose, failed


def _memory(faults: ClientFaults, rng: random.Random) -> FaultMemory:
    isolation_ms = round(faults.isolation_s * 1000)
    config = FaultConfig(
        ladder=Ladder((1_000,), (isolation_ms,)),
        consecutive_failures=faults.consecutive_failures,
        base_isolation_s=faults.base_isolation_s,
        max_isolation_s=faults.max_isolation_s,
        slow_start_s=faults.slow_start_s,
    )
    tuning = Tuning(
        decay_s=faults.decay_s, jitter_share=faults.jitter_share, smallest_share=faults.smallest_share
    )
    return FaultMemory(config, rng, tuning=tuning)
