"""The run of a benchmark: contestants in interleaved rounds, figures, targets."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

_TIMES: Final = "x"
"""The unit of a ratio."""

Contestant: TypeAlias = Callable[[], float]
"""Runs one round and returns its figure; what it prepares is not part of the figure."""


class Bound(StrEnum):
    """On which side of its limit a figure has to be."""

    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Target:
    """A limit for the median of a figure."""

    bound: Bound
    limit: float

    def __str__(self) -> str:
        return f"{self.bound} {self.limit:g}"

    def is_met_by(self, value: float) -> bool:
        """Whether `value` is on the right side of the limit, or on it."""
        return value >= self.limit if self.bound is Bound.AT_LEAST else value <= self.limit


def at_least(limit: float) -> Target:
    """Return the target `>= limit`."""
    return Target(Bound.AT_LEAST, limit)


def at_most(limit: float) -> Target:
    """Return the target `<= limit`."""
    return Target(Bound.AT_MOST, limit)


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured: a value a round, at least one."""

    name: str
    unit: str
    rounds: Sequence[float]
    target: Target | None = None

    @property
    def median(self) -> float:
        """The value that is reported and compared with the target."""
        return statistics.median(self.rounds)

    @property
    def low(self) -> float:
        """The smallest value of a round."""
        return min(self.rounds)

    @property
    def high(self) -> float:
        """The largest value of a round."""
        return max(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between which values the middle half of the rounds is."""
        if len(self.rounds) == 1:
            return self.low, self.high
        first, _, third = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return first, third

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return None if self.target is None else self.target.is_met_by(self.median)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one run of a benchmark."""

    figures: Sequence[Figure]
    notes: Sequence[str] = ()
    """What a reader must know to judge the figures, such as what could not be compared."""

    @property
    def met(self) -> bool:
        """Whether no target was missed."""
        return all(figure.met is not False for figure in self.figures)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One question, and how to answer it thoroughly or quickly; see command.benchmarks_of."""

    question: str
    full: Callable[[], Outcome]
    quick: Callable[[], Outcome]


def ratio(of: Figure, to: Figure, target: Target | None = None) -> Figure:
    """Return how many times `to` the figure `of` is, round by round: what disturbs a round disturbs both."""
    values = [one / other for one, other in zip(of.rounds, to.rounds, strict=True)]
    return Figure(f"{of.name} / {to.name}", _TIMES, values, target)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0..1) of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def seconds(work: Callable[[], object]) -> float:
    """Return how long a call takes, in seconds."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleave(rounds: int, contestants: Mapping[str, Contestant]) -> dict[str, list[float]]:
    """Run A B A B ... after one round that does not count; return the values of each, by name."""
    values: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            # Otherwise the garbage of all of them is collected in the round of any one.
            gc.collect()
            value = contestant()
            if number > 0:
                values[name].append(value)
    return values
