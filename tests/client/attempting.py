"""What tests of attempts share: brokers to try, a record of what was said of them, scripted operations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from sharedroutes.client import RetryPolicy
from sharedroutes.client.attempts.attempt import AsyncAttempts, AsyncSending, Attempts, Sending
from sharedroutes.client.attempts.log import AttemptLog, Pick
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.observers import Event
from sharedroutes.registry import MessageQueue

T = TypeVar("T")

QUEUES: Final = tuple(
    MessageQueue("t", name, 0, f"10.0.0.1:{port}") for port, name in enumerate("abcd", start=1)
)
RESET: Final = ConnectionResetError("reset")


class Bench:
    """Attempts over some brokers; keeps what was recorded, told and to be avoided."""

    def __init__(self, *, in_tasks: bool = False) -> None:
        self.in_tasks = in_tasks
        self.queues = QUEUES
        self.records: list[tuple[str, Result]] = []
        self.events: list[Event] = []
        self.avoided: list[frozenset[str]] = []
        self.untils: list[float] = []
        self.numbers: list[int] = []

    @property
    def recorded(self) -> list[tuple[str, bool]]:
        """Who was recorded, and whether as failed."""
        return [(name, result.failed) for name, result in self.records]

    def record(self, broker_name: str, result: Result, _now: float) -> None:
        self.records.append((broker_name, result))

    def pick(self, avoid: frozenset[str]) -> MessageQueue:
        """Return the first queue of a broker not to be avoided, or else the first of all."""
        self.avoided.append(avoid)
        return next((queue for queue in self.queues if queue.broker_name not in avoid), self.queues[0])

    def select(self, until: float) -> Pick:
        self.untils.append(until)
        return self.pick

    async def select_later(self, until: float) -> Pick:
        await asyncio.sleep(0)
        return self.select(until)

    def log(self, policy: RetryPolicy | None = None, **settings: Any) -> AttemptLog:
        return AttemptLog("t", policy or RetryPolicy(), self.record, tell=self.events.append, **settings)

    def attempts(self, policy: RetryPolicy | None = None) -> Attempts:
        return Attempts(self.log(policy), self.select)

    def async_attempts(self, policy: RetryPolicy | None = None) -> AsyncAttempts:
        return AsyncAttempts(self.log(policy), self.select_later)

    async def first(self, policy: RetryPolicy | None = None) -> Sending | AsyncSending:
        """Return the first attempt for callbacks."""
        if self.in_tasks:
            return await AsyncSending.begin(self.log(policy), self.select_later)
        return Sending.begin(self.log(policy), self.select)

    async def run(
        self, operation: Callable[[MessageQueue], T], policy: RetryPolicy | None = None, **settings: Any
    ) -> T:
        """Return what the operation returns from within the block."""
        policy = policy or RetryPolicy(**settings)
        if self.in_tasks:
            async for attempt in self.async_attempts(policy):
                self.numbers.append(attempt.number)
                async with attempt as queue:
                    return operation(queue)
        else:
            for blocking_attempt in self.attempts(policy):
                self.numbers.append(blocking_attempt.number)
                with blocking_attempt as queue:
                    return operation(queue)
        raise AssertionError("the loop ended without a result")


async def failed(sending: Sending | AsyncSending, error: BaseException) -> Any:
    """Report a failure, and return the next attempt."""
    return sending.failed(error) if isinstance(sending, Sending) else await sending.failed(error)


async def not_stored(sending: Sending | AsyncSending, answer: object) -> Any:
    """Report an answer that was not stored, and return the next attempt."""
    return sending.not_stored(answer) if isinstance(sending, Sending) else await sending.not_stored(answer)


def script(*outcomes: object) -> Callable[[MessageQueue], object]:
    """Return an operation that raises or returns one outcome after another."""
    left: Iterator[object] = iter(outcomes)

    def operation(queue: MessageQueue) -> object:
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return operation
