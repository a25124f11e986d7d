"""A service that sends all the time: python -m tests.faults.matrix.sender KIND NAME URL FOLDER WHERE.

KIND is `asyncio` or `threads`, WHERE `primary` or `replica`. FOLDER has the folders `history` and
`snapshots/NAME`. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from sharedroutes.client import (
    AsyncRouteClient,
    AttemptsFailed,
    BrokerRefused,
    ClientConfig,
    MessageQueue,
    NoRoute,
    RouteClient,
)
from sharedroutes.client import Route as ClientRoute
from sharedroutes.client.observers.state import Health
from sharedroutes.daemon.logs import LogOutput
from sharedroutes.registry import RegistryError, TopicRoute
from sharedroutes.remoting import FrameError, RemotingCommand, ResponseCode, request
from sharedroutes.remoting.broker.client import BrokerClient
from sharedroutes.remoting.codes import RequestCode
from tests.faults.checker.history import Lost, Replica, Route, Sent, Started, Writer, now_us
from tests.faults.matrix.settings import (
    ALSO_SENT_TO,
    POLICY,
    REFRESH_S,
    SELDOM_S,
    SENT_TO,
    TOPICS,
    client_config,
    snapshot_of,
)
from tests.nameserver.running import Peer

_MESSAGE_S: Final = 0.1
_ALSO: Final = 3
"""One of so many messages is of ALSO_SENT_TO: so often that each queue has its turn."""

_SAY_S: Final = 1.0
_LOOK_S: Final = 0.05
_NOBODY_HAS_IT: Final = "nobody-has-it"


def replicas_of(route: TopicRoute | None) -> tuple[Replica, ...] | None:
    """Return the brokers of a route as a history has them."""
    if route is None:
        return None
    return tuple(
        Replica(data.broker_name, broker_id, address)
        for data in route.broker_datas
        for broker_id, address in sorted(data.broker_addrs.items())
    )


def queues_of(route: TopicRoute | None) -> tuple[tuple[str, int], ...]:
    """Return how many queues each broker of a route has, as a history has it."""
    return tuple((row.broker_name, row.read_queue_nums) for row in route.queue_datas) if route else ()


class _Healthy(Protocol):
    """What clients of both kinds have."""

    def health(self) -> Health:
        """Return how far the view can be trusted."""


class Book:
    """What a client writes down of what it does and sees."""

    def __init__(self, client: _Healthy, history: Writer, name: str) -> None:
        self._client = client
        self._history = history
        self._begin = f"{name}-{os.getpid()}"
        self._messages = 0
        self._said_of = ""
        self._said_s = 0.0

    def is_to_say(self) -> bool:
        """Whether to write down what it says: each second, and when it has lost or found the store."""
        source, now_s = self._client.health().source, time.monotonic()
        if source == self._said_of and now_s < self._said_s + _SAY_S:
            return False
        self._said_of, self._said_s = source, now_s
        return True

    def next_message(self) -> tuple[str, str]:
        """Return the id of a new message, and its topic."""
        self._messages += 1
        topic = SENT_TO if self._messages % _ALSO else ALSO_SENT_TO
        return f"{self._begin}-{self._messages}", topic

    def says(self, topic: str, route: TopicRoute | None) -> None:
        """Write down what the client says of a topic."""
        health = self._client.health()
        stale, held = health.source != "live", health.held_brokers
        said = Route(topic=topic, brokers=replicas_of(route), queues=queues_of(route), stale=stale, held=held)
        age_s = route.age_s if isinstance(route, ClientRoute) else None
        age_ms = None if age_s is None else round(1_000 * age_s)
        self._history.write(replace(said, server=health.server, age_ms=age_ms))

    @contextmanager
    def attempt(self, message: str, number: int, queue: MessageQueue) -> Iterator[None]:
        """Write down how an attempt ends."""
        began_us, health, error = now_us(), self._client.health(), ""
        try:
            yield
        except BaseException as failure:
            error = repr(failure)
            raise
        finally:
            self._history.write(
                Sent(
                    message=message,
                    topic=queue.topic,
                    broker=queue.broker_name,
                    address=queue.address,
                    attempt=number,
                    ok=not error,
                    error=error,
                    began_us=began_us,
                    held=queue.broker_name in health.held_brokers,
                    stale=health.source != "live",
                )
            )

    def lost(self, message: str, topic: str, error: RegistryError) -> None:
        """Write down that no attempt succeeded."""
        self._history.write(Lost(message=message, topic=topic, error=repr(error)))


def _header(queue: MessageQueue) -> dict[str, str]:
    return {"a": "matrix", "b": queue.topic, "c": "TBW102", "d": "4", "e": str(queue.queue_id), "f": "0"}


class Connections:
    """A connection to each broker, for one thread."""

    def __init__(self) -> None:
        self._peers: dict[str, Peer] = {}

    def send(self, queue: MessageQueue, message: str, timeout_s: float | None) -> None:
        """Send and wait for the answer; raises OSError or EOFError, and then the connection is closed."""
        assert timeout_s is not None  # the policy has a deadline
        try:
            peer = self._peer(queue, timeout_s)
            peer.socket.settimeout(timeout_s)
            peer.send(RequestCode.SEND_MESSAGE_V2, _header(queue), message.encode())
            _check(peer.receive())
        except (OSError, EOFError):
            if (broken := self._peers.pop(queue.address, None)) is not None:
                broken.socket.close()
            raise

    def _peer(self, queue: MessageQueue, timeout_s: float) -> Peer:
        known = self._peers.get(queue.address)
        if known is not None and not _is_over(known):
            return known
        if known is not None:
            known.socket.close()
        self._peers[queue.address] = Peer((queue.host, queue.port), timeout_s)
        return self._peers[queue.address]


def _check(answer: RemotingCommand | None) -> None:
    if answer is None:
        raise EOFError("no receipt")
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerRefused(answer.code, answer.remark or "")


def _is_over(peer: Peer) -> bool:
    """Whether a connection was closed by its broker while nothing was sent: that says nothing of the next."""
    peer.socket.setblocking(False)  # noqa: FBT003 - a positional of the standard library's
    try:
        return not peer.socket.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        peer.socket.setblocking(True)  # noqa: FBT003


def send_in_threads(url: str, config: ClientConfig, history: Writer, name: str) -> None:
    """Send from one thread, and write down from others what the client says, until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    connections = Connections()
    with RouteClient.from_url(url, config) as client:
        book = Book(client, history, name)

        def say() -> None:
            while not over.wait(_LOOK_S):
                for topic in TOPICS if book.is_to_say() else ():  # asks nobody: a look shows all leases
                    book.says(topic, client.known_route(topic))

        client.on_change(lambda change: book.says(change.topic, change.route))
        threading.Thread(target=say, name="says", daemon=True).start()
        while not over.wait(_MESSAGE_S):
            message, topic = book.next_message()
            try:
                for attempt in client.attempts(topic, policy=POLICY):
                    with attempt as queue, book.attempt(message, attempt.number, queue):
                        connections.send(queue, message, attempt.timeout_s)
            except (NoRoute, AttemptsFailed, RegistryError) as error:
                book.lost(message, topic, error)


class AsyncConnections:
    """A connection to each broker, for one task."""

    def __init__(self) -> None:
        self._clients: dict[str, BrokerClient] = {}

    async def send(self, queue: MessageQueue, message: str, timeout_s: float | None) -> None:
        """Send and wait for the answer; raises OSError, and then the connection is closed."""
        assert timeout_s is not None  # the policy has a deadline
        client = self._clients.get(queue.address)
        if client is None or client.is_closed:
            client = await BrokerClient.connect(queue.host, queue.port, deadline_s=timeout_s)
            self._clients[queue.address] = client
        command = request(RequestCode.SEND_MESSAGE_V2, _header(queue), body=message.encode())
        try:
            _check(await client.invoke(command, deadline_s=timeout_s))
        except (OSError, FrameError, asyncio.CancelledError):
            client.abort()
            raise


async def _say(client: AsyncRouteClient, book: Book) -> None:
    """Write down what the client says, and ask for what it does not know."""
    while True:
        for topic in TOPICS if book.is_to_say() else ():
            with suppress(RegistryError):
                book.says(topic, (await client.get([topic])).get(topic))
        await asyncio.sleep(_LOOK_S)


async def _ask(client: AsyncRouteClient) -> None:
    """Ask a store that is away: perhaps there is an answer before the client has read what the store lost."""
    while True:
        if client.health().source == "memory":
            with suppress(RegistryError):
                await client.get([_NOBODY_HAS_IT])
        await asyncio.sleep(_LOOK_S)


async def send_in_tasks(url: str, config: ClientConfig, history: Writer, name: str) -> None:
    """Send from one task, and write down from others what the client says, until SIGTERM."""
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    connections = AsyncConnections()
    async with AsyncRouteClient.from_url(url, config) as client:
        book = Book(client, history, name)

        await client.on_change(lambda change: book.says(change.topic, change.route))
        besides = [asyncio.create_task(does) for does in (_say(client, book), _ask(client))]
        while not over.is_set():
            message, topic = book.next_message()
            try:
                async for attempt in client.attempts(topic, policy=POLICY):
                    async with attempt as queue:
                        with book.attempt(message, attempt.number, queue):
                            await connections.send(queue, message, attempt.timeout_s)
            except (NoRoute, AttemptsFailed, RegistryError) as error:
                book.lost(message, topic, error)
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), _MESSAGE_S)
        for task in besides:
            task.cancel()


def main(kind: str, name: str, url: str, folder: str, where: str) -> None:
    """Send until SIGTERM."""
    snapshot = snapshot_of(Path(folder), name)
    refresh_s = SELDOM_S if kind == "threads" else REFRESH_S
    config = client_config(snapshot, "replica" if where == "replica" else "primary", refresh_s=refresh_s)
    with LogOutput("json", "info"), Writer(Path(folder, "history"), name, delays=name) as history:
        history.write(Started(pid=os.getpid(), has_snapshot=snapshot.exists()))
        if kind == "threads":
            send_in_threads(url, config, history, name)
        else:
            asyncio.run(send_in_tasks(url, config, history, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
