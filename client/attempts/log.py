"""What has been tried for one operation, and whether to go on; every `now` is in monotonic seconds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from ...registry.model import MessageQueue
from ..errors import AttemptsFailed, Failure, code_of_failure
from ..faults.broker import Result
from ..observers.events import AttemptEnded, Tell
from .policy import FAILED, Outcome, RetryPolicy

_LEAST_TIMEOUT_S: Final = 0.001
"""A socket takes 0 for `do not wait at all`."""

Record: TypeAlias = Callable[[str, Result, float], object]
"""Takes the result of an attempt at a broker, and the time of its end."""

Pick: TypeAlias = Callable[[frozenset[str]], MessageQueue]
"""Returns a queue, of another broker than these if there is one."""


class Answer(NamedTuple):
    """The answer of a broker that did not store a message as it should; the value may be None."""

    value: Any


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt that is under way."""

    queue: MessageQueue
    at: float
    began_s: float
    """How long after the first."""

    ends: float
    seen: tuple[str, bool]
    """What `See` returned."""

    def timeout_s(self, now: float) -> float | None:
        """Return for how many more seconds it may go on; never 0, and None without a limit."""
        return None if self.ends == inf else max(_LEAST_TIMEOUT_S, self.ends - now)


See: TypeAlias = Callable[[str, float], tuple[str, bool]]
"""Returns, for a broker, the client's position in the change stream, and whether the broker is left alone."""


class AttemptLog:
    """Decides over the attempts at one operation.

    `see` is called, if there is a `tell`, for what AttemptEnded has beside the outcome.
    """

    def __init__(
        self,
        topic: str,
        policy: RetryPolicy,
        record: Record,
        *,
        tell: Tell | None = None,
        see: See | None = None,
    ) -> None:
        self.topic = topic
        self.failures: list[Failure] = []
        self.answer: Answer | None = None
        """The last one that not_stored() got; it stands if no later attempt succeeds."""

        self.over = False
        self._tried: list[str] = []
        self._policy = policy
        self._record = record
        self._tell = tell
        self._see = None if tell is None else see
        self._first_at: float | None = None
        self._until: float | None = None
        self._entered = True

    @property
    def number(self) -> int:
        """The number of the attempt that is under way or comes next, from 1 on."""
        return len(self._tried) + 1

    @property
    def tried(self) -> frozenset[str]:
        """The brokers not to try again if there is another."""
        return frozenset(self._tried[-1:] if self._policy.as_rocketmq else self._tried)

    def next(self, now: float) -> bool:
        """Return whether to make another attempt; raises RuntimeError if the last one was not entered."""
        if self.over:
            return False
        if self.answer is not None and self._is_late(now):
            self.over = True
            return False
        if not self._entered:
            raise RuntimeError("an attempt was passed over: write `with attempt as queue:` in the loop")
        self._entered = False
        return True

    def enter(self) -> None:
        """Note that an attempt is entered."""
        self._entered = True

    def until(self, now: float) -> float:
        """Return when all attempts are to be over; the time runs from the first call on."""
        if self._until is None:
            deadline_s = self._policy.deadline_s
            self._until = inf if deadline_s is None else now + deadline_s
        return self._until

    def choose(self, pick: Pick) -> MessageQueue:
        """Return the queue to try next: no broker is tried twice in a row unless it is the only one."""
        tried = self.tried
        queue = pick(tried)
        if len(tried) > 1 and queue.broker_name == self._tried[-1]:
            return pick(frozenset((queue.broker_name,)))
        return queue

    def pause_s(self, queue: MessageQueue, now: float) -> float:
        """Return how long to wait before a queue is used; raises AttemptsFailed if that is too long."""
        if queue.broker_name not in self._tried:
            return 0.0
        pause_s = self._policy.pause_s * random.uniform(0.5, 1.0)
        if not self._is_late(now + pause_s):
            return pause_s
        if self.answer is None:
            self._end(self._deadline)
        return 0.0

    def begin(self, queue: MessageQueue, now: float) -> Begun:
        """Return an attempt that begins now; raises AttemptsFailed when it is too late for another one."""
        policy = self._policy
        if self._first_at is None:
            self._first_at = now
        if self.answer is None and self._is_late(now):  # with one, next() has looked at the time
            self._end(self._deadline)
        ends = now + policy.limit_s(self.until(now) - now, policy.retries - len(self._tried))
        seen = ("", False) if self._see is None else self._see(queue.broker_name, now)
        return Begun(queue, now, now - self._first_at, ends, seen)

    def leave(
        self,
        begun: Begun,
        error: BaseException | None,
        now: float,
        *,
        overdue: bool = False,
        answer: Answer | None = None,
    ) -> bool:
        """End an attempt; return whether its error is dealt with. Raises AttemptsFailed after the last one.

        An `overdue` attempt was cut because its time was up: the broker is at fault, by any policy.
        One with an `answer` and no error was not stored as it should.
        """
        if error is not None and not isinstance(error, Exception):
            self.over = True  # the end of the caller says nothing of the broker
            return False
        if overdue:
            now = max(now, begun.ends)  # timers of event loops may be a little early
        outcome = self._outcome(error, overdue=overdue, answered=answer is not None)
        self._report(begun, now, outcome)
        if error is None:
            self.answer = answer
        if not outcome.again:
            self.over = True
            # As in RocketMQ, an earlier answer stands in place of a refusal.
            return error is not None and self.answer is not None and self._policy.code_of(error) is not None
        if error is not None:
            self.failures.append(self._failure(begun, now - begun.at, error))
        self._tried.append(begun.queue.broker_name)
        if len(self._tried) > self._policy.retries:
            self._end(f"the limit of {self._policy.retries} retries")
        elif self._is_late(now):
            self._end(self._deadline)
        return True

    def _outcome(self, error: Exception | None, *, overdue: bool, answered: bool) -> Outcome:
        if overdue:
            return FAILED
        if error is None and answered:
            return self._policy.outcome_not_stored
        return self._policy.outcome_of(error)

    def _report(self, begun: Begun, now: float, outcome: Outcome) -> None:
        name, latency_s = begun.queue.broker_name, now - begun.at
        if outcome.failed or not self._policy.one_way:
            self._record(name, Result(latency_s, outcome.failed, outcome.reachable, begun.at), now)
        if self._tell is not None:
            self._tell(AttemptEnded(self.topic, name, latency_s, outcome.name, self.number, *begun.seen))

    def _failure(self, begun: Begun, latency_s: float, cause: Exception) -> Failure:
        queue, code = begun.queue, self._policy.code_of(cause)
        return Failure(
            number=self.number,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            address=queue.address,
            began_s=begun.began_s,
            latency_s=latency_s,
            cause=cause,
            code=code_of_failure(cause) if code is None else code,
        )

    @property
    def _deadline(self) -> str:
        return f"the deadline of {self._policy.deadline_s} s"

    def _is_late(self, now: float) -> bool:
        """Return whether it is too late for a further attempt; the first one is made in any case."""
        return bool(self._tried) and now >= self.until(now)

    def _end(self, why_over: str) -> None:
        """End the attempts: an earlier answer stands, or AttemptsFailed is raised."""
        self.over = True
        if self.answer is None:
            raise AttemptsFailed(self.topic, tuple(self.failures), why_over) from self.failures[-1].cause
