"""Try an operation on one broker after another, measuring each and remembering who failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from types import TracebackType
from typing import Final, Generic, Protocol, Self, TypeVar

from ..registry.errors import InvalidInput, RegistryError
from ..registry.model import MessageQueue
from .errors import AttemptsFailed, Failure

__all__ = ["AsyncAttempt", "AsyncAttempts", "Attempt", "Attempts", "RetryPolicy"]

Q = TypeVar("Q")

NETWORK_ERRORS: Final[tuple[type[Exception], ...]] = (OSError, EOFError)
"""What a broken connection raises: refused, reset, timed out, ended in the middle of an answer."""

_OUR_OWN: Final = (RegistryError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""Errors that are an OSError as well, and yet say nothing about the broker."""


class Record(Protocol):
    """Takes in how a broker did."""

    def __call__(self, broker_name: str, latency_s: float, *, failed: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, for how long and on which errors to try again."""

    retries: int = 2
    """Attempts after the first (RocketMQ: retryTimesWhenSendFailed)."""

    deadline_s: float | None = 3.0
    """No attempt begins later than this after the first (RocketMQ: sendMsgTimeout); None = no limit."""

    retry_on: tuple[type[Exception], ...] = NETWORK_ERRORS
    """Errors that are the broker's: it is left alone for a while and another is tried. Others pass."""

    @classmethod
    def of(cls, policy: RetryPolicy | None, retries: int | None) -> RetryPolicy:
        """Return the policy, or the default one, with another number of retries if one is given."""
        policy = policy or cls()
        return policy if retries is None else replace(policy, retries=retries)

    def is_the_brokers(self, error: BaseException | None) -> bool:
        """Whether an error is to be tried again elsewhere: what `retry_on` names most closely counts."""
        for kind in type(error).__mro__:
            if kind in self.retry_on:
                return True
            if kind in _OUR_OWN:
                return False
        return False

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidInput(f"retries: {self.retries} is negative")
        if self.deadline_s is not None and self.deadline_s <= 0:
            raise InvalidInput(f"deadline_s: {self.deadline_s} is not positive")


class AttemptLog:
    """What has been tried for one operation; decides whether to go on."""

    def __init__(self, topic: str, policy: RetryPolicy, record: Record) -> None:
        self.topic = topic
        self.failures: list[Failure] = []
        self.over = False
        self._policy = policy
        self._record = record
        self._began = monotonic()
        self._entered = True

    @property
    def failed_brokers(self) -> frozenset[str]:
        """The brokers not to try again if there is another."""
        return frozenset(failure.broker_name for failure in self.failures)

    def next(self) -> bool:
        """Whether there is another attempt to make; raises RuntimeError for one that was not entered."""
        if self.over:
            return False
        if not self._entered:
            raise RuntimeError("an attempt was passed over: write `with attempt as queue:` in the loop")
        self._entered = False
        return True

    def enter(self) -> None:
        """An attempt begins."""
        self._entered = True

    def leave(self, queue: MessageQueue, latency_s: float, error: BaseException | None) -> bool:
        """Take in how an attempt ended; whether its error is dealt with. Raises AttemptsFailed at the end."""
        failed = self._policy.is_the_brokers(error)
        if error is None or isinstance(error, Exception):  # a cancelled attempt says nothing of the broker
            self._record(queue.broker_name, latency_s, failed=failed)
        if not failed or error is None:
            self.over = True
            return False
        self.failures.append(Failure(queue.broker_name, queue.address, latency_s, error))
        why_over = self._why_over()
        if why_over is None:
            return True
        self.over = True
        raise AttemptsFailed(self.topic, tuple(self.failures), why_over) from error

    def _why_over(self) -> str | None:
        if len(self.failures) > self._policy.retries:
            return f"the limit of {self._policy.retries} retries"
        if self._policy.deadline_s is not None and monotonic() - self._began >= self._policy.deadline_s:
            return f"the deadline of {self._policy.deadline_s} s"
        return None


class _Timed(Generic[Q]):
    """One attempt: what it may use, and when it began."""

    def __init__(self, log: AttemptLog, select: Callable[[frozenset[str]], Q]) -> None:
        self._log = log
        self._select = select
        self._queue: MessageQueue | None = None
        self._began = 0.0

    @property
    def number(self) -> int:
        """1 for the first attempt."""
        return len(self._log.failures) + 1

    def _begin(self, queue: MessageQueue) -> MessageQueue:
        self._queue = queue
        self._began = monotonic()
        return queue

    def _end(self, error: BaseException | None) -> bool:
        if self._queue is None:
            return False
        return self._log.leave(self._queue, monotonic() - self._began, error)


class Attempt(_Timed[MessageQueue]):
    """One attempt: `with attempt as queue:`; an error that may be retried ends the block, not the loop."""

    def __enter__(self) -> MessageQueue:
        self._log.enter()
        return self._begin(self._select(self._log.failed_brokers))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._end(error)


class AsyncAttempt(_Timed[Awaitable[MessageQueue]]):
    """One attempt: `async with attempt as queue:`; see Attempt."""

    async def __aenter__(self) -> MessageQueue:
        self._log.enter()
        return self._begin(await self._select(self._log.failed_brokers))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self._end(error)


class Attempts(Iterator[Attempt]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __init__(self, log: AttemptLog, select: Callable[[frozenset[str]], MessageQueue]) -> None:
        self._log = log
        self._select = select

    def __next__(self) -> Attempt:
        if not self._log.next():
            raise StopIteration
        return Attempt(self._log, self._select)


class AsyncAttempts(AsyncIterator[AsyncAttempt]):
    """The attempts at one operation; ends after the first that succeeds."""

    def __init__(self, log: AttemptLog, select: Callable[[frozenset[str]], Awaitable[MessageQueue]]) -> None:
        self._log = log
        self._select = select

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncAttempt:
        if not self._log.next():
            raise StopAsyncIteration
        return AsyncAttempt(self._log, self._select)
