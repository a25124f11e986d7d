"""The queues of one topic that a producer chooses from, and which one is next."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from ...registry.model import MessageQueue, TopicRoute
from ..faults.config import Rules
from ..faults.memory import Verdict
from .queues import QueueRing, TopicRing, is_static, publish_queues
from .strategy import Candidates, Strategy, arranged

_NOBODY: Final[frozenset[str]] = frozenset()

_MAX_KEPT: Final = 16
_MAX_TRIES: Final = 8
_ROUNDING: Final = 1e-9
"""0.29 of 100 brokers are 29, and not the 28.999999999999996 that binary fractions make of it."""


class _Plan(NamedTuple):
    """The queues that take turns, for one set of brokers to avoid."""

    allowed: frozenset[str]
    schedule: tuple[MessageQueue, ...]


class _Judged(NamedTuple):
    """What a verdict means for this topic."""

    verdict: Verdict | None
    names: frozenset[str]
    """All brokers of the topic."""

    blocked: frozenset[str]
    unreachable: frozenset[str]
    better: frozenset[str]
    """The better half of all brokers if all are blocked, or else all; see LatencyFaultToleranceImpl."""

    shares: Mapping[str, float]
    plans: dict[frozenset[str], _Plan]
    """By the brokers to avoid; made on first use."""


class _Ready(NamedTuple):
    """The queues that take turns by a verdict, without more ado: no broker is avoided, or in slow start."""

    verdict: Verdict | None
    schedule: tuple[MessageQueue, ...]
    length: int


_NOT_READY: Final = _Ready(None, (), 0)
_NOT_YET: Final = _Judged(None, _NOBODY, _NOBODY, _NOBODY, _NOBODY, {}, {})


class PublishView:
    """The queues of a topic that a producer chooses from; immutable but for the turn; threads share it.

    At most `max_isolated_share` (0..1) of the topic's brokers are left alone, the worst ones; None = any
    number. `rules` name those to use when all are. `ring` is that of the views before it. The constructor and
    the methods raise InvalidInput for a bad answer of the strategy; do not call them when `size` is 0.
    """

    __slots__ = (
        "_judged", "_max_isolated_share", "_ring", "_rings", "_route", "_rules", "_strategy",
        "length", "queues", "ready", "schedule", "size", "turns",
    )  # fmt: skip

    def __init__(
        self,
        route: TopicRoute,
        strategy: Strategy,
        turns: Iterator[int],
        *,
        max_isolated_share: float | None,
        rules: Rules = "sharedroutes",
        ring: TopicRing | None = None,
    ) -> None:
        self.queues = publish_queues(route)
        self.size = len(self.queues)
        self.turns = turns
        """A counter; taking its next number is atomic, so threads share it without a lock."""
        self._route = route
        self._strategy = strategy
        self._max_isolated_share = max_isolated_share
        self._rules = rules
        self.schedule = self._arrange(self.queues) if self.queues else ()
        """The order of turns while no broker is restricted: `schedule[next(turns) % length]`."""
        self.length = len(self.schedule)
        self._judged = _NOT_YET
        self.ready = _NOT_READY
        """While its verdict is the latest: `ready.schedule[next(turns) % ready.length]`."""
        self._rings = ring or TopicRing()
        self._ring: QueueRing | None = None

    def pick(self, verdict: Verdict, avoid: frozenset[str], rng: random.Random) -> MessageQueue:
        """Return the next queue: of a broker neither blocked nor avoided, else reachable and not avoided,
        else not avoided, else of any.

        By the rules of RocketMQ 5, the third step is left out; by those of RocketMQ 4, it is of one that is
        not blocked, else of the better half, and no broker is avoided. A broker in slow start gives away the
        turns beyond its share. Source: MQFaultStrategy.selectOneMessageQueue.
        """
        if not (avoid or verdict.blocked or verdict.shares):
            return self.schedule[next(self.turns) % self.length]
        if self._rules == "rocketmq-4":
            avoid = _NOBODY
        judged = self._judged
        if judged.verdict is not verdict:
            judged = self._judge(verdict)
        plan = judged.plans.get(avoid)
        if plan is None:
            if len(judged.plans) >= _MAX_KEPT:  # so many sets: a draw costs less than a plan for each
                drawn = _draw(judged.plans[_NOBODY].schedule, avoid, judged.shares, rng)
                if drawn is not None:
                    return drawn
            plan = self._plan(judged, avoid)
        schedule, shares = plan.schedule, judged.shares
        if not (avoid or shares):
            self.ready = _Ready(verdict, schedule, len(schedule))
        queue = schedule[next(self.turns) % len(schedule)]
        if shares and rng.random() >= shares.get(queue.broker_name, 1.0):
            return _draw(schedule, _NOBODY, shares, rng) or queue
        return queue

    def pick_for(self, key: str | bytes, verdict: Verdict, avoid: frozenset[str]) -> MessageQueue:
        """Return the queue of a message group: for one key the same while queues and brokers are well.

        Which brokers are allowed: as pick. The strategy has no say, or producers would disagree about a key.
        """
        if self._rules == "rocketmq-4":
            avoid = _NOBODY
        judged = self._judged
        if judged.verdict is not verdict:
            judged = self._judge(verdict)
        plan = judged.plans.get(avoid)
        allowed = self._allowed(judged, avoid) if plan is None else plan.allowed
        ring = self._ring
        if ring is None:
            ring = self._ring = self._rings.of(self.queues, static=is_static(self._route))
        return ring.find(key, allowed)

    def _judge(self, verdict: Verdict) -> _Judged:
        """Return what a verdict means; plans last as long as it restricts the same brokers of this topic."""
        last = self._judged
        names = last.names or frozenset([queue.broker_name for queue in self.queues])
        limit = _most_isolated(len(names), self._max_isolated_share)
        worst_first = tuple(islice((name for name in verdict.blocked if name in names), limit))
        blocked, unreachable = frozenset(worst_first), verdict.unreachable & names
        better = _better(worst_first) if blocked == names and self._rules == "rocketmq-4" else names
        same = (blocked, unreachable, better) == last[2:5] and last is not _NOT_YET
        shares = _relative(verdict.shares, names - blocked) if verdict.shares else {}
        judged = _Judged(verdict, names, blocked, unreachable, better, shares, last.plans if same else {})
        if not same:
            self._plan(judged, _NOBODY)
        self._judged = judged
        return judged

    def _plan(self, judged: _Judged, avoid: frozenset[str]) -> _Plan:
        """Filter once per set of brokers, so that choosing costs the same for 8 queues and for 10,000."""
        plans = judged.plans
        if len(plans) >= _MAX_KEPT:
            for kept in list(plans):
                if kept:  # other threads count on the plan that avoids none
                    plans.pop(kept, None)
        allowed = self._allowed(judged, avoid)
        if allowed == judged.names:
            plan = _Plan(judged.names, self.schedule)
        else:
            queues = [queue for queue in self.queues if queue.broker_name in allowed]
            plan = _Plan(allowed, self._arrange(queues))
        plans[avoid] = plan
        return plan

    def _allowed(self, judged: _Judged, avoid: frozenset[str]) -> frozenset[str]:
        names, blocked, unreachable, better = judged[1:5]
        if self._rules == "rocketmq-4":
            return names - blocked or better
        found = names - blocked - avoid or names - unreachable - avoid
        return found or (self._rules == "sharedroutes" and names - avoid) or names

    def _arrange(self, queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
        brokers = {data.broker_name: data for data in self._route.broker_datas}
        return arranged(self._strategy, Candidates(tuple(queues), self.queues, brokers))


def _most_isolated(brokers: int, share: float | None) -> int:
    """Return how many brokers of a topic may be left alone: one in any case if there are two, never all.

    Without a share: all.
    """
    if share is None:
        return brokers
    if brokers < 2:  # noqa: PLR2004 - the last one is never left alone
        return 0
    return min(brokers - 1, max(1, math.floor(share * brokers + _ROUNDING)))


def _better(worst_first: Sequence[str]) -> frozenset[str]:
    """Return the better half, at least one (LatencyFaultToleranceImpl.pickOneAtLeast of RocketMQ 4)."""
    return frozenset(worst_first[-max(1, len(worst_first) // 2) :])


def _relative(shares: Mapping[str, float], names: frozenset[str]) -> dict[str, float]:
    """Return the shares below 1 of these brokers; if all are in slow start, the furthest takes every turn."""
    found = {name: share for name, share in shares.items() if name in names and share < 1}
    most = max(found.values(), default=0.0)
    if len(found) < len(names) or most <= 0:
        return found
    return {name: share / most for name, share in found.items() if share < most}


def _draw(
    schedule: Sequence[MessageQueue], avoid: frozenset[str], shares: Mapping[str, float], rng: random.Random
) -> MessageQueue | None:
    """Draw a turn that its broker takes: so turns given away are spread over all, not over neighbours."""
    for _ in range(_MAX_TRIES):
        queue = schedule[int(rng.random() * len(schedule))]
        if queue.broker_name not in avoid and rng.random() < shares.get(queue.broker_name, 1.0):
            return queue
    return None
