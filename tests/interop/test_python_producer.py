"""What the producer of the examples sends to real brokers is what a consumer in Java receives.

Agents register the brokers for the producer. The consumer asks RocketMQ's own name server, so that it takes
nothing from us but the messages.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import pytest

from demo.nameserver.rocketmq import FEW_THREADS, OFTEN_SHARED_OUT
from examples import rocketmq_producer
from examples.rocketmq_producer import DEADLINE_S, Message, Producer, own_address
from sharedroutes.broker_agent import AgentConfig, BrokerAgent, Phase
from sharedroutes.broker_agent.config import TopicsFrom
from sharedroutes.client import AsyncRouteClient, RetryPolicy
from sharedroutes.registry import Broker, EmbeddedServer
from sharedroutes.remoting import request
from sharedroutes.remoting.broker.client import BrokerClient
from tests.real.rocketmq import RealBroker, RealNameServer, java
from tests.support import await_until

from .conftest import RELEASES

pytestmark = pytest.mark.timeout(300)

BROKERS: Final = ("broker-a", "broker-b")
QUEUES: Final = 4
UPDATE_AND_CREATE_TOPIC: Final = 17
ARRIVES_S: Final = 150.0
STALL_S: Final = 2.0
"""What a machine that is busy with other things may add to a time that is measured on it."""

MESSAGES: Final = 4_000
IN_FLIGHT: Final = 16
BODIES: Final = (b"x", bytes(range(256)), "größer als Zürich".encode(), os.urandom(200_000))


@dataclass(frozen=True)
class Received:
    """A message as the consumer saw it."""

    message_id: str
    keys: str
    tag: str
    origin: str
    host: str
    process: int
    made_ms: int
    born_ms: int
    body: bytes

    @classmethod
    def of(cls, line: str) -> Self:
        """Return the message of a line of Receiver.java."""
        _, text, body = line.split(" ")
        message_id, keys, tag, origin, host, *numbers = b64decode(text).decode().split("\x01")
        process, made_ms, born_ms = map(int, numbers)
        return cls(message_id, keys, tag, origin, host, process, made_ms, born_ms, b64decode(body))


class Receiver:
    """A consumer in Java."""

    def __init__(self, release: str, name_server: str, folder: Path, topic: str, tags: str) -> None:
        folder.mkdir()
        source = Path(__file__).with_name("Receiver.java")
        own = (f"-Duser.home={folder}", "-Xmx256m", *FEW_THREADS, OFTEN_SHARED_OUT)
        self.messages: list[Received] = []
        with Path(folder, "output").open("ab") as output:
            self._process = subprocess.Popen(
                java(release, *own, str(source), name_server, topic, tags),
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, name="receiver")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    async def until(self, count: int) -> list[Received]:
        """Wait for so many different messages; return all that have come."""
        await await_until(
            lambda: len({one.message_id for one in self.messages}) >= count,
            timeout_s=ARRIVES_S,
            description=f"{count} messages arrive",
        )
        return list(self.messages)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("message "):
                self.messages.append(Received.of(line))


@dataclass(frozen=True)
class Site:
    """Two masters, and a name server for those who are not ours."""

    release: str
    folder: Path
    redis_url: str
    name_server: str
    brokers: Mapping[str, RealBroker]

    def receiver(self, topic: str, tags: str = "*") -> Receiver:
        """Return a consumer, which runs until its block ends."""
        return Receiver(self.release, self.name_server, self.folder / f"of-{topic}", topic, tags)

    @asynccontextmanager
    async def producer(self, topic: str) -> AsyncIterator[Producer]:
        """Create a topic, run the brokers' agents, and a producer that knows both brokers."""
        async with AsyncExitStack() as stack:
            for name, broker in self.brokers.items():
                await create(topic, broker)
                config = AgentConfig(
                    broker=Broker(name, broker.address),
                    topics_from=TopicsFrom.BROKER,
                    redis_url=self.redis_url,
                )
                agent = await stack.enter_async_context(BrokerAgent(config))
                await agent.until(Phase.SERVING)
            routes = await stack.enter_async_context(AsyncRouteClient.from_url(self.redis_url))
            yield await stack.enter_async_context(Producer(routes))


@pytest.fixture(scope="module", params=RELEASES)
def site(request: pytest.FixtureRequest, folder: Path) -> Iterator[Site]:
    release = str(request.param)
    place = folder / f"producer-{release}"
    with ExitStack() as stack, ThreadPoolExecutor() as starters:
        server = stack.enter_context(EmbeddedServer())
        names = stack.enter_context(RealNameServer(release, place / "names"))
        settings = {"namesrvAddr": names.address, "registerNameServerPeriod": "10000"}
        brokers = {
            name: RealBroker(release, place / name, {**settings, "brokerName": name}) for name in BROKERS
        }
        list(starters.map(stack.enter_context, brokers.values()))
        yield Site(release, place, server.url, names.address, brokers)


async def create(topic: str, broker: RealBroker) -> None:
    """Create a topic, as mqadmin does."""
    queues = str(QUEUES)
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    async with await BrokerClient.connect("127.0.0.1", broker.port, deadline_s=30) as client:
        await client.call(request(UPDATE_AND_CREATE_TOPIC, fields), deadline_s=30)


async def test_a_java_consumer_receives_what_was_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # No answer in time leads to a second attempt, and perhaps to a second message.
    patient = RetryPolicy(attempt_timeout_s=60.0, deadline_s=60.0)
    monkeypatch.setattr(rocketmq_producer, "DEADLINE_S", patient.deadline_s)
    monkeypatch.setattr(rocketmq_producer, "POLICY", patient)
    bodies = (*BODIES, *(b"message %d" % number for number in range(100)))
    messages = [
        Message(
            topic="orders",
            body=body,
            tag=tag,
            keys=(f"{tag}-{number}", "common"),
            properties={"origin": "Köln"},
        )
        for number, body in enumerate(bodies)
        for tag in ("paid", "open", "unwanted")
    ]
    async with site.producer("orders") as producer:
        receipts = await asyncio.gather(*map(producer.send, messages))
    assert {(receipt.broker_name, receipt.queue_id) for receipt in receipts} == {
        (name, number) for name in BROKERS for number in range(QUEUES)
    }
    sent = {
        receipt.message_id: (message.body, " ".join(message.keys), message.tag, "Köln")
        for receipt, message in zip(receipts, messages, strict=True)
        if message.tag != "unwanted"
    }
    with site.receiver("orders", "paid || open") as receiver:
        received = await receiver.until(len(sent))
    assert {one.message_id: (one.body, one.keys, one.tag, one.origin) for one in received} == sent
    assert len(received) == len(sent)  # none came twice
    for one in received:
        assert (one.host, one.process) == (socket.inet_ntoa(own_address()), os.getpid() & 0xFFFF)
        assert one.made_ms == pytest.approx(one.born_ms, abs=1_000)
        assert one.born_ms == pytest.approx(time.time() * 1_000, abs=ARRIVES_S * 1_000)


async def test_a_broker_that_is_killed_costs_no_message(site: Site) -> None:
    dying = site.brokers["broker-a"]
    stored: dict[str, bytes] = {}
    took_s: list[float] = []

    async def send_some(producer: Producer) -> None:
        while (number := next(numbers, None)) is not None:
            began = time.monotonic()
            receipt = await producer.send(Message(topic="trades", body=b"message %d" % number))
            took_s.append(time.monotonic() - began)
            stored[receipt.message_id] = b"message %d" % number

    numbers = iter(range(MESSAGES))
    with site.receiver("trades") as receiver:
        async with site.producer("trades") as producer:
            senders = [asyncio.create_task(send_some(producer)) for _ in range(IN_FLIGHT)]
            await await_until(lambda: len(stored) > MESSAGES // 4, timeout_s=60, description="some are sent")
            dying.kill()
            assert len(stored) < MESSAGES  # in the middle
            await asyncio.gather(*senders)  # raises what a send raised
        await asyncio.to_thread(dying.start)  # what it had acknowledged, it still has
        assert len(stored) == MESSAGES
        assert max(took_s) <= DEADLINE_S + STALL_S
        received = await receiver.until(MESSAGES)
    assert {one.message_id: one.body for one in received} == stored
