"""The client of the demo: sends messages all the time, as a user's program would, and records the outcome."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from time import monotonic
from typing import Final, NamedTuple, Self

from sharedroutes.client import NoRoute, RouteClient
from sharedroutes.registry import RegistryError

from .scenario import TOPIC, Settings

_RETRIES: Final = 2


class Try(NamedTuple):
    """One attempt to send one message; times are those of the monotonic clock."""

    message_id: int
    number: int
    """1 for the first attempt."""

    broker_name: str
    began_s: float
    ended_s: float
    failed: bool


class Message(NamedTuple):
    """One message, after its last attempt."""

    message_id: int
    began_s: float
    acknowledged_by: str
    """The broker that acknowledged it; empty = none did."""

    problem: str = ""
    """Why none did."""


class Sender:
    """Sends from a thread, for the length of a `with` block; its records are only ever appended to."""

    def __init__(self, client: RouteClient, settings: Settings) -> None:
        self.tries: list[Try] = []
        self.messages: list[Message] = []
        self._client = client
        self._interval_s = 1 / settings.messages_per_s
        self._connections = Connections(settings.send_timeout_s)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender")
        self._fault: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._connections.close()

    def check(self) -> None:
        """Raise the exception that ended the thread, if one did."""
        if self._fault is not None:
            raise self._fault

    def has_used(self, broker_name: str, since_s: float) -> bool:
        """Whether a broker has acknowledged a message since a time of the monotonic clock."""
        for one in reversed(self.tries):
            if one.ended_s < since_s:
                return False
            if one.broker_name == broker_name and not one.failed:
                return True
        return False

    def _run(self) -> None:
        due_s = monotonic()
        try:
            while not self._stopping.wait(max(0.0, due_s - monotonic())):
                self._send(len(self.messages))
                # After a pause the rate goes on from there: no burst makes up for it.
                due_s = max(due_s + self._interval_s, monotonic())
        except BaseException as error:  # noqa: BLE001 - check() raises it in the main thread
            self._fault = error

    def _send(self, message_id: int) -> None:
        began_s, acknowledged_by, problem = monotonic(), "", ""
        try:
            for attempt in self._client.attempts(TOPIC, retries=_RETRIES):
                with attempt as queue, self._record(message_id, attempt.number, queue.broker_name):
                    self._connections.send(queue.address, message_id, f"{TOPIC} queue {queue.queue_id}")
                    acknowledged_by = queue.broker_name
        except RegistryError as error:
            problem = str(error)
        self.messages.append(Message(message_id, began_s, acknowledged_by, problem))

    @contextmanager
    def _record(self, message_id: int, number: int, broker_name: str) -> Iterator[None]:
        began_s, failed = monotonic(), True
        try:
            yield
            failed = False
        finally:
            self.tries.append(Try(message_id, number, broker_name, began_s, monotonic(), failed))


def routed(client: RouteClient) -> set[str]:
    """Return the brokers that a client would send to."""
    try:
        return {row.broker_name for row in client.route(TOPIC).queue_datas}
    except NoRoute:
        return set()


class Connections:
    """One connection for each address, kept open as long as it works; for one thread."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._open: dict[str, tuple[socket.socket, BufferedReader]] = {}

    def send(self, address: str, message_id: int, body: str) -> None:
        """Send a message and wait for its acknowledgement; after an OSError or EOFError hang up."""
        try:
            connection, answers = self._connection(address)
            connection.sendall(b"%d %s\n" % (message_id, body.encode()))
            _check(answers.readline(), message_id)
        except (OSError, EOFError):
            self._hang_up(address)
            raise

    def close(self) -> None:
        """Hang up everywhere."""
        for address in tuple(self._open):
            self._hang_up(address)

    def _connection(self, address: str) -> tuple[socket.socket, BufferedReader]:
        found = self._open.get(address)
        if found is not None and not select.select(found[:1], (), (), 0)[0]:
            return found
        # Something to read while nothing is awaited is the end of the connection. A broker that was started
        # again has the old address: the connection to its former life must not be taken for a failure of the
        # new one, which would then be left alone for a while.
        self._hang_up(address)
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=self._timeout_s)
        self._open[address] = connection, connection.makefile("rb")
        return self._open[address]

    def _hang_up(self, address: str) -> None:
        for part in self._open.pop(address, ()):
            part.close()


def _check(answer: bytes, message_id: int) -> None:
    if answer != b"%d\n" % message_id:
        raise EOFError(f"{answer!r} is no acknowledgement of message {message_id}")
