"""The attempts at one operation, as a loop or one by one for callbacks, for threads and for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

from ...registry.model import MessageQueue
from ..errors import NotStored
from .log import Answer, AttemptLog, Begun, Pick

Select: TypeAlias = Callable[[float], Pick]
"""Waits until the topic is known, until then at most (monotonic); returns what picks a queue of it."""

AsyncSelect: TypeAlias = Callable[[float], Awaitable[Pick]]
"""The same for asyncio."""

S = TypeVar("S")


class _Attempt(Generic[S]):
    """What attempts share, whatever tells their end."""

    def __init__(self, log: AttemptLog, select: S, begun: Begun | None = None) -> None:
        self._log = log
        self._select = select
        self._begun = begun
        self.number = log.number
        """1 for the first attempt."""

    @property
    def timeout_s(self) -> float | None:
        """Seconds that the attempt may still take, for a socket: never 0, None without a limit.

        Raises RuntimeError before the block.
        """
        return self._under_way().timeout_s(monotonic())

    def _under_way(self) -> Begun:
        if self._begun is None:
            raise RuntimeError("the attempt has not begun: write `with attempt as queue:`")
        return self._begun


class _Block(_Attempt[S]):
    """One attempt, which a `with` block makes."""

    _answer: Answer | None = None

    def not_stored(self, answer: Any) -> None:
        """Say that the broker answered, but did not store the message as it should; the block goes on.

        The broker is not blamed, and another one is tried unless the policy says otherwise. If no attempt
        succeeds, the loop ends without an error, and its `answer` is the last one.
        Source: DefaultMQProducer, retryAnotherBrokerWhenNotStoreOK. Raises RuntimeError before the block.
        """
        self._under_way()
        self._answer = Answer(answer)

    def _begin(self, queue: MessageQueue) -> MessageQueue:
        self._begun = self._log.begin(queue, monotonic())
        return queue

    def _end(self, error: BaseException | None, *, overdue: bool = False) -> bool:
        return self._log.leave(self._under_way(), error, monotonic(), overdue=overdue, answer=self._answer)


class Attempt(_Block[Select]):
    """One attempt: `with attempt as queue:`; an error that may be retried ends the block, not the loop."""

    def __enter__(self) -> MessageQueue:
        self._log.enter()
        queue = self._log.choose(self._select(self._log.until(monotonic())))
        pause_s = self._log.pause_s(queue, monotonic())
        if pause_s:
            sleep(pause_s)
        return self._begin(queue)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return self._end(error)


class AsyncAttempt(_Block[AsyncSelect]):
    """One attempt: `async with attempt as queue:`; as Attempt, but the block ends when its time is up."""

    _limit: asyncio.Timeout

    async def __aenter__(self) -> MessageQueue:
        self._log.enter()
        queue = self._log.choose(await self._select(self._log.until(monotonic())))
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


class _Loop(Generic[S]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __init__(self, log: AttemptLog, select: S) -> None:
        self._log = log
        self._select = select

    @property
    def answer(self) -> Any:
        """The last answer that not_stored() got, if no later attempt succeeded; else None."""
        return None if self._log.answer is None else self._log.answer.value


class Attempts(_Loop[Select], Iterator[Attempt]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __next__(self) -> Attempt:
        if not self._log.next(monotonic()):
            raise StopIteration
        return Attempt(self._log, self._select)


class AsyncAttempts(_Loop[AsyncSelect], AsyncIterator[AsyncAttempt]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncAttempt:
        if not self._log.next(monotonic()):
            raise StopAsyncIteration
        return AsyncAttempt(self._log, self._select)


class _Callback(_Attempt[S]):
    """One attempt whose end a callback reports; the first report counts, and no other; thread-safe."""

    def __init__(self, log: AttemptLog, select: S, begun: Begun) -> None:
        super().__init__(log, select, begun)
        self._open = threading.Lock()
        self.queue = begun.queue

    def succeeded(self) -> bool:
        """Report a good answer; False if the end of this attempt was reported before."""
        return self._is_first() and not self._log.leave(self._under_way(), None, monotonic())

    def _is_first(self) -> bool:
        return self._open.acquire(blocking=False)  # and never released

    def _fail(self, error: BaseException) -> bool:
        """Return whether to try again; raises the error if the broker is not at fault, or as failed()."""
        if not self._is_first():
            return False
        if not self._log.leave(self._under_way(), error, monotonic()):
            raise error
        return self._goes_on()

    def _miss(self, answer: Any) -> bool:
        """Return whether to try again; raises NotStored at the end."""
        if not self._is_first():
            return False
        self._log.leave(self._under_way(), None, monotonic(), answer=Answer(answer))
        return self._goes_on()

    def _goes_on(self) -> bool:
        if self._log.over and self._log.answer is not None:
            raise NotStored(self._log.topic, self._log.answer.value)
        return True


class Sending(_Callback[Select]):
    """One attempt, for callbacks: use `queue`, then call succeeded(), failed() or not_stored().

    Call them on any thread. They wait for nothing, not even before a broker is tried again.
    Source: MQClientAPIImpl.onExceptionImpl.
    """

    @classmethod
    def begin(cls, log: AttemptLog, select: Select) -> Self:
        """Return the first attempt; raises what `select` raises."""
        queue = log.choose(select(log.until(monotonic())))
        return cls(log, select, log.begin(queue, monotonic()))

    def failed(self, error: BaseException) -> Self | None:
        """Return the next attempt; None if the end of this one was reported before.

        Raises the error itself if the broker is not at fault. When there is no next attempt, raises
        AttemptsFailed, or NotStored if an earlier one had an answer.
        """
        return self.begin(self._log, self._select) if self._fail(error) else None

    def not_stored(self, answer: Any) -> Self | None:
        """Return the next attempt, after an answer of a broker that did not store the message as it should.

        None if the end of this one was reported before. Raises NotStored with the answer when there is no
        next attempt, or when the policy wants none. The broker is not blamed.
        """
        return self.begin(self._log, self._select) if self._miss(answer) else None


class AsyncSending(_Callback[AsyncSelect]):
    """One attempt, for callbacks in an event loop; see Sending."""

    @classmethod
    async def begin(cls, log: AttemptLog, select: AsyncSelect) -> Self:
        """Return the first attempt; raises what `select` raises."""
        queue = log.choose(await select(log.until(monotonic())))
        return cls(log, select, log.begin(queue, monotonic()))

    async def failed(self, error: BaseException) -> Self | None:
        """Return the next attempt, or None; raises as Sending.failed."""
        return await self.begin(self._log, self._select) if self._fail(error) else None

    async def not_stored(self, answer: Any) -> Self | None:
        """Return the next attempt, or None; raises as Sending.not_stored."""
        return await self.begin(self._log, self._select) if self._miss(answer) else None
