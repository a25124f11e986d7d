"""Whether the simulator's name servers are right: a real one of RocketMQ, and how far they are apart.

Real: RocketMQ's name server in its own Java process. Brokers are connections that say what a broker says, as
often as it does; some fall silent, some end, some are drained. Clients poll. Simulated: the same timers, by
sharedroutes.pipeline.simulate. Compared are the times until a client's routes lack the broker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from sharedroutes.broker_agent.rocketmq.broker_client import BrokerClient
from sharedroutes.pipeline.simulate import NameServers
from sharedroutes.pipeline.simulate.config import Kind
from sharedroutes.remoting import ResponseCode

from ..kit.figures import Benchmark, Figure, Outcome, at_least, at_most, percentile
from ..kit.rocketmq import JavaAbsent, NameServer, name_server
from .nsbrokers import Broker, End, Poller, connected, every, route_of
from .simulator import avoided_s, distance

_TOPIC: Final = "orders"
_OTHER: Final = "payments"
_ALONE: Final = "alone"
"""A topic of one broker, which is killed."""

_SEED: Final = 20_260
_FAR: Final = 0.25
_START_S: Final = 120.0
_MARGIN_S: Final = 2.0
_SHARE: Final = 1.0
_A_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Group:
    """Brokers with the same habits and the same end, and the settings that stand for them when simulated."""

    name: str
    end: End
    kind: Kind
    brokers: int
    timers: NameServers
    beats: bool = False


_ROCKETMQ_5: Final = NameServers(name_servers=1)
_ROCKETMQ_4: Final = NameServers(name_servers=1, traffic_s=30.0)
_ACTING: Final = NameServers(name_servers=1, timeout_s=10.0, register_s=1.0, traffic_s=1.0)
GROUPS: Final = (
    Group("host lost", "silent", "lost", 40, _ROCKETMQ_5),
    Group("host lost, a request every 30 s", "silent", "lost", 40, _ROCKETMQ_4),
    Group("host lost, acting master", "silent", "lost", 40, _ACTING, beats=True),
    Group("broker killed", "closed", "crash", 40, _ROCKETMQ_5),
    Group("broker ended", "unregistered", "restart", 20, _ROCKETMQ_5),
    Group("drained", "wiped", "restart", 20, _ROCKETMQ_5),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much one run does."""

    groups: Sequence[Group] = GROUPS
    clients: int = 20
    spread_s: float = 30.0
    """Brokers begin within such a time; all clients poll; then, within such a time again, brokers end."""

    targets: bool = True
    """Whether there are enough brokers to hold the distances against targets."""


def _quick(timers: NameServers) -> NameServers:
    """Return the same habits, in a tenth of the time or less."""
    traffic_s = min(1.5, timers.traffic_s / 10)
    return replace(
        timers, timeout_s=10.0, idle_s=10.0, register_s=1.5, poll_s=1.5, scan_s=0.5, traffic_s=traffic_s
    )


QUICK: Final = Size(
    tuple(replace(group, brokers=5, timers=_quick(group.timers)) for group in GROUPS),
    clients=5,
    spread_s=1.5,
    targets=False,
)


@dataclass(slots=True)
class _Real:
    """What was measured."""

    avoid_s: dict[str, list[float]] = field(default_factory=dict)
    """By group: from the end of a broker until a client's routes lacked it."""

    without_route: float = 0.0
    """The share of the answers for a topic without brokers that leave clients the route they have."""


def run(size: Size) -> Outcome:
    """Measure and simulate; where Java is absent, say so; raises RuntimeError and OSError."""
    timers = size.groups[0].timers
    try:
        with name_server(scan_s=timers.scan_s, idle_s=timers.idle_s) as server:
            real = asyncio.run(_measured(size, server))
    except JavaAbsent as error:
        return Outcome([], [f"nothing was measured: {error}"])
    target = at_most(_FAR) if size.targets else None
    figures: list[Figure] = []
    for group in size.groups:
        measured, computed = real.avoid_s[group.name], avoided_s(group.timers, group.kind)
        for share, title in ((0.5, "p50"), (0.9, "p90"), (1.0, "max")):
            figures.append(Figure(f"{group.name}, {title}", "s", [percentile(measured, share)]))
            figures.append(Figure(f"{group.name}, {title} (simulated)", "s", [percentile(computed, share)]))
        figures.append(Figure(f"{group.name}, distance", "", [distance(measured, computed)], target))
    kept = at_least(_SHARE)
    figures.append(
        Figure("topic without brokers: answers that change nothing", "", [real.without_route], kept)
    )
    return Outcome(figures, _notes(size))


def _notes(size: Size) -> Sequence[str]:
    return [
        "a name server of RocketMQ 5.3.3; all brokers in one run, each on a connection of its own",
        f"{size.clients} clients, which are ours and poll as often as RocketMQ's",
        "from the end of a broker until a client's routes lack it (drained: until they do not write there)",
        "distance: the largest difference of the shares below a value (Kolmogorov-Smirnov), 0 to 1",
        "a lost host is silence on an open connection: the name server sees nothing else of it",
    ]


async def _measured(size: Size, server: NameServer) -> _Real:
    rng, clock = random.Random(_SEED), asyncio.get_running_loop().time
    pollers = [Poller((_TOPIC,)) for _ in range(size.clients)]
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:

        async def connect() -> BrokerClient:
            client = await connected(server.host, server.port, server.check, _START_S)
            return await stack.enter_async_context(client)

        await connect()  # it listens from here on
        begin_s = clock()
        brokers = list(_brokers(size, rng, begin_s))
        lives = [group.create_task(broker.live(await connect())) for _, broker in brokers]
        polls = [
            group.create_task(_poll(poller, await connect(), begin_s, size, rng.random()))
            for poller in pollers
        ]
        stays = group.create_task(_survivor(size, begin_s).live(await connect()))
        await asyncio.gather(*lives)
        await asyncio.sleep(begin_s + _settled_s(size) + size.spread_s + _longest_s(size) - clock())
        looker = await connect()
        answers = [await route_of(looker, _ALONE) for _ in range(size.clients)]
        for task in (stays, *polls):
            task.cancel()
    server.check()
    empty = [answer.code == ResponseCode.TOPIC_NOT_EXIST for answer in answers]
    return _Real(_by_group(brokers, pollers), sum(empty) / len(empty))


async def _poll(poller: Poller, client: BrokerClient, begin_s: float, size: Size, phase: float) -> None:
    period_s = size.groups[0].timers.poll_s
    await every(period_s, begin_s + phase * period_s, lambda: poller.poll(client))


def _brokers(size: Size, rng: random.Random, begin_s: float) -> Iterator[tuple[str, Broker]]:
    """Yield all brokers, with the names of their groups; the first that is killed has a topic to itself."""
    groups = [group for group in size.groups for _ in range(group.brokers)]
    alone = next((number for number, group in enumerate(groups) if group.end == "closed"), None)
    for number, group in enumerate(groups):
        broker = Broker(
            name=f"broker-{number}",
            address=f"10.0.{number // 250}.{number % 250 + 1}:10911",
            topics=(_TOPIC, _OTHER, _ALONE) if number == alone else (_TOPIC, _OTHER),
            timers=group.timers,
            end=group.end,
            ends_at_s=begin_s + _settled_s(size) + size.spread_s * rng.random(),
            registers_at_s=begin_s + size.spread_s * rng.random(),
            asks_at_s=begin_s + group.timers.traffic_s * rng.random(),
            beats=group.beats,
        )
        yield group.name, broker


def _survivor(size: Size, begin_s: float) -> Broker:
    """Return a broker that outlives the run: without any, clients would keep the route that they have."""
    return Broker(
        name="survivor",
        address="10.1.0.1:10911",
        topics=(_TOPIC, _OTHER),
        timers=size.groups[0].timers,
        end="silent",
        ends_at_s=begin_s + _A_DAY_S,
        registers_at_s=begin_s,
        asks_at_s=begin_s,
    )


def _settled_s(size: Size) -> float:
    """Return after what time all clients have all brokers."""
    return size.spread_s + size.groups[0].timers.poll_s + _MARGIN_S


def _longest_s(size: Size) -> float:
    """Return how long it takes at most until all clients know."""
    return max(
        max(timers.timeout_s, timers.idle_s) + timers.scan_s + timers.poll_s + _MARGIN_S
        for timers in (group.timers for group in size.groups)
    )


def _by_group(brokers: Sequence[tuple[str, Broker]], pollers: Sequence[Poller]) -> dict[str, list[float]]:
    """Return from the end of each broker until each client's routes lacked it; raises RuntimeError."""
    found: dict[str, list[float]] = {}
    for name, broker in brokers:
        for poller in pollers:
            at_s = poller.lacked_at_s(broker)
            if at_s is None or broker.ended_at_s is None:
                raise RuntimeError(f"{broker.name} ({name}): a client's routes have it, or never had it")
            found.setdefault(name, []).append(at_s - broker.ended_at_s)
    return found


BENCHMARK: Final = Benchmark(
    "Does a real name server behave as the simulated one?",
    partial(run, Size()),
    partial(run, QUICK),
)
