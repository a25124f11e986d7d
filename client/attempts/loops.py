"""The attempts at one operation as a loop, for threads and for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from ...registry.model import MessageQueue
from .log import Answer, AttemptLog, Begun

Q = TypeVar("Q")

Select: TypeAlias = Callable[[frozenset[str], float], MessageQueue]
"""Returns a queue, of another broker than these if there is one; waits until then at most (monotonic)."""

SelectLater: TypeAlias = Callable[[frozenset[str], float], Awaitable[MessageQueue]]
"""The same for asyncio."""


def choose(log: AttemptLog, select: Select, now: float) -> MessageQueue:
    """Return the queue to try next."""
    until = log.until(now)
    queue = select(log.tried, until)
    avoid = log.rather_avoid(queue)
    return queue if avoid is None else select(avoid, until)


async def choose_later(log: AttemptLog, select: SelectLater, now: float) -> MessageQueue:
    """Return the queue to try next."""
    until = log.until(now)
    queue = await select(log.tried, until)
    avoid = log.rather_avoid(queue)
    return queue if avoid is None else await select(avoid, until)


class _Timed(Generic[Q]):
    """One attempt: what it may use, and when it began."""

    def __init__(self, log: AttemptLog, select: Callable[[frozenset[str], float], Q]) -> None:
        self._log = log
        self._select = select
        self._begun: Begun | None = None
        self._answer: Answer | None = None
        self.number = log.number
        """1 for the first attempt."""

    @property
    def timeout_s(self) -> float | None:
        """Seconds that the block may still take, for a socket: never 0, None without a limit.

        Raises RuntimeError before the block.
        """
        return self._under_way().timeout_s(monotonic())

    def not_stored(self, answer: Any) -> None:
        """Say that the broker answered, and did not store the message as it should; the block goes on.

        Another broker is tried, unless the policy says otherwise; nobody is blamed. When no attempt goes
        well, the loop ends without an error, and its `answer` is the last one.
        Source: DefaultMQProducer, retryAnotherBrokerWhenNotStoreOK. Raises RuntimeError before the block.
        """
        self._under_way()
        self._answer = Answer(answer)

    def _begin(self, queue: MessageQueue) -> MessageQueue:
        self._begun = self._log.begin(queue, monotonic())
        return queue

    def _end(self, error: BaseException | None, *, overdue: bool = False) -> bool:
        return self._log.leave(self._under_way(), error, monotonic(), overdue=overdue, answer=self._answer)

    def _under_way(self) -> Begun:
        if self._begun is None:
            raise RuntimeError("the attempt has not begun: write `with attempt as queue:`")
        return self._begun


class Attempt(_Timed[MessageQueue]):
    """One attempt: `with attempt as queue:`; an error that may be retried ends the block, not the loop."""

    def __enter__(self) -> MessageQueue:
        self._log.enter()
        queue = choose(self._log, self._select, monotonic())
        pause_s = self._log.pause_s(queue, monotonic())
        if pause_s:
            sleep(pause_s)
        return self._begin(queue)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._end(error)


class AsyncAttempt(_Timed[Awaitable[MessageQueue]]):
    """One attempt: `async with attempt as queue:`; as Attempt, and ended when its time is up."""

    _limit: asyncio.Timeout

    async def __aenter__(self) -> MessageQueue:
        self._log.enter()
        queue = await choose_later(self._log, self._select, monotonic())
        pause_s = self._log.pause_s(queue, monotonic())
        if pause_s:
            await asyncio.sleep(pause_s)
        self._begin(queue)
        self._limit = asyncio.timeout(self.timeout_s)
        await self._limit.__aenter__()
        return queue

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:  # of the limit: the block's own errors are not raised here
            overdue = TimeoutError("the time of the attempt was up")
            overdue.__cause__ = error  # tells where in the block
            return self._end(overdue, overdue=True)
        return self._end(error)


class _Loop:
    """The attempts at one operation."""

    def __init__(self, log: AttemptLog) -> None:
        self._log = log

    @property
    def answer(self) -> Any:
        """The last answer that not_stored() was told, if no later attempt went well; else None."""
        return None if self._log.answer is None else self._log.answer.value


class Attempts(_Loop, Iterator[Attempt]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __init__(self, log: AttemptLog, select: Select) -> None:
        super().__init__(log)
        self._select = select

    def __next__(self) -> Attempt:
        if not self._log.next(monotonic()):
            raise StopIteration
        return Attempt(self._log, self._select)


class AsyncAttempts(_Loop, AsyncIterator[AsyncAttempt]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __init__(self, log: AttemptLog, select: SelectLater) -> None:
        super().__init__(log)
        self._select = select

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncAttempt:
        if not self._log.next(monotonic()):
            raise StopAsyncIteration
        return AsyncAttempt(self._log, self._select)
