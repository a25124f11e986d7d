"""Does a real name server behave as the simulated one?

Real: RocketMQ's name server in its own Java process. Brokers are connections that send what a broker sends,
as often as it does; some fall silent, some end, some are drained. Clients poll. Simulated: the same timers,
by benchmarks.simulation. Compared are the times until a client's routes lack the broker.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from sharedroutes.remoting import RemotingCommand, RequestCode, ResponseCode, request
from sharedroutes.remoting.broker.client import BrokerCallError, BrokerClient
from sharedroutes.remoting.fastjson import loads

from ..kit.figures import Figure, Outcome, at_least, at_most, percentile
from ..kit.rocketmq import JavaAbsent, NameServer, name_server
from ..simulation import NameServers
from ..simulation.config import Kind
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

End: TypeAlias = Literal["silent", "closed", "unregistered", "wiped"]
"""silent: nothing is sent any more, the connection stays open. closed: it is closed. unregistered: the broker
says so and closes it, as it does when it ends. wiped: its write permission is taken away."""

_QUESTION: Final = request(RequestCode.GET_BROKER_CLUSTER_INFO)
_CLUSTER: Final = "DefaultCluster"
_DEADLINE_S: Final = 10.0
_RETRY_S: Final = 0.05
_WRITE: Final = 2
_PERM: Final = 6
_DEFAULT_TIMEOUT_S: Final = 120.0
"""What the name server takes where a broker says nothing (DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""


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
    pollers = [_Poller((_TOPIC,)) for _ in range(size.clients)]
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:

        async def connect() -> BrokerClient:
            client = await _connected(server.host, server.port, server.check, _START_S)
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
        answers = [await _route_of(looker, _ALONE) for _ in range(size.clients)]
        for task in (stays, *polls):
            task.cancel()
    server.check()
    empty = [answer.code == ResponseCode.TOPIC_NOT_EXIST for answer in answers]
    return _Real(_by_group(brokers, pollers), sum(empty) / len(empty))


async def _poll(poller: _Poller, client: BrokerClient, begin_s: float, size: Size, phase: float) -> None:
    period_s = size.groups[0].timers.poll_s
    await _every(period_s, begin_s + phase * period_s, lambda: poller.poll(client))


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


def _by_group(brokers: Sequence[tuple[str, Broker]], pollers: Sequence[_Poller]) -> dict[str, list[float]]:
    """Return from the end of each broker until each client's routes lacked it; raises RuntimeError."""
    found: dict[str, list[float]] = {}
    for name, broker in brokers:
        for poller in pollers:
            at_s = poller.lacked_at_s(broker)
            if at_s is None or broker.ended_at_s is None:
                raise RuntimeError(f"{broker.name} ({name}): a client's routes have it, or never had it")
            found.setdefault(name, []).append(at_s - broker.ended_at_s)
    return found


async def _connected(host: str, port: int, check: Callable[[], None], deadline_s: float) -> BrokerClient:
    """Return a connection, once the name server takes one; raises BrokerCallError and what `check` does."""
    clock = asyncio.get_running_loop().time
    until_s = clock() + deadline_s
    while True:
        try:
            return await BrokerClient.connect(host, port, deadline_s=_DEADLINE_S)
        except BrokerCallError:
            check()
            if clock() > until_s:
                raise
        await asyncio.sleep(_RETRY_S)


async def _every(period_s: float, phase_s: float, act: Callable[[], Awaitable[object]]) -> None:
    """Do something at `phase_s`, a time of the event loop, and then every `period_s` seconds, for good."""
    clock, turn = asyncio.get_running_loop().time, 0
    while True:
        await asyncio.sleep(phase_s + turn * period_s - clock())
        await act()
        turn += 1


@dataclass(slots=True)
class Broker:
    """One broker: when it begins, what it says how often, and how and when it ends."""

    name: str
    address: str
    topics: tuple[str, ...]
    """At least two: RocketMQ refuses the registration of a new broker with one."""

    timers: NameServers
    end: End
    ends_at_s: float
    registers_at_s: float
    asks_at_s: float
    beats: bool = False
    """Whether it registers once and sends heartbeats every `register_s` from then on (acting master)."""

    ended_at_s: float | None = None
    """When it had ended."""

    in_vain: int = 0
    """How many of its requests besides the registrations were answered with an error."""

    async def live(self, client: BrokerClient) -> None:
        """Register and ask until it is time to end, and end."""
        timers = self.timers
        async with asyncio.TaskGroup() as group:
            first = group.create_task(self._register_all_along(client))
            works = [first]
            if timers.traffic_s < timers.register_s:
                asks = _every(timers.traffic_s, self.asks_at_s, lambda: self._ask(client))
                works.append(group.create_task(asks))
            await asyncio.sleep(self.ends_at_s - asyncio.get_running_loop().time())
            for work in works:
                work.cancel()
        await self._end(client)
        self.ended_at_s = asyncio.get_running_loop().time()

    async def _register_all_along(self, client: BrokerClient) -> None:
        period_s = self.timers.register_s
        if not self.beats:
            await _every(period_s, self.registers_at_s, lambda: self.register(client))
        await asyncio.sleep(self.registers_at_s - asyncio.get_running_loop().time())
        await self.register(client)
        await _every(period_s, self.registers_at_s + period_s, lambda: self._beat(client))

    async def register(self, client: BrokerClient) -> None:
        """Register with all topics, as every period does."""
        fields = {**self._fields(), "haServerAddr": self.address, "compressed": "false", "bodyCrc32": "0"}
        fields["enableActingMaster"] = str(self.beats).lower()
        if self.timers.timeout_s != _DEFAULT_TIMEOUT_S:
            fields["heartbeatTimeoutMillis"] = str(round(self.timers.timeout_s * 1_000))
        body = json.dumps(_registration(self.topics)).encode()
        await client.call(request(RequestCode.REGISTER_BROKER, fields, body=body), deadline_s=_DEADLINE_S)

    async def _beat(self, client: BrokerClient) -> None:
        beat = request(RequestCode.BROKER_HEARTBEAT, self._fields())
        await client.call(beat, deadline_s=_DEADLINE_S)

    async def _ask(self, client: BrokerClient) -> None:
        """Ask what every broker of 5.x asks besides (BrokerController.refreshMetadata).

        The name server reads its tables without a lock for this, so beside a registration it may answer with
        an error. A broker logs that and goes on, and so does this one.
        """
        answer = await client.invoke(_QUESTION, deadline_s=_DEADLINE_S)
        self.in_vain += answer.code != ResponseCode.SUCCESS

    async def _end(self, client: BrokerClient) -> None:
        if self.end == "unregistered":
            leave = request(RequestCode.UNREGISTER_BROKER, self._fields())
            await client.call(leave, deadline_s=_DEADLINE_S)
        if self.end == "wiped":
            wipe = request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": self.name})
            await client.call(wipe, deadline_s=_DEADLINE_S)
        if self.end in ("unregistered", "closed"):
            client.abort()

    def _fields(self) -> dict[str, str]:
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": _CLUSTER,
            "brokerId": "0",
        }


def _registration(topics: tuple[str, ...]) -> Mapping[str, object]:
    """Return the body of a registration (RocketMQ: RegisterBrokerBody)."""
    table = {
        topic: {
            "attributes": {},
            "order": False,
            "perm": _PERM,
            "readQueueNums": 1,
            "topicFilterType": "SINGLE_TAG",
            "topicName": topic,
            "topicSysFlag": 0,
            "writeQueueNums": 1,
        }
        for topic in topics
    }
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    return {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table},
    }


async def _route_of(client: BrokerClient, topic: str) -> RemotingCommand:
    """Return the answer to a poll, whatever its code."""
    poll = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return await client.invoke(poll, deadline_s=_DEADLINE_S)


@dataclass(slots=True)
class _Poller:
    """A client: by broker, since when its routes have the broker and take messages there, or do not."""

    topics: tuple[str, ...]
    known: dict[str, set[str]] = field(default_factory=dict)
    """By topic: the brokers of the route that the client has."""

    changes: list[tuple[float, str, str, bool]] = field(default_factory=list)
    """When it learnt what: time, topic, broker, whether it has it."""

    async def poll(self, client: BrokerClient) -> None:
        """Ask for one topic after the other, as RocketMQ's client does; without a route the old one stays."""
        for topic in self.topics:
            answer = await _route_of(client, topic)
            if answer.code != ResponseCode.SUCCESS:
                continue
            now_s, found = asyncio.get_running_loop().time(), set(_writable(answer))
            before = self.known.get(topic, set())
            self.changes += [(now_s, topic, name, True) for name in found - before]
            self.changes += [(now_s, topic, name, False) for name in before - found]
            self.known[topic] = found

    def lacked_at_s(self, broker: Broker) -> float | None:
        """Return since when no route has had the broker any more, from its end on; None = some has it."""
        topics = [topic for topic in self.topics if topic in broker.topics]
        if broker.ended_at_s is None or any(broker.name in self.known.get(topic, ()) for topic in topics):
            return None
        lost = [at_s for at_s, _, name, has in self.changes if name == broker.name and not has]
        return max(lost, default=None)


def _writable(answer: RemotingCommand) -> Iterator[str]:
    """Yield the brokers of a route that take messages."""
    for queue in loads(answer.body)["queueDatas"]:
        if queue["perm"] & _WRITE:
            yield queue["brokerName"]
