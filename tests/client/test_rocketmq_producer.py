"""The producer of the examples, against brokers that speak RocketMQ's protocol in this event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from examples import rocketmq_producer
from examples.rocketmq_producer import Message, Producer, UniqueKeys, encode_properties, own_address
from sharedroutes.client import NOT_STORED_CODES, RETRYABLE_CODES, AsyncRouteClient, AttemptsFailed, NoRoute
from sharedroutes.client.errors import BrokerRefused
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from sharedroutes.remoting import Credentials, LanguageCode, RemotingCommand, RequestCode, response_to
from sharedroutes.remoting.broker.client import Access
from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.support import await_until

ROOT: Final = Path(__file__).resolve().parents[2]
SEND: Final = RequestCode.SEND_MESSAGE_V2
TOO_LARGE: Final = 13
HELLO: Final = Message(topic="orders", body=b"hello")


class StoringBroker(SpeakingBroker):
    """Stores what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[RemotingCommand] = []
        self.code = 0

    def answer(self, command: RemotingCommand) -> RemotingCommand:
        """Answer as a broker of 5.3.3."""
        if command.code != SEND or SEND in self.refusals or self._refusal(command):
            return super().answer(command)
        self.stored.append(command)
        fields = {"msgId": "7F000001", "queueId": command.ext_field("e") or ""}
        fields |= {
            "queueOffset": str(len(self.stored) - 1),
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
        }
        return response_to(command, self.code, fields, language=LanguageCode.JAVA)


def properties_of(command: RemotingCommand) -> dict[str, str]:
    """Return a message's properties as a broker reads them (RocketMQ: string2messageProperties)."""
    text = command.ext_field("i") or ""
    return dict(pair.split("\x01") for pair in text.split("\x02") if pair)


@asynccontextmanager
async def producing(redis_url: str) -> AsyncIterator[Producer]:
    async with AsyncRouteClient.from_url(redis_url) as routes, Producer(routes) as producer:
        yield producer


@pytest.fixture(autouse=True)
def _with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the attempts of a busy machine end in time."""
    monkeypatch.setattr(rocketmq_producer, "DEADLINE_S", 15.0)
    policy = replace(rocketmq_producer.POLICY, attempt_timeout_s=4.0, deadline_s=15.0)
    monkeypatch.setattr(rocketmq_producer, "POLICY", policy)


@asynccontextmanager
async def brokers(agent: RouteStore, count: int) -> AsyncIterator[list[StoringBroker]]:
    """Run brokers that hold `orders`, with a queue each."""
    async with AsyncExitStack() as stack:
        started = [await stack.enter_async_context(StoringBroker()) for _ in range(count)]
        for broker, letter in zip(started, "abc", strict=False):
            topics = [TopicConfig("orders", read_queue_nums=1, write_queue_nums=1)]
            await asyncio.to_thread(agent.register, Broker(f"broker-{letter}", broker.address), topics)
        yield started


async def test_a_broker_gets_the_frame_that_the_java_client_sends(agent: RouteStore, redis_url: str) -> None:
    before = time.time_ns() // 1_000_000
    message = replace(HELLO, tag="paid", keys=("order-1", "order-2"), properties={"region": "Zürich"})
    async with brokers(agent, 1) as (broker,), producing(redis_url) as producer:
        receipt = await producer.send(message)
    (command,) = broker.stored
    assert (command.code, command.flag, command.body) == (310, 0, b"hello")
    header = dict(command.ext_fields or {})
    assert before <= int(header.pop("g")) <= time.time_ns() // 1_000_000
    assert properties_of(command) == {
        "UNIQ_KEY": receipt.message_id,
        "KEYS": "order-1 order-2",
        "TAGS": "paid",
        "region": "Zürich",
    }
    del header["i"]
    assert header == {"a": "python-producer", "b": "orders", "c": "TBW102", "d": "4", "e": "0"} | {
        "f": "0",
        "h": "0",
        "j": "0",
        "k": "false",
        "m": "false",
    }
    assert (receipt.broker_name, receipt.queue_id, receipt.offset, receipt.code) == ("broker-a", 0, 0, 0)


async def test_sends_of_any_number_share_one_connection_to_each_broker(
    agent: RouteStore, redis_url: str
) -> None:
    async with brokers(agent, 2) as both, producing(redis_url) as producer:
        receipts = await asyncio.gather(*(producer.send(HELLO) for _ in range(40)))
        receipts += [await producer.send(HELLO) for _ in range(10)]
        assert [broker.accepted for broker in both] == [1, 1]
    assert sum(len(broker.stored) for broker in both) == 50
    assert len({receipt.message_id for receipt in receipts}) == 50


async def test_a_connection_that_a_broker_has_closed_is_opened_anew(
    agent: RouteStore, redis_url: str
) -> None:
    async with brokers(agent, 1) as (broker,), producing(redis_url) as producer:
        await producer.send(HELLO)
        (link,) = producer._brokers.values()
        broker.hang_up()
        await asyncio.wait_for(link.closed(), 10)
        await producer.send(HELLO)
        assert (len(broker.stored), broker.asked[SEND], broker.accepted) == (2, 2, 2)


@pytest.mark.parametrize("code", sorted(RETRYABLE_CODES))
async def test_a_broker_that_refuses_as_no_other_might_is_left_alone(
    agent: RouteStore, redis_url: str, code: int
) -> None:
    async with brokers(agent, 2) as (bad, good), producing(redis_url) as producer:
        bad.refusals[SEND] = (code, "not now")
        receipts = [await producer.send(HELLO) for _ in range(6)]
        assert {receipt.broker_name for receipt in receipts} == {"broker-b"}
        assert (bad.asked[SEND], len(good.stored)) == (1, 6)


async def test_a_message_that_no_broker_would_take_is_sent_once(agent: RouteStore, redis_url: str) -> None:
    async with brokers(agent, 2) as both, producing(redis_url) as producer:
        for broker in both:
            broker.refusals[SEND] = (TOO_LARGE, "the message is too large")
        with pytest.raises(BrokerRefused, match="too large") as refused:
            await producer.send(HELLO)
        assert refused.value.code == TOO_LARGE
        assert sum(broker.asked[SEND] for broker in both) == 1


@pytest.mark.parametrize("code", sorted(NOT_STORED_CODES))
async def test_a_broker_that_stores_less_safely_counts_only_if_no_other_does_better(
    agent: RouteStore, redis_url: str, code: int
) -> None:
    async with brokers(agent, 2) as (less_safe, good), producing(redis_url) as producer:
        less_safe.code = code
        receipts = [await producer.send(HELLO) for _ in range(4)]
        assert {(receipt.broker_name, receipt.code) for receipt in receipts} == {("broker-b", 0)}
        assert len(less_safe.stored) > 1  # its turn comes again: it is not to blame
        good.code = code
        assert (await producer.send(HELLO)).code == code


async def test_a_broker_that_dies_with_messages_under_way_costs_none(
    agent: RouteStore, redis_url: str
) -> None:
    async with brokers(agent, 2) as (dying, good), producing(redis_url) as producer:
        await producer.send(HELLO)
        await producer.send(HELLO)
        dying.hang()
        messages = [replace(HELLO, body=b"%d" % number) for number in range(30)]
        sends = [asyncio.create_task(producer.send(message)) for message in messages]
        await await_until(lambda: dying.asked[SEND] > 10, description="messages are under way")
        await dying.die()
        receipts = await asyncio.gather(*sends)
    stored = {properties_of(command)["UNIQ_KEY"]: command.body for command in good.stored[1:]}
    sent = {receipt.message_id: message.body for receipt, message in zip(receipts, messages, strict=True)}
    assert stored == sent
    assert len(good.stored) == 31  # none of them twice


async def test_a_broker_with_users_is_sent_what_one_of_them_has_signed(
    agent: RouteStore, redis_url: str
) -> None:
    access = Access()
    access.credentials = Credentials("service", "its secret")
    async with brokers(agent, 1) as (broker,), AsyncRouteClient.from_url(redis_url) as routes:
        broker.users = {"service": "its secret"}
        async with Producer(routes, access=access) as producer:
            assert (await producer.send(HELLO)).code == 0
        async with Producer(routes) as producer:
            with pytest.raises(AttemptsFailed, match="username cannot be null"):
                await producer.send(HELLO)


async def test_when_no_broker_takes_a_message_the_causes_are_told(agent: RouteStore, redis_url: str) -> None:
    async with brokers(agent, 2) as (dead, busy), producing(redis_url) as producer:
        await dead.die()
        busy.refusals[SEND] = (2, "system busy")
        with pytest.raises(AttemptsFailed) as failed:
            await producer.send(HELLO)
        assert {failure.broker_name for failure in failed.value.failures} == {"broker-a", "broker-b"}
        with pytest.raises(NoRoute):
            await producer.send(replace(HELLO, topic="of-nobody"))


def test_keys_have_the_parts_that_javas_tools_read() -> None:
    keys = UniqueKeys()
    made = [bytes.fromhex(next(keys)) for _ in range(70_000)]
    first = made[0]
    assert len(first) == 16
    assert first[:4] == own_address() or first[:4] != made[-1][:4]
    assert int.from_bytes(first[4:6]) == os.getpid() & 0xFFFF
    now = time.localtime()
    began = time.mktime((now.tm_year, now.tm_mon, 1, 0, 0, 0, 0, 0, -1))
    assert abs(began + int.from_bytes(first[10:14]) / 1000 - time.time()) < 30
    assert len(set(made)) == len(made)
    assert not {key[:10] for key in made} & {bytes.fromhex(next(UniqueKeys()))[:10]}


@pytest.mark.parametrize("properties", [{"a": "b\x01"}, {"a\x02": "b"}], ids=repr)
def test_a_property_that_would_become_two_is_refused(properties: Mapping[str, str]) -> None:
    with pytest.raises(ValueError, match="separate properties"):
        encode_properties(properties)


async def started(redis_url: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start the example as a program."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-u",
        str(ROOT / "examples" / "rocketmq_producer.py"),
        *("--redis", redis_url, "--topic", "orders", *arguments),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_the_program_sends_so_many(agent: RouteStore, redis_url: str) -> None:
    async with brokers(agent, 2) as both:
        program = await started(redis_url, "--count", "100", "--in-flight", "8")
        output, errors = await asyncio.wait_for(program.communicate(), 60)
    assert (program.returncode, errors) == (0, b"")
    assert len(output.splitlines()) == 100
    stored = [command for broker in both for command in broker.stored]
    assert {command.body for command in stored} == {b"message-%d" % number for number in range(100)}
    assert all(properties_of(command)["UNIQ_KEY"].encode() in output for command in stored)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
async def test_the_program_ends_its_sends_when_told_to_stop(
    agent: RouteStore, redis_url: str, signal_number: signal.Signals
) -> None:
    async with brokers(agent, 1) as (broker,):
        broker.late_s = 0.02
        program = await started(redis_url, "--count", "1000000", "--in-flight", "4")
        await await_until(lambda: broker.stored, timeout_s=60, description="messages arrive")
        program.send_signal(signal_number)
        output, errors = await asyncio.wait_for(program.communicate(), 60)
    assert (program.returncode, errors) == (0, b"")
    assert len(output.splitlines()) == len(broker.stored)  # what was sent was answered


async def test_the_program_says_what_it_could_not_send(redis_url: str) -> None:
    program = await started(redis_url, "--count", "2")
    output, errors = await asyncio.wait_for(program.communicate(), 60)
    assert (program.returncode, output) == (1, b"")
    assert errors.count(b"no route") == 2
