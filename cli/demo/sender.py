"""A client that sends messages all the time, as a user of sharedroutes would, and records how it went."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType
from typing import Final, Self

from ...client import RouteClient
from ...registry import RegistryError
from .connections import Connections
from .measure import Message, Try
from .scenario import TOPIC, Settings

_RETRIES: Final = 2


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        self._connections.close()

    def check(self) -> None:
        """Raise what ended the thread early, if it has."""
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
