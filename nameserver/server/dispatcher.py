"""Has requests answered: at once where the service can, else in tasks that may overtake each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from dataclasses import replace
from typing import Final, Protocol

from ...registry.concurrency_async import is_cancelled
from ...remoting import (
    LanguageCode,
    RemotingCommand,
    ResponseCode,
    SerializeType,
    encode,
    response_to,
)
from .connection import Connection, Service
from .limits import OTHER_CODES, Counters, Limits

_LOG: Final = logging.getLogger("sharedroutes.nameserver")

_RESPONSE: Final = 1
_ONEWAY: Final = 2
_OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"
"""RocketMQ's own words."""

_MOST_REMARK: Final = 1_000


class Asking(Connection, Protocol):
    """A connection whose requests are answered."""

    has_failed: bool
    """Whether one of them has ended in an unexpected error."""

    def begin_request(self) -> None:
        """Count a request that waits for the store."""

    def end_request(self, frame: bytes | None) -> None:
        """Send the answer of such a request; None = it has none."""


class Dispatcher:
    """Hands the requests of all connections to the service."""

    def __init__(self, service: Service, limits: Limits, counters: Counters) -> None:
        self._service = service
        self._most = limits.in_flight
        self._counters = counters
        self.tasks: set[asyncio.Task[None]] = set()
        """The requests in flight, those of connections that have ended among them."""

    def answer(self, request: RemotingCommand, connection: Asking) -> bytes | None:
        """Return the frame of the answer if it is there; else it follows later, or there is none."""
        if request.flag & _RESPONSE:  # nobody here has asked
            return None
        counted = self._counters.requests
        counted[request.code if request.code in counted else OTHER_CODES] += 1
        try:
            answer = self._service.answer(request, connection)
        except Exception as error:  # noqa: BLE001 - a fault of one request must not end the others
            return self._failed(request, connection, error)
        if isinstance(answer, bytes):
            return None if request.flag & _ONEWAY else answer
        return None if answer is None else self._start(request, connection, answer)

    def _start(
        self,
        request: RemotingCommand,
        connection: Asking,
        answer: Awaitable[RemotingCommand | None],
    ) -> bytes | None:
        """Wait for an answer in a task; return a refusal when too many do."""
        counters = self._counters
        if counters.in_flight >= self._most:
            _discard(answer)
            counters.busy += 1
            return self._refusal(request, ResponseCode.SYSTEM_BUSY, _OVERLOAD)
        counters.in_flight += 1
        connection.begin_request()
        task = asyncio.get_running_loop().create_task(self._finish(request, connection, answer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return None

    async def _finish(
        self,
        request: RemotingCommand,
        connection: Asking,
        answer: Awaitable[RemotingCommand | None],
    ) -> None:
        frame: bytes | None = None
        try:
            frame = self._encoded(request, await answer)
        except (Exception, asyncio.CancelledError) as error:  # the latter: of what it awaits
            if is_cancelled():
                raise
            frame = self._failed(request, connection, error)
        finally:
            self._counters.in_flight -= 1
            connection.end_request(frame)

    def _encoded(self, request: RemotingCommand, answer: RemotingCommand | None) -> bytes | None:
        if answer is None or request.flag & _ONEWAY:
            return None
        # JSON even to a binary request: as RocketMQ 5 answers, and everybody reads it.
        flag = answer.flag | _RESPONSE
        return encode(replace(answer, opaque=request.opaque, flag=flag, serialize_type=SerializeType.JSON))

    def _failed(self, request: RemotingCommand, connection: Asking, error: BaseException) -> bytes | None:
        """Return the answer that names an unexpected error; of each connection the first one is logged."""
        self._counters.failures += 1
        if not connection.has_failed:
            connection.has_failed = True
            text = "failed to answer request %d of %s; further failures of this connection are only counted"
            _LOG.error(text, request.code, connection.peer, exc_info=error)
        remark = f"{type(error).__name__}: {error}"[:_MOST_REMARK].encode("utf-8", "replace").decode()
        return self._refusal(request, ResponseCode.SYSTEM_ERROR, remark)

    def _refusal(self, request: RemotingCommand, code: ResponseCode, remark: str) -> bytes | None:
        refusal = response_to(request, code, remark=remark, language=LanguageCode.JAVA)
        return self._encoded(request, refusal)


def _discard(answer: Awaitable[RemotingCommand | None]) -> None:
    """End what was not begun, so that nobody reports that it was never awaited."""
    if asyncio.iscoroutine(answer):
        answer.close()
    elif isinstance(answer, asyncio.Future):
        answer.cancel()
