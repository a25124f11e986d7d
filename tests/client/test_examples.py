"""The examples, against brokers on loopback that work, refuse, hang, hang up and are gone."""

from __future__ import annotations

import asyncio
import itertools
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Final, TypeAlias

import pytest

from examples import asyncio_streams, cluster_first, plain_socket, your_callable
from sharedroutes.client import AsyncRouteClient, AttemptsFailed, NoRoute, RetryPolicy, RouteClient
from sharedroutes.client.errors import BrokerRefused
from sharedroutes.registry import Broker, RouteStore, TopicConfig
from tests.support import wait_until

GOOD: Final = "0 stored"
BUSY: Final = "2 busy"
TOO_LARGE: Final = "13 too large"
HANG: Final = "hang"
HANG_UP: Final = ""
GONE: Final = "gone"

Start: TypeAlias = Callable[..., list["LineBroker"]]
Sender: TypeAlias = Callable[[str], str]


class LineBroker(socketserver.ThreadingTCPServer):
    """Answers every line with the same one; keeps what it was sent."""

    daemon_threads = True

    def __init__(self, answer: str) -> None:
        super().__init__(("127.0.0.1", 0), LineHandler)
        self.answer = answer
        self.lines: list[str] = []
        self.ending = threading.Event()

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.server_address)


class LineHandler(socketserver.StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        assert isinstance(self.server, LineBroker)
        self.server.lines.append(self.rfile.readline().decode().strip())
        if self.server.answer == HANG:
            self.server.ending.wait()
        elif self.server.answer != HANG_UP:
            self.wfile.write(f"{self.server.answer}\n".encode())


@contextmanager
def running(broker: LineBroker) -> Iterator[None]:
    thread = threading.Thread(target=broker.serve_forever, args=(0.005,))
    thread.start()
    try:
        yield
    finally:
        broker.ending.set()
        broker.shutdown()
        thread.join()


@pytest.fixture
def start(agent: RouteStore) -> Iterator[Start]:
    """Return a function (answer, ...) -> brokers that hold `orders`, with a queue each."""
    with ExitStack() as stack:

        def make(*answers: str) -> list[LineBroker]:
            brokers = []
            for answer, letter in zip(answers, "abc", strict=False):
                broker = stack.enter_context(LineBroker(answer))
                if answer == GONE:
                    broker.server_close()
                else:
                    stack.enter_context(running(broker))
                agent.register(
                    Broker(f"broker-{letter}", broker.address),
                    [TopicConfig("orders", read_queue_nums=1, write_queue_nums=1)],
                )
                brokers.append(broker)
            return brokers

        yield make


def with_time(policy: RetryPolicy) -> RetryPolicy:
    """Return a policy that waits for an answer on a busy machine, and for all that hang."""
    return replace(policy, attempt_timeout_s=1.5, deadline_s=15.0)


@pytest.fixture(params=["plain socket", "asyncio streams"])
def send(request: pytest.FixtureRequest, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    """Return an example's way to send a message to `orders`, with time enough.

    Its client begins with the first message: to one that hears then that brokers have come, they are well.
    """
    if request.param == "plain socket":
        monkeypatch.setattr(plain_socket, "POLICY", with_time(plain_socket.POLICY))
        with closing(RouteClient.from_url(redis_url)) as routes:

            def send(message: str) -> str:
                routes.start()
                return plain_socket.send(routes, "orders", message)

            yield send
        return
    monkeypatch.setattr(asyncio_streams, "POLICY", with_time(asyncio_streams.POLICY))
    with asyncio.Runner() as runner:
        client = AsyncRouteClient.from_url(redis_url)

        async def send_in_task(message: str) -> str:
            await client.start()
            return await asyncio_streams.send(client, "orders", message)

        yield lambda message: runner.run(send_in_task(message))
        runner.run(client.aclose())


def test_a_message_reaches_a_broker_and_its_answer_comes_back(start: Start, send: Sender) -> None:
    (broker,) = start(GOOD)
    assert send("hello") == "stored"
    assert broker.lines == ["orders 0 hello"]


@pytest.mark.parametrize("bad", [BUSY, HANG, HANG_UP, GONE])
def test_a_broker_that_fails_does_not_cost_a_message(start: Start, send: Sender, bad: str) -> None:
    failing, good = start(bad, GOOD)
    assert [send(f"m{n}") for n in range(4)] == ["stored"] * 4  # each broker's turn comes, and one isolates
    assert good.lines == [f"orders 0 m{n}" for n in range(4)]
    if bad != GONE:
        wait_until(lambda: failing.lines, description="the failing broker was tried")
    assert len(failing.lines) == (bad != GONE)


def test_when_no_broker_takes_a_message_all_are_named(start: Start, send: Sender) -> None:
    start(BUSY, HANG_UP, GONE)
    with pytest.raises(AttemptsFailed) as failed:
        send("hello")
    assert {failure.broker_name for failure in failed.value.failures} == {"broker-a", "broker-b", "broker-c"}


def test_a_message_that_no_broker_would_take_is_sent_once(start: Start, send: Sender) -> None:
    brokers = start(TOO_LARGE, TOO_LARGE)
    with pytest.raises(BrokerRefused, match="too large"):
        send("hello")
    assert sum(len(broker.lines) for broker in brokers) == 1


def test_a_topic_that_nobody_holds_is_no_route(start: Start, send: Sender) -> None:
    with pytest.raises(NoRoute):
        send("hello")


@pytest.mark.parametrize(
    "error",
    [your_callable.VendorError(503), your_callable.VendorTimeout(), ConnectionResetError()],
    ids=repr,
)
def test_somebody_elses_function_is_called_for_another_broker(
    start: Start, redis_url: str, error: Exception
) -> None:
    start(GOOD, GOOD)
    called: list[tuple[str, bytes]] = []

    def vendor_send(address: str, payload: bytes, timeout_s: float | None) -> str:
        assert timeout_s is not None
        assert 0 < timeout_s <= 3.0
        called.append((address, payload))
        if len(called) == 1:
            raise error
        return "receipt"

    with RouteClient.from_url(redis_url) as routes:
        assert your_callable.send(routes, "orders", b"hello", vendor_send) == "receipt"
    assert len({address for address, _ in called}) == len(called) == 2


def test_what_somebody_elses_function_does_not_blame_on_the_broker_passes(
    start: Start, redis_url: str
) -> None:
    start(GOOD, GOOD)
    calls = itertools.count()

    def vendor_send(_: str, __: bytes, ___: float | None) -> str:
        next(calls)
        raise your_callable.VendorError(400)

    with RouteClient.from_url(redis_url) as routes, pytest.raises(your_callable.VendorError):
        your_callable.send(routes, "orders", b"hello", vendor_send)
    assert next(calls) == 1


# --- a strategy: one cluster takes the messages while it is large enough ------------------------------------


def register_clusters(store: RouteStore, **clusters: str) -> None:
    for place, (name, cluster) in enumerate(clusters.items(), 1):
        one = Broker(name, f"10.0.0.{place}:10911", cluster=cluster)
        store.register(one, [TopicConfig("orders", read_queue_nums=2, write_queue_nums=2)])


def chosen(url: str, cluster: str) -> set[str]:
    with cluster_first.client(url, cluster) as routes:
        return {routes.select_queue("orders").broker_name for _ in range(12)}


def test_the_cluster_takes_all_messages_while_it_has_enough_brokers(
    agent: RouteStore, redis_url: str
) -> None:
    register_clusters(agent, a="old", b="old", c="new", d="new")
    assert chosen(redis_url, "new") == {"c", "d"}


def test_others_step_in_when_too_few_are_left(agent: RouteStore, redis_url: str) -> None:
    register_clusters(agent, a="old", b="old", c="new")
    assert chosen(redis_url, "new") == {"a", "b", "c"}


def test_a_cluster_without_brokers_is_no_fault(agent: RouteStore, redis_url: str) -> None:
    register_clusters(agent, a="old")
    assert cluster_first.ClusterFirst("new").enough == 2
    assert chosen(redis_url, "new") == {"a"}
