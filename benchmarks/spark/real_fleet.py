"""A small real fleet whose brokers fail in one way, one after the other, and the sends of its clients.

Brokers, agents and the store are a process each; one more has all clients, which send at random.
"""

from __future__ import annotations

import heapq
import queue
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from sharedroutes.client import ClientConfig, FaultConfig, Ladder, NoRoute, RouteClient
from sharedroutes.client.selection import Candidates
from sharedroutes.registry import EmbeddedServer, MessageQueue, RegistryConfig, RouteStore, StoreTimeout

from ..kit.hosts import AgentSettings, Host
from ..kit.processes import Child, await_until, commands, running, say

_TOPIC: Final = "orders"
_SEED: Final = 20_260
_POLL_S: Final = 0.005
_LOOK_S: Final = 0.2
"""For so long after the end of a drained broker sends to it are still counted."""

_NS: Final = 1e9
_OVER: Final = "over"
_AVOIDED: Final = "avoided"

ISOLATION_S: Final = 0.5
SLOW_START_S: Final = 0.5
_FAULTS: Final = FaultConfig(
    ladder=Ladder((10,), (round(ISOLATION_S * 1000),)),
    consecutive_failures=0,
    min_success_rate=0.0,
    slow_start_s=SLOW_START_S,
)
"""Short, so that no isolation lasts from one death of a broker to its next."""

_TURNS: Final = 4_096
_LATENCY_S: Final = 0.001
_WRITE: Final = 2
_NAP_S: Final = 200e-6
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
    """What clients experienced in the deaths of brokers; times in seconds."""

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
        child = stack.enter_context(running(send, asdict(_setting(server, fleet, scene))))
        child.await_ready()
        for number in range(rounds):
            host = hosts[number % len(hosts)]
            # In step with no heartbeat, and with no isolation of the rounds before.
            settled_s = ISOLATION_S + SLOW_START_S
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


def _setting(server: EmbeddedServer, fleet: Fleet, scene: Scene) -> _Setting:
    return _Setting(
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
    child.send(_OVER)
    while (met := child.answer()) == _AVOIDED:
        pass  # all of them noticed at the last moment
    return [(avoided, known, sent) for avoided, known, sent in met]


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

    def are_served() -> bool:
        try:
            route = store.routes([_TOPIC]).get(_TOPIC)
        except StoreTimeout:  # so many processes start at once
            return False
        return route is not None and names <= {
            data.broker_name for data in route.queue_datas if data.writable
        }

    await_until(are_served, f"all of {', '.join(sorted(names))} are served", poll_s=_POLL_S)


@dataclass(frozen=True, slots=True)
class _Setting:
    """The settings of the clients."""

    url: str
    topic: str
    clients: int
    sends_per_s: float
    """Of each client, to all brokers together."""

    fails_after_s: float
    """From a send to a dead broker to its failure."""

    reconnect_s: float
    guard_hold_s: float


@dataclass(frozen=True, slots=True)
class _RandomTurns:
    """Queues in an order that is drawn once: what comes next is as good as random."""

    seed: int

    def arrange(self, candidates: Candidates) -> Sequence[MessageQueue]:
        """Return thousands of turns."""
        return random.Random(self.seed).choices(candidates.queues, k=_TURNS)


@dataclass(slots=True)
class _Sender:
    """One client, and its records since the last broker died."""

    client: RouteClient
    rng: random.Random
    next_s: float
    failing: list[tuple[float, str]] = field(default_factory=list)
    avoided_ns: int = 0
    known_ns: int = 0
    sent_ns: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Forget the records of the last round."""
        self.avoided_ns = self.known_ns = 0
        self.sent_ns = []

    def look(self, topic: str, dead: str) -> None:
        """Note since when its routes lack the broker."""
        if not self.avoided_ns and not _has_broker(self.client, topic, dead):
            self.avoided_ns = time.monotonic_ns()

    def settle(self, now_s: float) -> None:
        """Record the sends that have failed by now."""
        while self.failing and self.failing[0][0] <= now_s:
            _, name = heapq.heappop(self.failing)
            self.client.record(name, _LATENCY_S, failed=True)
            self.known_ns = self.known_ns or time.monotonic_ns()

    def send(self, setting: _Setting, dead: str, now_s: float) -> None:
        """Send, if it is time to."""
        if now_s < self.next_s:
            return
        self.next_s = now_s + self.rng.expovariate(setting.sends_per_s)
        try:
            name = self.client.select_queue(setting.topic).broker_name
        except NoRoute:  # after an outage, when no agent is back within the hold of the guard
            return
        if name == dead:
            self.sent_ns.append(time.monotonic_ns())
            heapq.heappush(self.failing, (now_s + setting.fails_after_s, name))
        else:
            self.client.record(name, _LATENCY_S)


def send(fields: dict[str, Any]) -> None:
    """In the other process: route clients, each with its own connections, cache and fault memory.

    They choose queues of a topic at random moments and record how it went: well, or, for sends to the
    broker that is dead at the time, badly after a while. No message is sent. A command names a broker
    that is about to die; this says `avoided` when no client writes there any more by its routes. After
    the command `over` it says for each client in turn the monotonic clock (ns) from when on its routes
    lacked the broker (0 = they never did), that of when it knew of its first failed send (0 = none was
    known), and the list of when it chose the broker. Raises TimeoutError for a broker that does not come
    back.
    """
    setting = _Setting(**fields)
    asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    with ExitStack() as stack:
        senders = [_sender(stack, setting, number) for number in range(setting.clients)]
        for sender in senders:
            sender.client.select_queue(setting.topic)  # else the first outage could come before the routes
        say()
        dead, is_said = "", False
        while True:
            now_s = time.monotonic()
            for sender in senders:
                sender.settle(now_s)
                sender.send(setting, dead, now_s)
                if dead:
                    sender.look(setting.topic, dead)
            if dead and not is_said and all(sender.avoided_ns for sender in senders):
                is_said = True
                say(_AVOIDED)
            if not asked.empty():
                command = asked.get()
                if command is None:
                    return
                if command == _OVER:
                    dead = ""
                    say([[one.avoided_ns, one.known_ns, one.sent_ns] for one in senders])
                else:
                    dead, is_said = command, False
                    _begin(senders, setting.topic, dead)
            time.sleep(_NAP_S)


def _begin(senders: Iterable[_Sender], topic: str, dead: str) -> None:
    """Wait until all clients have the broker, which is alive still."""
    for sender in senders:
        client = sender.client
        await_until(partial(_has_broker, client, topic, dead), f"a client has {dead} again", poll_s=_NAP_S)
        sender.begin()
    say()


def _has_broker(client: RouteClient, topic: str, name: str) -> bool:
    return name in _brokers(client, topic)


def _sender(stack: ExitStack, setting: _Setting, number: int) -> _Sender:
    config = ClientConfig(
        strategy=_RandomTurns(number),
        faults=_FAULTS,
        reconnect_s=setting.reconnect_s,
        guard_hold_s=setting.guard_hold_s,
    )
    client = stack.enter_context(RouteClient.from_url(setting.url, config))
    return _Sender(client, random.Random(number), time.monotonic())


def _brokers(client: RouteClient, topic: str) -> set[str]:
    """Return the brokers that a client may write to."""
    try:
        queues = client.route(topic).queue_datas
    except NoRoute:
        return set()
    return {data.broker_name for data in queues if data.perm & _WRITE}


def _read(asked: queue.SimpleQueue[str | None]) -> None:
    for command in commands():
        asked.put(command)
    asked.put(None)
