"""Fronts of one registry in the event loop of a test, and brokers that say what real ones say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import orjson
import redis

from sharedroutes.nameserver.bodies import crc32
from sharedroutes.nameserver.front import Front, new_name
from sharedroutes.nameserver.settings import load
from sharedroutes.registry import AsyncRouteStore
from sharedroutes.registry.keys import Keys
from sharedroutes.remoting import FrameReader, RemotingCommand, RequestCode, encode, request
from tests.broker_agent.speaking_broker import topic

_NUMBERS = count(1)


class Peer:
    """A connection to a front, without a socket."""

    def __init__(self, front: Front, peer: str = "127.0.0.1:5") -> None:
        self.number = next(_NUMBERS)
        self.peer = peer
        self.front = front
        self.sent: list[bytes] = []
        self.is_open = True

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def close(self, why: str = "") -> None:  # noqa: ARG002
        self.is_open = False
        self.front.closed(self)

    async def ask(
        self,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        version: int = 479,
    ) -> RemotingCommand:
        """Return the answer, as it is after encoding; a quick one must be the same, or stale by now."""
        asked = request(code, dict(fields or {}), body=body, version=version)
        quick = self.front.quick_answer(encode(asked), self)
        answer = self.front.answer(asked, self)
        assert answer is not None
        if quick not in (None, answer):
            assert self.front.quick_answer(encode(asked), self) is None
        self.front.learn(encode(asked), asked)
        if not isinstance(answer, bytes):
            found = await answer
            assert found is not None
            answer = encode(found)
        (decoded,) = FrameReader().feed(answer)
        return decoded

    async def route(self, name: str) -> dict[str, Any] | None:
        """Return the route of a topic as JSON, or None where there is none."""
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": name})
        return orjson.loads(answer.body) if answer.code == 0 else None


class BrokerPeer:
    """A broker with a table of topics, which may be connected to several fronts."""

    def __init__(self, name: str = "broker-a", address: str = "127.0.0.1:10911", broker_id: int = 0) -> None:
        self.fields = {
            "brokerName": name,
            "brokerAddr": address,
            "clusterName": "c",
            "haServerAddr": "127.0.0.1:10912",
            "brokerId": str(broker_id),
            "enableActingMaster": "false",
            "compressed": "false",
        }
        self.topics = {"orders": topic("orders")}
        self.filter_servers: list[str] = []
        self.version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
        self.peers: dict[str, Peer] = {}

    def body(self, names: Iterable[str] | None = None) -> bytes:
        chosen = self.topics if names is None else {name: self.topics[name] for name in names}
        wrapper = {"dataVersion": self.version, "topicConfigTable": chosen}
        return orjson.dumps({"filterServerList": self.filter_servers, "topicConfigSerializeWrapper": wrapper})

    def connect(self, front: Front) -> Peer:
        """Return a new connection to a front, which takes the place of the one before."""
        self.peers[front.name] = Peer(front)
        return self.peers[front.name]

    async def register(
        self, front: Front, names: Iterable[str] | None = None, **more: str
    ) -> RemotingCommand:
        """Send a registration, of all topics or of some."""
        peer = self.peers.get(front.name) or self.connect(front)
        body = self.body(names)
        fields = {**self.fields, "bodyCrc32": str(crc32(body)), **more}
        return await peer.ask(RequestCode.REGISTER_BROKER, fields, body)

    def die(self) -> None:
        """End the process: all its connections are closed."""
        for peer in self.peers.values():
            peer.close()
        self.peers.clear()


def records(admin: redis.Redis) -> list[dict[str, object]]:
    """Return the records of the change stream."""
    entries: Any = admin.xrange(Keys("sharedroutes").changes)
    return [orjson.loads(fields[b"c"]) for _, fields in entries]


@asynccontextmanager
async def running(url: str, **flags: str) -> AsyncIterator[Front]:
    """Run a front with these settings on a store."""
    given = {"--" + name.replace("_", "-"): text for name, text in flags.items()}
    settings = load({"--redis": url, **given}, {})
    name = new_name()
    store = AsyncRouteStore.from_url(url, replace(settings.process.registry, actor=f"front {name}"))
    front = Front(store, settings, name, random.Random(next(_NUMBERS)))
    await front.start()
    try:
        yield front
    finally:
        await front.aclose()
        await store.aclose()


async def gone_everywhere(name: str, *fronts: Front) -> bool:
    """Whether no front has a route of a topic."""
    found = await asyncio.gather(*(Peer(front).route(name) for front in fronts))
    return not any(found)
