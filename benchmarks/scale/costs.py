"""What a server spends on so many of something, and the line through it, which is checked at another size."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import redis

from ..kit.figures import Figure, at_most
from ..kit.usage import cpu_s

CPU: Final = "CPU"
COMMANDS: Final = "commands"
RECEIVED: Final = "received"
SENT: Final = "sent"
MEMORY: Final = "memory"
_ERROR: Final = "error of the prediction"
_MOST_WRONG: Final = at_most(25)
_UNITS: Final = {CPU: "ms", COMMANDS: "1", RECEIVED: "B", SENT: "B"}
_PLACES: Final = {CPU: 1, COMMANDS: 2, RECEIVED: 3, SENT: 4}
"""Of each part in what was spent."""

_NAME: Final = re.compile(r"(.+): (.+), ([\d,]+) (\w+)")


class Spent(NamedTuple):
    """What a server has spent: in all, or for one of what was counted."""

    seconds: float
    cpu_ms: float
    commands: float
    received_b: float
    sent_b: float

    def plus(self, other: Spent) -> Spent:
        """Return the sum."""
        return Spent(*(mine + its for mine, its in zip(self, other, strict=True)))

    def minus(self, other: Spent) -> Spent:
        """Return the difference."""
        return Spent(*(mine - its for mine, its in zip(self, other, strict=True)))

    def times(self, factor: float) -> Spent:
        """Return so many times as much."""
        return Spent(*(value * factor for value in self))


NOTHING: Final = Spent(0.0, 0.0, 0.0, 0.0, 0.0)


def spent_so_far(client: redis.Redis, pid: int) -> Spent:
    """Return what a server has spent since its start."""
    stats: Any = client.info("stats")
    received_b, sent_b = (float(stats[f"total_net_{way}_bytes"]) for way in ("input", "output"))
    commands = stats["total_commands_processed"]
    return Spent(time.monotonic(), cpu_s(pid) * 1_000, commands, received_b, sent_b)


def spent_in(client: redis.Redis, pid: int, seconds: float) -> Spent:
    """Return what it spends in a second, the mean of so many."""
    before = spent_so_far(client, pid)
    time.sleep(seconds)
    spent = spent_so_far(client, pid).minus(before)
    return spent.times(1 / spent.seconds)


class Line(NamedTuple):
    """What is spent without any, and what each one adds."""

    base: float
    each: float

    def at(self, count: float) -> float:
        """Return what so many of them cost."""
        return self.base + self.each * count


class Cost(NamedTuple):
    """A line, and how it does at a size that it was not fitted to."""

    line: Line
    unit: str
    checked_at: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """By which part the prediction is wrong."""
        return self.predicted / self.measured - 1


def fitted(medians: Mapping[int, float], unit: str) -> Cost:
    """Return the line through all sizes but the largest, where it is checked."""
    *sizes, last = sorted(medians)
    slope, base = statistics.linear_regression(sizes, [medians[size] for size in sizes])
    line = Line(base, slope)
    return Cost(line, unit, last, line.at(last), medians[last])


def figures_of(
    what: str, of: str, found: Mapping[int, Sequence[Spent]], *, each: str, but: Iterable[str] = ()
) -> Iterator[Figure]:
    """Return what was spent on so many `of` something, a figure for each size, and how wrong its line is.

    `each`: what it was spent on, such as "s"; `but`: what is left out, as too little to be measured.
    """
    for part, place in _PLACES.items():
        if part not in but:
            values = {count: [spent[place] for spent in rounds] for count, rounds in found.items()}
            yield from series(what, part, of, values, f"{_UNITS[part]}/{each}")


def series(
    what: str, part: str, of: str, found: Mapping[int, Sequence[float]], unit: str
) -> Iterator[Figure]:
    """Return a figure for each size, and how wrong the line is at the largest one."""
    figures = {count: Figure(f"{what}: {part}, {count:,} {of}", unit, found[count]) for count in found}
    yield from figures.values()
    cost = fitted({count: figure.median for count, figure in figures.items()}, unit)
    name = f"{what}: {part}, {_ERROR} for {cost.checked_at:,} {of}"
    yield Figure(name, "%", [abs(cost.error) * 100], _MOST_WRONG)


def costs(figures: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Cost]:
    """Return the costs that figures, as JSON has them, say: by what it was spent on, and which part."""
    medians: dict[tuple[str, str], dict[int, float]] = {}
    units = {}
    for figure in figures:
        match = _NAME.fullmatch(figure["name"])
        if match is not None and _ERROR not in match[2]:
            key = match[1], match[2]
            medians.setdefault(key, {})[int(match[3].replace(",", ""))] = figure["median"]
            units[key] = figure["unit"]
    return {key: fitted(found, units[key]) for key, found in medians.items()}
