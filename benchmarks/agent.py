"""How soon does a client know what has happened to a broker?

Broker, agent, client and store are a process each, on one machine. A change has reached the client when it
chooses accordingly: from the end of the first turn over all its queues in which the broker is not chosen
any more, or a new topic's queue is. Beside each event stands what RocketMQ's name server and client need
for it at worst, by their default settings.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import redis

from sharedroutes.client import NoRoute, RouteClient
from sharedroutes.registry import (
    Broker,
    ChangeKind,
    EmbeddedServer,
    RouteStore,
    TopicConfig,
)
from sharedroutes.registry.plans import last_change_id

from .kit.figures import Figure, Outcome, Target, at_most, percentile
from .kit.hosts import Agent, AgentSettings, Host
from .kit.ping import BARE, hearing, ping
from .kit.processes import Child, await_until, commands, running, say
from .kit.workload import LASTING

_TOPIC: Final = "orders"
_WITHOUT: Final = "without"
_WITH: Final = "with"
_CREATED: Final = "topic"
_PINGED: Final = "ping"
_STEADY_PER_HOST: Final = 2
"""Brokers that stay, for each that is lost: a client holds back what takes most of them away at once."""

_ADDRESS: Final = "127.0.0.1:10911"
_SEED: Final = 20_260
_REST_S: Final = 0.3
_POLL_S: Final = 0.005
_CHOOSE_S: Final = 100e-6
_STAYS_S: Final = 0.03
"""An effect counts when it has lasted for this long."""

_ON_STANDBY: Final = "on standby"

_CLIENT_POLL_MS: Final = 30_000.0
"""ClientConfig.pollNameServerInterval: a client that has just asked for routes asks again then."""

_SILENCE_MS: Final = 120_000.0
"""Of a broker, until the name server forgets it (RouteInfoManager: DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""

_SCAN_MS: Final = 5_000.0
"""NamesrvConfig.scanNotActiveBrokerInterval."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    trials: int = 60
    """Of the death of a broker, a new topic and the end of an agent."""

    take_overs: int = 60

    losses: int = 6
    hosts: int = 10
    """Lost in every loss, at different moments."""

    losses_of_all: int = 2
    """The same without any other agent, which would sweep ended leases."""

    heartbeat_s: float = 5.0
    lease_ttl_s: float = 15.0

    short_heartbeat_s: float = 0.5
    short_ttl_s: float = 2.0
    """Where the measurement begins when the lease ends: a longer one would only take longer."""


QUICK: Final = Size(
    trials=6, take_overs=3, losses=1, losses_of_all=1, hosts=3, heartbeat_s=1.0, lease_ttl_s=4.0
)


def run(size: Size) -> Outcome:
    """Measure; raises EmbeddedServerError, RuntimeError, and TimeoutError for a change that does not come."""
    found = _one_broker(size)
    found.host_lost = _hosts_lost(size, size.losses, survivors=1)
    found.all_lost = _hosts_lost(size, size.losses_of_all, survivors=0)
    found.taken_over = _take_overs(size)
    ttl_ms = size.lease_ttl_s * 1_000
    figures = [
        *_figures("broker killed", found.killed, at_most(150), _CLIENT_POLL_MS),
        *_beside_pings(found),
        *_figures(
            f"host lost, TTL {size.lease_ttl_s:g} s",
            found.host_lost,
            at_most(ttl_ms + 200),
            _SILENCE_MS + _SCAN_MS + _CLIENT_POLL_MS,
        ),
        *_figures("every host with an agent lost", found.all_lost),
        *_figures("topic created", found.created, at_most(300), _CLIENT_POLL_MS),
        *_figures("broker and agent stopped, from the signal", found.stopped, at_most(20), _CLIENT_POLL_MS),
        *_figures("broker and agent stopped, from the unregistration", found.unregistered, at_most(20)),
        *_figures("standby takes over, from when it may", found.taken_over, at_most(200)),
    ]
    return Outcome(figures, _notes(size))


def _notes(size: Size) -> Sequence[str]:
    return [
        f"{size.trials} trials, {size.losses * size.hosts} of a lost host, {size.take_overs} of a take-over",
        f"heartbeats every {size.heartbeat_s:g} s; take-overs: {size.short_heartbeat_s:g} s",
        "a host is lost when broker and agent are stopped at once: no connection is closed",
        "where no agent is left to look for ended leases, the client sees them with its next reading",
        "the unregistration is when its change record says, to a millisecond; so is the take-over",
        "RocketMQ: a broker that is killed or stops is forgotten at once, and clients ask every 30 s",
        "RocketMQ: of a lost host the name server hears nothing for 120 s, and it looks every 5 s",
    ]


@dataclass(slots=True)
class _Found:
    """The delays (ms) of all trials."""

    killed: list[float] = field(default_factory=list)
    pinged: list[float] = field(default_factory=list)
    created: list[float] = field(default_factory=list)
    stopped: list[float] = field(default_factory=list)
    unregistered: list[float] = field(default_factory=list)
    host_lost: list[float] = field(default_factory=list)
    all_lost: list[float] = field(default_factory=list)
    taken_over: list[float] = field(default_factory=list)


def _figures(
    name: str, delays: Sequence[float], target: Target | None = None, rocketmq_ms: float | None = None
) -> Iterator[Figure]:
    yield Figure(f"{name}, p50", "ms", delays)
    yield Figure(f"{name}, p99", "ms", [percentile(delays, 0.99)], target)
    if rocketmq_ms is not None:
        yield Figure(f"{name}, RocketMQ at worst (computed)", "ms", [rocketmq_ms])


def _beside_pings(found: _Found) -> Iterator[Figure]:
    """Yield what a bare message to the client's process took between the kills, and how often a kill that."""
    bare = Figure(BARE, "ms", found.pinged)
    yield bare
    times = percentile(found.killed, 0.99) / bare.median
    yield Figure(f"broker killed, p99 / {BARE}", "x", [times], at_most(10))


class _Site:
    """A server with brokers that stay, hosts to be lost, and the client; `stack` ends them all."""

    def __init__(self, stack: ExitStack, heartbeat_s: float, lease_ttl_s: float, hosts: int = 1) -> None:
        self._rng = random.Random(_SEED)
        self.began_ms = 0.0
        """When the last act of `until` began, by the clock of the server."""

        self.server = stack.enter_context(EmbeddedServer())
        self.store = stack.enter_context(RouteStore.from_url(self.server.url, LASTING))
        self.admin = stack.enter_context(redis.Redis.from_url(self.server.url))
        steady = _STEADY_PER_HOST * hosts
        for number in range(steady):
            self.store.register(Broker(f"steady-{number}", _ADDRESS), [TopicConfig(_TOPIC, 1, 1)])
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sharedroutes-agent-")))
        of_agents = AgentSettings(self.server.url, heartbeat_s, lease_ttl_s)
        names = [f"broker-{number}" for number in range(hosts)]
        self.hosts = [stack.enter_context(Host(folder / name, name, [_TOPIC], of_agents)) for name in names]
        for host in self.hosts:
            host.start_broker()
        self.agents = [host.start_agent() for host in self.hosts]
        child = stack.enter_context(running(choose, self.server.url, _TOPIC, hosts + steady))
        self.client = _Chooser(child)
        self.client.await_chosen(*names)

    @property
    def host(self) -> Host:
        """The first host."""
        return self.hosts[0]

    def rest(self) -> None:
        """Wait for a random time, so that the next event is in step with nothing."""
        time.sleep(self._rng.uniform(0, _REST_S))

    def until(self, what: str, name: str, act: Callable[[], object]) -> list[float]:
        """Act; return how long (ms) after the beginning of the act the client chose accordingly."""
        self.client.begin(what, name)
        self.began_ms, began_ns = time.time() * 1_000, time.monotonic_ns()
        act()
        return [(at_ns - began_ns) / 1e6 for at_ns in self.client.times_ns()]

    def ping(self) -> list[float]:
        """Return how long (ms) a bare message took from here to the client's process."""
        self.client.begin(_PINGED)
        began_ns = time.monotonic_ns()
        ping(self.admin)
        return [(at_ns - began_ns) / 1e6 for at_ns in self.client.times_ns()]

    def await_change_ms(self, since: str, kind: ChangeKind, name: str) -> float:
        """Wait for a change of a broker after a position in the stream; return its time (ms)."""
        found: list[str] = []

        def look() -> bool:
            changes = self.store.changes_since(since).changes
            found.extend(one.change_id for one in changes if (one.kind, one.broker_name) == (kind, name))
            return bool(found)

        await_until(look, f"a change {kind} of {name}", poll_s=_POLL_S)
        return float(found[0].partition("-")[0])


class _Chooser:
    """The producer in the other process; both read the same monotonic clock."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def begin(self, what: str, *names: str) -> None:
        """Let it wait for something; returns when it does."""
        self._child.tell([what, names])

    def times_ns(self) -> list[int]:
        """Return since when each of the names of the last `begin` has been as awaited."""
        return list(self._child.answer())

    def await_chosen(self, *names: str) -> None:
        """Wait until it chooses all of these brokers."""
        self.begin(_WITH, *names)
        self.times_ns()


def _one_broker(size: Size) -> _Found:
    """Kill a broker, create a topic and stop both again and again."""
    found = _Found()
    with ExitStack() as stack:
        site = _Site(stack, size.heartbeat_s, size.lease_ttl_s)
        for number in range(size.trials):
            site.rest()
            found.pinged += site.ping()
            found.killed += site.until(_WITHOUT, site.host.name, site.host.kill_broker)
            site.host.start_broker()
            site.client.await_chosen(site.host.name)
            site.rest()
            topic = f"created-{number}"
            found.created += site.until(_CREATED, topic, partial(site.host.create_topic, topic))
            site.rest()
            stopped_ms, unregistered_ms = _stop(site)
            found.stopped.append(stopped_ms)
            found.unregistered.append(unregistered_ms)
    return found


def _stop(site: _Site) -> tuple[float, float]:
    """Stop broker and agent, and start others for the next trial.

    Returns how long (ms) after the signal, and after the unregistration, the client knew.
    """
    host = site.host
    position = site.store.run(last_change_id(site.store.keys))
    (stopped_ms,) = site.until(_WITHOUT, host.name, host.tell_to_end)
    unregistered_at_ms = site.await_change_ms(position, ChangeKind.DOWN, host.name)
    host.await_ended()
    host.start_broker()
    site.agents[0] = host.start_agent()
    site.client.await_chosen(host.name)
    return stopped_ms, site.began_ms + stopped_ms - unregistered_at_ms


def _hosts_lost(size: Size, losses: int, *, survivors: int) -> list[float]:
    """Return how long (ms) the client chose brokers whose hosts were lost at different moments."""
    delays: list[float] = []
    with ExitStack() as stack:
        site = _Site(stack, size.heartbeat_s, size.lease_ttl_s, size.hosts + survivors)
        hosts = site.hosts[: size.hosts]
        names = [host.name for host in hosts]
        for _ in range(losses):
            site.client.begin(_WITHOUT, *names)
            lost_ns = []
            for host in hosts:
                site.rest()
                lost_ns.append(time.monotonic_ns())
                host.freeze()
            ended_ns = site.client.times_ns()
            delays += [(ended - lost) / 1e6 for ended, lost in zip(ended_ns, lost_ns, strict=True)]
            for host in hosts:
                host.thaw()
            site.client.await_chosen(*names)
    return delays


def _take_overs(size: Size) -> list[float]:
    """Return how long (ms, of the server's clock) in the last quarter of its lease a broker had its owner."""
    delays: list[float] = []
    with ExitStack() as stack:
        site = _Site(stack, size.short_heartbeat_s, size.short_ttl_s)
        host, keys = site.host, site.store.keys
        owner, standby = host.start_agent(), site.agents[0]  # who starts takes over
        _await_standby(standby, 1)
        for _ in range(size.take_overs):
            site.rest()
            position = site.store.run(last_change_id(keys))
            owner.send(signal.SIGSTOP)
            ends_at_ms = float(str(site.admin.zscore(keys.deadlines, keys.lease_member(host.name, 0))))
            may_be_taken_at_ms = ends_at_ms - size.short_ttl_s * 250
            delays.append(site.await_change_ms(position, ChangeKind.UP, host.name) - may_be_taken_at_ms)
            fenced = owner.times_said(_ON_STANDBY)
            owner.send(signal.SIGCONT)
            owner, standby = standby, owner
            _await_standby(standby, fenced + 1)
    return delays


def _await_standby(agent: Agent, times: int) -> None:
    """Wait until an agent has noticed so many times that another one has its broker."""
    what = "an agent without a lease notices"
    await_until(lambda: agent.times_said(_ON_STANDBY) >= times, what, poll_s=_POLL_S)


def choose(url: str, topic: str, queues: int) -> None:
    """In the other process: a producer, which chooses queues of a topic a whole turn of `queues` at a time.

    A command names brokers that are to be chosen or not, or topics that are to have a queue; this says since
    when (ns) it is so for each of them: the end of the first such turn. Or it is to wait for a ping.
    """
    with RouteClient.from_url(url) as client, hearing(url) as next_ping_ns:
        client.select_queue(topic)
        for what, names in commands():
            if what == _PINGED:
                say()
                say([next_ping_ns()])
                continue
            look = partial(_topics, client, names)
            if what != _CREATED:
                look = partial(_brokers, client, topic, queues, names, without=what == _WITHOUT)
            say()
            say(_await(names, look))


def _brokers(
    client: RouteClient, topic: str, queues: int, names: Iterable[str], *, without: bool
) -> set[str]:
    """Return those of the brokers that a whole turn includes, or does not include."""
    chosen = {client.select_queue(topic).broker_name for _ in range(queues)}
    return {name for name in names if (name in chosen) is not without}


def _topics(client: RouteClient, names: Iterable[str]) -> set[str]:
    """Return those of the topics that have a queue."""
    return {name for name in names if _has_queue(client, name)}


def _has_queue(client: RouteClient, topic: str) -> bool:
    try:
        client.select_queue(topic)
    except NoRoute:
        return False
    return True


def _await(wanted: Sequence[str], look: Callable[[], set[str]]) -> list[int]:
    """Return since when (ns) `look` finds each name, when all of them have stayed found for a while."""
    since: dict[str, int] = {}

    def is_so() -> bool:
        now_s = time.monotonic()
        found = look()
        at_ns = time.monotonic_ns()
        for name in wanted:
            if name in found:
                since.setdefault(name, at_ns)
            else:
                since.pop(name, None)
        return len(since) == len(wanted) and now_s - max(since.values()) / 1e9 >= _STAYS_S

    await_until(is_so, f"{', '.join(wanted)} as awaited", poll_s=_CHOOSE_S)
    return [since[name] for name in wanted]
