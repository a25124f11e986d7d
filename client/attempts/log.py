"""What has been tried for one operation, and whether to go on; every `now` is in monotonic seconds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from ...registry.model import MessageQueue
from ..errors import AttemptsFailed, Failure
from ..observing.events import AttemptEnded, Tell
from .policy import FAILED, Outcome, RetryPolicy

__all__ = ["AttemptLog", "Begun", "Record", "See"]

_LEAST_TIMEOUT_S: Final = 0.001
"""A socket takes 0 for `do not wait at all`."""

_UNSEEN: Final = ("", False)


class Record(Protocol):
    """Takes in how a broker did."""

    def __call__(
        self,
        broker_name: str,
        latency_s: float,
        *,
        failed: bool,
        reachable: bool | None = None,
        generation: int | None = None,
    ) -> None:
        """Take in one outcome."""


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt that is under way."""

    queue: MessageQueue
    at: float
    began_s: float
    """How long after the first."""

    ends: float
    generation: int | None

    def timeout_s(self, now: float) -> float | None:
        """Return for how many more seconds it may go on; never 0, and None without a limit."""
        return None if self.ends == inf else max(_LEAST_TIMEOUT_S, self.ends - now)


class See(Protocol):
    """Says what a client knows as an attempt at a broker begins."""

    def __call__(self, broker_name: str, now: float) -> tuple[str, bool]:
        """Return the position in the change stream, and whether the broker is to be left alone."""


class AttemptLog:
    """Decides over the attempts at one operation.

    `generation` is FaultMemory's at the time; without it, `record` is told of times and failures only. `see`
    is asked for what AttemptEnded tells beside the outcome, if there is somebody to tell.
    """

    def __init__(
        self,
        topic: str,
        policy: RetryPolicy,
        record: Record,
        *,
        generation: Callable[[], int] | None = None,
        tell: Tell | None = None,
        see: See | None = None,
    ) -> None:
        self.topic = topic
        self.failures: list[Failure] = []
        self.over = False
        self._policy = policy
        self._record = record
        self._generation = generation
        self._tell = tell
        self._see = None if tell is None else see
        self._seen = _UNSEEN
        self._first_at: float | None = None
        self._until: float | None = None
        self._entered = True

    @property
    def number(self) -> int:
        """The number of the attempt that is under way or comes next, from 1 on."""
        return len(self.failures) + 1

    @property
    def failed_brokers(self) -> frozenset[str]:
        """The brokers not to try again if there is another."""
        return frozenset([failure.broker_name for failure in self.failures])

    def next(self) -> bool:
        """Whether there is another attempt to make; raises RuntimeError for one that was not entered."""
        if self.over:
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

    def rather_avoid(self, queue: MessageQueue) -> frozenset[str] | None:
        """Return whom to avoid in place of all that failed, when that left nobody; None = take the queue.

        So no broker is tried twice in a row but an only one.
        """
        if not self.failures or queue.broker_name != self.failures[-1].broker_name:
            return None
        return frozenset((queue.broker_name,)) if len(self.failed_brokers) > 1 else None

    def pause_s(self, queue: MessageQueue, now: float) -> float:
        """Return how long to wait before a queue is used; raises AttemptsFailed if that is too long."""
        if not self.failures or queue.broker_name not in self.failed_brokers:
            return 0.0
        pause_s = self._policy.pause_s * random.uniform(0.5, 1.0)
        self._check_deadline(now + pause_s)
        return pause_s

    def begin(self, queue: MessageQueue, now: float) -> Begun:
        """Return an attempt that begins now; raises AttemptsFailed when it is too late for another one."""
        policy = self._policy
        if self._first_at is None:
            self._first_at = now
        self._check_deadline(now)
        ends = self.until(now)
        if policy.attempt_timeout_s is not None and len(self.failures) < policy.retries:
            ends = min(ends, now + policy.attempt_timeout_s)
        generation = None if self._generation is None else self._generation()
        if self._see is not None:
            self._seen = self._see(queue.broker_name, now)
        return Begun(queue, now, now - self._first_at, ends, generation)

    def leave(self, begun: Begun, error: BaseException | None, now: float, *, overdue: bool = False) -> bool:
        """Take in how an attempt ended; whether its error is dealt with. Raises AttemptsFailed at the end.

        One that is `overdue` was ended because its time was up: the broker's failure, whatever the policy.
        """
        if error is not None and not isinstance(error, Exception):
            self.over = True  # what ends the caller says nothing of the broker
            return False
        if overdue:
            now = max(now, begun.ends)  # timers of event loops may be a little early
        outcome = FAILED if overdue else self._policy.outcome_of(error)
        latency_s = now - begun.at
        self._report(begun, latency_s, outcome)
        if self._tell is not None:
            name, number, (position, isolated) = begun.queue.broker_name, len(self.failures) + 1, self._seen
            self._tell(AttemptEnded(self.topic, name, latency_s, outcome.told, number, position, isolated))
        if error is None or not outcome.again:
            self.over = True
            return False
        self.failures.append(self._failure(begun, latency_s, error))
        if len(self.failures) > self._policy.retries:
            self._give_up(f"the limit of {self._policy.retries} retries")
        self._check_deadline(now)
        return True

    def _report(self, begun: Begun, latency_s: float, outcome: Outcome) -> None:
        name, failed = begun.queue.broker_name, outcome.failed
        if self._policy.one_way and not failed:
            return
        if begun.generation is None:
            self._record(name, latency_s, failed=failed)
        else:
            self._record(
                name, latency_s, failed=failed, reachable=outcome.reachable, generation=begun.generation
            )

    def _failure(self, begun: Begun, latency_s: float, cause: Exception) -> Failure:
        queue = begun.queue
        return Failure(
            number=self.number,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            address=queue.address,
            began_s=begun.began_s,
            latency_s=latency_s,
            cause=cause,
        )

    def _check_deadline(self, now: float) -> None:
        if self.failures and now >= self.until(now):  # the first one is made by who has a queue in time
            self._give_up(f"the deadline of {self._policy.deadline_s} s")

    def _give_up(self, why_over: str) -> None:
        self.over = True
        raise AttemptsFailed(self.topic, tuple(self.failures), why_over) from self.failures[-1].cause
