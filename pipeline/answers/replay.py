"""What a client that goes by a ladder would have done at a broker; in plain Python, without Spark."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from ...client import LADDER, LADDER_4, Ladder

_LEAST_MS: Final = 0.001
"""An attempt begins before it ends: one that took no time has not been sent elsewhere for its own end."""

_DIGITS: Final = 6
"""Differences of sums are rounded to so many digits: 0 must be 0."""


class Attempt(NamedTuple):
    """An attempt of one client at one broker."""

    end_ms: int
    latency_ms: float
    failed: bool
    bad: bool
    """Whether it would rather have gone elsewhere."""

    forced: bool
    """Whether it would have been made all the same, for want of another broker."""

    weight: float
    """So many attempts it stands for."""


class Isolation(NamedTuple):
    """A time from `from_ms` on and before `to_ms`, for which the broker would have been left alone."""

    from_ms: int
    to_ms: int
    saved: float
    withheld: float


Answers: TypeAlias = tuple[list[tuple[int, ...]], list[int]]
"""What several ladders say of some triggers, each thing once; and which of that each ladder says."""


class Ladders:
    """Several ladders at once: what each says of an answer is looked up, and searched but once."""

    def __init__(self, ladders: Collection[Ladder]) -> None:
        self._bounds = sorted({latency_ms for one in ladders for latency_ms in one.latency_ms})
        self._told = [
            tuple(isolation_ms(one, latency_ms, failed=False) for one in ladders)
            for latency_ms in (-inf, *self._bounds)
        ]
        isolating = (ms for ms, told in zip(self._bounds, self._told[1:], strict=True) if any(told))
        self.least_ms: float = next(isolating, inf)
        """The least latency of an answer after which any of them isolates; inf = none does."""

        self.longest_ms = max((for_ms for told in self._told for for_ms in told), default=0)
        """The longest time for which one of them leaves a broker alone after an answer."""

        self._told.append(tuple(isolation_ms(one, 0, failed=True) for one in ladders))
        self._alone = [_alike([told]) for told in self._told]

    def answers(self, triggers: Iterable[Attempt]) -> Answers:
        """Return for how many ms ladders isolate after each trigger; nothing without triggers."""
        steps = [-1 if one.failed else bisect_right(self._bounds, one.latency_ms) for one in triggers]
        # Most triggers are alone.
        return self._alone[steps[0]] if len(steps) == 1 else _alike([self._told[step] for step in steps])


class Stretch:
    """All attempts of one client at one broker, in the order of their ends.

    What counts is when an attempt began: one that was under way when another failed goes on. An attempt that
    goes elsewhere tells the ladder nothing. `least_ms` is the least latency at which any ladder isolates.
    """

    def __init__(self, attempts: Iterable[Attempt], least_ms: float) -> None:
        self.triggers: list[Attempt] = []
        """What ladders may isolate for."""

        begins, bad, weights = array("d"), array("d"), array("d")
        for attempt in attempts:
            if attempt.failed or attempt.latency_ms >= least_ms:
                self.triggers.append(attempt)
            if not attempt.forced:
                begins.append(_begin_ms(attempt))
                bad.append(attempt.bad)
                weights.append(attempt.weight)
        if self.triggers:
            self._sort(begins, bad, weights)

    def _sort(self, begins: array[float], bad: array[float], weights: array[float]) -> None:
        """Make sums of what began before a time; arrays, because one stretch can be all there is."""
        at, is_bad, weight = (np.asarray(values) for values in (begins, bad, weights))
        order = np.argsort(at, kind="stable")
        self._begins = array("d", at[order].tobytes())
        saved, withheld = (is_bad * weight)[order], ((1 - is_bad) * weight)[order]
        self._saved = array("d", np.concatenate(([0.0], np.cumsum(saved))).tobytes())
        self._withheld = array("d", np.concatenate(([0.0], np.cumsum(withheld))).tobytes())

    def replay(self, answers: Sequence[int]) -> list[Isolation]:
        """Return the isolations by a ladder that isolates for so many ms after each trigger, in order."""
        starts: list[int] = []
        ends: list[float] = []
        until = -inf
        for attempt, for_ms in zip(self.triggers, answers, strict=True):
            end_ms = attempt.end_ms
            if not for_ms or end_ms + for_ms <= until:
                continue
            if starts and not attempt.forced and _is_within(_begin_ms(attempt), starts, ends):
                continue
            if end_ms < until:
                ends[-1] = until = end_ms + for_ms
            else:
                until = end_ms + for_ms
                starts.append(end_ms)
                ends.append(until)
        return [self._isolation(start, int(end)) for start, end in zip(starts, ends, strict=True)]

    def _isolation(self, start_ms: int, end_ms: int) -> Isolation:
        low, high = bisect_left(self._begins, start_ms), bisect_left(self._begins, end_ms)
        saved, withheld = (round(sums[high] - sums[low], _DIGITS) for sums in (self._saved, self._withheld))
        return Isolation(start_ms, end_ms, saved, withheld)


def _alike(of_each: Sequence[tuple[int, ...]]) -> Answers:
    told = [*zip(*of_each, strict=True)]
    places = {answers: place for place, answers in enumerate(dict.fromkeys(told))}
    return [*places], [places[answers] for answers in told]


def isolation_ms(ladder: Ladder, latency_ms: float, *, failed: bool) -> int:
    """Return Ladder.isolation_s of a latency in ms, in ms, without the rounding of either."""
    step = bisect_right(ladder.latency_ms, ladder.failure_latency_ms if failed else latency_ms) - 1
    return ladder.isolation_ms[step] if step >= 0 else 0


def _begin_ms(attempt: Attempt) -> float:
    return attempt.end_ms - max(attempt.latency_ms, _LEAST_MS)


def _is_within(at_ms: float, starts: Sequence[int], ends: Sequence[float]) -> bool:
    place = bisect_right(starts, at_ms) - 1
    return place >= 0 and at_ms < ends[place]


# --- the ladders to choose from ----------------------------------------------------------------------------

_FIRST_MS: Final = (100, 250, 550, 1_000)
_BASE_MS: Final = (1_000, 2_000, 5_000, 15_000)
_SPREAD: Final = (1, 3, 10)
_FAILURE_MS: Final = (0, 1_000, 2_000, 5_000, 10_000, 30_000, 120_000)
_LAST_STEP_MS: Final = 15_000
"""The last step of both of RocketMQ's ladders; the grid's stands for a failure too."""


def _grid() -> Iterable[Ladder]:
    """Yield ladders: no step for slow answers, one, or three that grow by three; and one for failures."""
    slow: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    for first_ms in _FIRST_MS:
        for base_ms in _BASE_MS:
            slow.append(((first_ms,), (base_ms,)))
            growing = accumulate(_SPREAD[1:], lambda for_ms, _: for_ms * 3, initial=base_ms)
            slow.append((tuple(first_ms * times for times in _SPREAD), tuple(growing)))
    for latency_ms, for_ms in slow:
        for failure_ms in _FAILURE_MS:
            yield Ladder((*latency_ms, _LAST_STEP_MS), (*for_ms, failure_ms), _LAST_STEP_MS)


CANDIDATES: Final[tuple[Ladder, ...]] = (LADDER, LADDER_4, *_grid())
"""RocketMQ's two, then a grid; of equally good ones the first is taken."""
