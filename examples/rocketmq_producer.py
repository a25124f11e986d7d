"""A producer for RocketMQ's brokers, with routes of the registry and one kept connection to each broker.

python rocketmq_producer.py --redis redis://127.0.0.1:6379/0 --topic orders --count 1000
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import secrets
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from sharedroutes.client import NOT_STORED_CODES, AsyncRouteClient, BrokerRefused, MessageQueue, RetryPolicy
from sharedroutes.registry import RegistryError
from sharedroutes.remoting import RequestCode, ResponseCode, request
from sharedroutes.remoting.broker.client import Access, BrokerClient

DEADLINE_S: Final = 3.0
POLICY = RetryPolicy(deadline_s=DEADLINE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent; consumers filter by `tag`, and `mqadmin queryMsgByKey` finds it by its `keys`."""

    topic: str
    body: bytes
    tag: str = ""
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Where a broker has stored a message (RocketMQ: SendResult)."""

    message_id: str  # the unique key of the message
    broker_name: str
    queue_id: int
    offset: int
    code: int  # SUCCESS, or one of NOT_STORED_CODES: stored, but not as safely as it should be


class Producer:
    """Sends messages, any number of them at the same time; make one for the process and keep it."""

    def __init__(
        self, routes: AsyncRouteClient, *, group: str = "python-producer", access: Access | None = None
    ) -> None:
        self._routes = routes
        self._group = group
        self._access = access  # credentials and TLS
        self._unique_keys = UniqueKeys()
        self._brokers: dict[str, BrokerClient] = {}
        self._connecting: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self._brokers.values():
            broker.abort()

    async def send(self, message: Message) -> Receipt:
        """Return where the message was stored; raises AttemptsFailed, NoRoute and BrokerRefused."""
        key = next(self._unique_keys)  # of all attempts: consumers see by it that a message came twice
        properties = {**(message.properties or {}), "UNIQ_KEY": key}
        if message.tag:
            properties["TAGS"] = message.tag
        if message.keys:
            properties["KEYS"] = " ".join(message.keys)
        header = self._header(message.topic, encode_properties(properties))
        attempts = self._routes.attempts(message.topic, policy=POLICY)
        async for attempt in attempts:
            async with attempt as queue:  # ends the block when its time is up
                receipt = await self._send_to(queue, header, message.body, key)
                if receipt.code == ResponseCode.SUCCESS:
                    return receipt
                attempt.not_stored(receipt)
        stored_less_safely: Receipt = attempts.answer
        return stored_less_safely

    def _header(self, topic: str, properties: str) -> dict[str, str]:
        """Return the header without its queue (RocketMQ: SendMessageRequestHeaderV2)."""
        return {
            "a": self._group,
            "b": topic,
            "c": "TBW102",  # of this topic a broker makes those that it does not know; with so many queues:
            "d": "4",
            "f": "0",  # flags of the system: not compressed, no transaction
            "g": str(time.time_ns() // 1_000_000),  # when the message was made
            "h": "0",  # flags of the application
            "i": properties,
            "j": "0",  # how often it was consumed in vain
            "k": "false",  # whether it belongs to a unit
            "m": "false",  # whether it is a batch
        }

    async def _send_to(self, queue: MessageQueue, header: dict[str, str], body: bytes, key: str) -> Receipt:
        """Send to one broker; raises OSError and BrokerRefused, which the policy judges."""
        broker = await self._connection(queue)
        command = request(RequestCode.SEND_MESSAGE_V2, {**header, "e": str(queue.queue_id)}, body=body)
        answer = await broker.invoke(command, deadline_s=DEADLINE_S)  # the attempt ends sooner
        if answer.code != ResponseCode.SUCCESS and answer.code not in NOT_STORED_CODES:
            raise BrokerRefused(answer.code, answer.remark or "")
        stored = answer.ext_fields or {}
        return Receipt(
            message_id=key,
            broker_name=queue.broker_name,
            queue_id=int(stored["queueId"]),
            offset=int(stored["queueOffset"]),
            code=answer.code,
        )

    async def _connection(self, queue: MessageQueue) -> BrokerClient:
        """Return the connection to a broker; a broker closes one that was idle for two minutes."""
        async with self._connecting[queue.address]:
            broker = self._brokers.get(queue.address)
            if broker is None or broker.is_closed:
                broker = await BrokerClient.connect(
                    queue.host, queue.port, deadline_s=DEADLINE_S, access=self._access
                )
                self._brokers[queue.address] = broker
            return broker


class UniqueKeys:
    """Makes keys as RocketMQ's Java client: host, process, maker, time, number (MessageClientIDSetter)."""

    def __init__(self) -> None:
        self._maker = own_address() + (os.getpid() & 0xFFFF).to_bytes(2) + secrets.token_bytes(4)
        self._count = itertools.count()

    def __next__(self) -> str:
        now = time.time()
        day = time.localtime(now)
        month = time.mktime((day.tm_year, day.tm_mon, 1, 0, 0, 0, 0, 0, -1))
        age = int((now - month) * 1000).to_bytes(4)
        count = (next(self._count) & 0xFFFF).to_bytes(2)
        return (self._maker + age + count).hex().upper()


def own_address() -> bytes:
    """Return the address by which this host would call others, or four random bytes; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return secrets.token_bytes(4)
        return socket.inet_aton(probe.getsockname()[0])


def encode_properties(properties: Mapping[str, str]) -> str:
    """Return properties as a message carries them; raises ValueError for what would end one too early."""
    if any(sign in text for pair in properties.items() for text in pair for sign in "\x01\x02"):
        raise ValueError("a property cannot contain the characters 1 and 2, which separate properties")
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())


async def main(url: str, topic: str, count: int, in_flight: int) -> int:
    """Send messages, until told to stop by SIGTERM or ctrl-C; return the status of the process."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    numbers, failed = iter(range(count)), 0

    async def send_some() -> None:
        nonlocal failed
        while not stopped.is_set() and (number := next(numbers, None)) is not None:
            name = f"message-{number}"
            message = Message(topic=topic, body=name.encode(), tag="example", keys=(name,))
            try:
                print(await producer.send(message))
            except RegistryError as error:
                failed += 1
                print(f"{name}: {error}", file=sys.stderr)

    async with AsyncRouteClient.from_url(url) as routes, Producer(routes) as producer:
        await asyncio.gather(*(send_some() for _ in range(in_flight)))
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Send messages to RocketMQ.")
    parser.add_argument("--redis", required=True, metavar="URL")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=1, help="how many to send at the same time")
    arguments = parser.parse_args()
    sys.exit(asyncio.run(main(arguments.redis, arguments.topic, arguments.count, arguments.in_flight)))
