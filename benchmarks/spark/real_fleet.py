"""A small real fleet whose brokers fail in one way, one after the other, and what its clients met.

Brokers, agents and the store are a process each; one more has all clients, which send at random.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from sharedroutes.registry import EmbeddedServer, RegistryConfig, RouteStore

from ..kit.hosts import AgentSettings, Host
from ..kit.processes import Child, running
from . import senders

_TOPIC: Final = "orders"
_SEED: Final = 20_260
_POLL_S: Final = 0.005
_DEADLINE_S: Final = 60.0
_LOOK_S: Final = 0.2
"""For so long sends are counted after a broker has ended that nobody is to write to any more."""

_NS: Final = 1e9
_DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")


@dataclass(frozen=True, slots=True)
class Fleet:
    """The settings of all scenes."""

    brokers: int = 5
    clients: int = 6
    sends_per_s: float = 20.0
    """Of each client, to all brokers together."""

    heartbeat_s: float = 1.0
    lease_ttl_s: float = 3.0
    timeout_s: float = 0.2
    """From a send to a silent broker to its failure; short, to have several isolations in a lease."""

    hang_check_s: float = 1.0
    hang_deadline_s: float = 0.4
    hang_failures: int = 3
    drain_s: float = 0.5
    reconnect_s: float = 2.0
    guard_hold_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The store is killed, and is back so much later; in between a broker dies."""

    lasts_s: float
    spared_s: float = 0.2
    """No broker dies so soon after the beginning, or before the end."""


@dataclass(slots=True)
class Sample:
    """What clients met in the deaths of brokers; times in seconds."""

    avoid_s: list[float] = field(default_factory=list)
    exposed_s: list[float] = field(default_factory=list)
    misdirected: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Scene:
    """How brokers fail, and how they come back."""

    fail: Callable[[Host], None]
    heal: Callable[[Host], None]
    refuses: bool
    """Whether sends to the broker fail at once."""

    flags: Sequence[str] = ()
    """Of the agents."""

    lasts_s: float | None = None
    """How long brokers are away; None = until all clients have noticed."""

    outage: Outage | None = None
    drains: bool = False
    """Whether the order to drain comes first; times count from it, and sends from the broker's end on."""


def measured(fleet: Fleet, scene: Scene, rounds: int) -> Sample:
    """Let one broker fail after the other; return what the clients met."""
    found, rng = Sample(), random.Random(_SEED)
    with ExitStack() as stack:
        server = stack.enter_context(_store_server(stack, scene))
        hosts = _hosts(stack, server.url, fleet, scene)
        config = RegistryConfig(lease_ttl_s=fleet.lease_ttl_s, call_deadline_s=fleet.heartbeat_s)
        store = stack.enter_context(RouteStore.from_url(server.url, config))
        _await(store, hosts)
        setting = json.dumps(asdict(_setting(server, fleet, scene)))
        child = stack.enter_context(running("spark.senders", setting))
        child.answer()
        for number in range(rounds):
            host = hosts[number % len(hosts)]
            # In step with no heartbeat, and with no isolation of the rounds before.
            settled_s = senders.ISOLATION_S + senders.SLOW_START_S
            time.sleep(rng.uniform(0.2, 1.2) * fleet.heartbeat_s + settled_s)
            _one(child, scene, host, found, server, rng)
            scene.heal(host)
            _await(store, hosts)
    return found


def _store_server(stack: ExitStack, scene: Scene) -> EmbeddedServer:
    """Return the store, which comes back from its outages with what it had."""
    if scene.outage is None:
        return EmbeddedServer()
    # Its own folder it takes with it.
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-store-"))
    return EmbeddedServer(*_DURABLE, "--dir", folder)


def _setting(server: EmbeddedServer, fleet: Fleet, scene: Scene) -> senders.Setting:
    return senders.Setting(
        url=server.url,
        topic=_TOPIC,
        clients=fleet.clients,
        sends_per_s=fleet.sends_per_s,
        # What refuses a connection says so at once; who is drained serves what comes meanwhile.
        fails_after_s=3_600.0 if scene.drains else 0.001 if scene.refuses else fleet.timeout_s,
        reconnect_s=fleet.reconnect_s,
        guard_hold_s=fleet.guard_hold_s,
    )


def _one(
    child: Child, scene: Scene, host: Host, found: Sample, server: EmbeddedServer, rng: random.Random
) -> None:
    """Let one broker fail, and add what the clients met."""
    if scene.outage is not None:
        begin_ns = _fail_in_outage(child, scene, scene.outage, host, server, rng.random())
    else:
        begin_ns = _fail(child, scene, host)
    counted_ns = begin_ns
    if scene.lasts_s is not None:
        time.sleep(max(0.0, scene.lasts_s - (time.monotonic_ns() - begin_ns) / _NS))
    else:
        child.answer()
    if scene.drains:
        host.await_drained()
        counted_ns = time.monotonic_ns()
        scene.fail(host)
        time.sleep(_LOOK_S)
    for avoided_ns, known_ns, sent_ns in _over(child):
        ended_ns = time.monotonic_ns() if scene.lasts_s is None else begin_ns + int(scene.lasts_s * _NS)
        until_ns = avoided_ns or ended_ns
        left_ns = min(until_ns, known_ns) if known_ns else until_ns
        if avoided_ns:
            found.avoid_s.append((avoided_ns - begin_ns) / _NS)
        found.exposed_s.append((left_ns - begin_ns) / _NS)
        found.misdirected.append(float(sum(counted_ns <= at_ns < ended_ns for at_ns in sent_ns)))


def _fail(child: Child, scene: Scene, host: Host) -> int:
    """Let the broker fail, or begin its drain; return when."""
    child.tell(host.name)
    begin_ns = time.monotonic_ns()
    if scene.drains:
        host.drain()
    else:
        scene.fail(host)
    return begin_ns


def _fail_in_outage(
    child: Child, scene: Scene, outage: Outage, host: Host, server: EmbeddedServer, drawn: float
) -> int:
    """Kill the store, let the broker fail later, and bring the store back; return when the broker failed."""
    server.kill()
    began_s = time.monotonic()
    fails_s = outage.spared_s + drawn * (outage.lasts_s - 2 * outage.spared_s)
    time.sleep(max(0.0, began_s + fails_s - time.monotonic()))
    failed_ns = _fail(child, scene, host)
    time.sleep(max(0.0, began_s + outage.lasts_s - time.monotonic()))
    server.start()
    return failed_ns


def _over(child: Child) -> list[tuple[int, int, list[int]]]:
    """End a round; return what each client has met."""
    child.send(senders.OVER)
    while not (line := child.answer()).startswith("["):
        pass  # all of them noticed at the last moment
    return [(avoided, known, sent) for avoided, known, sent in json.loads(line)]


def _hosts(stack: ExitStack, url: str, fleet: Fleet, scene: Scene) -> list[Host]:
    """Start brokers with their agents."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-fleet-")))
    of_agents = AgentSettings(url, fleet.heartbeat_s, fleet.lease_ttl_s, flags=scene.flags)
    names = [f"broker-{number}" for number in range(fleet.brokers)]
    hosts = [stack.enter_context(Host(folder / name, name, [_TOPIC], of_agents)) for name in names]
    for host in hosts:
        host.start_broker()
        host.start_agent()
    return hosts


def _await(store: RouteStore, hosts: Sequence[Host]) -> None:
    """Wait until the registry serves the topic from all brokers, and all of them take messages."""
    names = {host.name for host in hosts}
    deadline_s = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline_s:
        route = store.routes([_TOPIC]).get(_TOPIC)
        if route is not None and names <= {data.broker_name for data in route.queue_datas if data.writable}:
            return
        time.sleep(_POLL_S)
    raise TimeoutError(f"not all of {', '.join(sorted(names))} were served within {_DEADLINE_S} s")
