"""A broker that accepts connections and never answers does not cost a message; by real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Final, TypeAlias

import pytest

from sharedroutes.client import (
    ROCKETMQ_4_POLICY,
    ROCKETMQ_POLICY,
    AsyncRouteClient,
    AttemptsFailed,
    RetryPolicy,
    RouteClient,
)
from sharedroutes.registry import Broker, MessageQueue, RouteStore, TopicConfig

Send: TypeAlias = Callable[[str, RetryPolicy | None], bytes]

ANSWER: Final = b"stored\n"
POLICIES: Final = {"default": None, "RocketMQ 5": ROCKETMQ_POLICY, "RocketMQ 4": ROCKETMQ_4_POLICY}


class Brokers:
    """One broker that hangs and one that answers; both hold `orders`, with a queue each."""

    def __init__(self, agent: RouteStore) -> None:
        self.hanging = socket.create_server(("127.0.0.1", 0), backlog=16)  # the kernel accepts for it
        self.good = socket.create_server(("127.0.0.1", 0))
        for name, server in (("hanging", self.hanging), ("good", self.good)):
            address = "{}:{}".format(*server.getsockname())
            agent.register(Broker(name, address), [TopicConfig("orders", 1, 1)])
        self.thread = threading.Thread(target=self._answer)
        self.thread.start()

    def close(self) -> None:
        self.good.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.good.close()
        self.hanging.close()

    def was_tried(self) -> bool:
        """Whether somebody has connected to the broker that hangs."""
        self.hanging.settimeout(0.0)
        with suppress(BlockingIOError):
            self.hanging.accept()[0].close()
            return True
        return False

    def _answer(self) -> None:
        while True:
            try:
                connection, _ = self.good.accept()
            except OSError:
                return
            with connection:
                connection.recv(100)
                connection.sendall(ANSWER)


@pytest.fixture
def brokers(agent: RouteStore) -> Iterator[Brokers]:
    with closing(Brokers(agent)) as both:
        yield both


def exchange(queue: MessageQueue, timeout_s: float | None) -> bytes:
    host, _, port = queue.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(b"hello\n")
        return connection.recv(100)


def in_threads(url: str, policy: RetryPolicy | None) -> bytes:
    with RouteClient.from_url(url) as routes:
        for attempt in routes.attempts("orders", policy=policy):
            with attempt as queue:
                return exchange(queue, attempt.timeout_s)
    raise AssertionError("the loop ended without an answer")


def by_callbacks(url: str, policy: RetryPolicy | None) -> bytes:
    with RouteClient.from_url(url) as routes:
        sending = routes.sending("orders", policy=policy)
        while True:
            try:
                answer = exchange(sending.queue, sending.timeout_s)
            except OSError as error:
                following = sending.failed(error)
                assert following is not None
                sending = following
            else:
                assert sending.succeeded()
                return answer


def in_tasks(url: str, policy: RetryPolicy | None) -> bytes:
    async def send() -> bytes:
        async with AsyncRouteClient.from_url(url) as routes:
            async for attempt in routes.attempts("orders", policy=policy):
                async with attempt as queue:  # which ends it: no timeout is handed on
                    host, _, port = queue.address.rpartition(":")
                    reader, writer = await asyncio.open_connection(host, int(port))
                    try:
                        writer.write(b"hello\n")
                        return await reader.read(100)
                    finally:
                        writer.close()
        raise AssertionError("the loop ended without an answer")

    return asyncio.run(send())


def by_callbacks_in_tasks(url: str, policy: RetryPolicy | None) -> bytes:
    async def send() -> bytes:
        async with AsyncRouteClient.from_url(url) as routes:
            sending = await routes.sending("orders", policy=policy)
            while True:
                try:
                    answer = await asyncio.to_thread(exchange, sending.queue, sending.timeout_s)
                except OSError as error:
                    following = await sending.failed(error)
                    assert following is not None
                    sending = following
                else:
                    assert sending.succeeded()
                    return answer

    return asyncio.run(send())


WAYS: Final[list[Send]] = [in_threads, by_callbacks, in_tasks, by_callbacks_in_tasks]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("send", WAYS)
def test_a_send_reaches_another_broker_within_the_default_deadline(
    brokers: Brokers, redis_url: str, send: Send, policy: str
) -> None:
    tried = False
    for _ in range(50):  # each client begins at a random broker
        assert send(redis_url, POLICIES[policy]) == ANSWER
        if tried := brokers.was_tried():
            break
    assert tried


def test_one_broker_takes_all_the_time_if_the_policy_says_so_as_rocketmqs_default_does(
    brokers: Brokers, redis_url: str
) -> None:
    policy = RetryPolicy(deadline_s=0.3, attempt_timeout_s=0.3)

    def send_twice(routes: RouteClient) -> None:
        for _ in range(2):
            for attempt in routes.attempts("orders", policy=policy):
                with attempt as queue:
                    exchange(queue, attempt.timeout_s)

    with (
        RouteClient.from_url(redis_url) as routes,
        pytest.raises(AttemptsFailed, match="1 attempts") as failed,
    ):
        send_twice(routes)
    assert failed.value.failures[0].broker_name == "hanging"
