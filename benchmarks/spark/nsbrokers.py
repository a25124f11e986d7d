"""Brokers and clients of a RocketMQ name server, over its own protocol; each on a connection of its own.

A broker registers, goes on registering and asking, and is silent from some moment on, or goes away in good or
bad order. A client polls the route of a topic and notes since when it lacks a broker. All times are those of
the event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from sharedroutes.broker_agent.rocketmq.broker_client import BrokerCallError, BrokerClient
from sharedroutes.pipeline.simulate import NameServers
from sharedroutes.remoting import RemotingCommand, RequestCode, ResponseCode, request
from sharedroutes.remoting.fastjson import loads

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


async def connected(host: str, port: int, check: Callable[[], None], deadline_s: float) -> BrokerClient:
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


async def every(period_s: float, phase_s: float, act: Callable[[], Awaitable[object]]) -> None:
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
                asks = every(timers.traffic_s, self.asks_at_s, lambda: self._ask(client))
                works.append(group.create_task(asks))
            await asyncio.sleep(self.ends_at_s - asyncio.get_running_loop().time())
            for work in works:
                work.cancel()
        await self._end(client)
        self.ended_at_s = asyncio.get_running_loop().time()

    async def _register_all_along(self, client: BrokerClient) -> None:
        period_s = self.timers.register_s
        if not self.beats:
            await every(period_s, self.registers_at_s, lambda: self.register(client))
        await asyncio.sleep(self.registers_at_s - asyncio.get_running_loop().time())
        await self.register(client)
        await every(period_s, self.registers_at_s + period_s, lambda: self._beat(client))

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


async def route_of(client: BrokerClient, topic: str) -> RemotingCommand:
    """Return the answer to a poll, whatever its code."""
    poll = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    return await client.invoke(poll, deadline_s=_DEADLINE_S)


@dataclass(slots=True)
class Poller:
    """A client: by broker, since when its routes have the broker and take messages there, or do not."""

    topics: tuple[str, ...]
    known: dict[str, set[str]] = field(default_factory=dict)
    """By topic: the brokers of the route that the client has."""

    changes: list[tuple[float, str, str, bool]] = field(default_factory=list)
    """When it learnt what: time, topic, broker, whether it has it."""

    async def poll(self, client: BrokerClient) -> None:
        """Ask for one topic after the other, as RocketMQ's client does; without a route the old one stays."""
        for topic in self.topics:
            answer = await route_of(client, topic)
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
