"""What a server spends on so many of something, and the line through it, which is checked at other sizes."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import redis

from ..kit.figures import Figure, at_most
from ..kit.usage import cpu_s, resident_mb

CPU: Final = "CPU"
COMMANDS: Final = "commands"
RECEIVED: Final = "received"
SENT: Final = "sent"
MEMORY: Final = "memory"
CONNECTIONS: Final = "connections"
_CHECKS: Final = 2
"""At so many of the sizes, the largest ones, lines are checked."""

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


class Meter(NamedTuple):
    """Reads what a server has spent."""

    client: redis.Redis
    pid: int

    def so_far(self) -> Spent:
        """Return what it has spent since its start."""
        stats: Any = self.client.info("stats")
        received_b, sent_b = (float(stats[f"total_net_{way}_bytes"]) for way in ("input", "output"))
        commands = stats["total_commands_processed"]
        return Spent(time.monotonic(), cpu_s(self.pid) * 1_000, commands, received_b, sent_b)

    def since(self, before: Spent) -> Spent:
        """Return what it has spent since then."""
        return self.so_far().minus(before)

    def memory_mb(self) -> float:
        """Return its resident memory."""
        return resident_mb(self.pid)

    def connections(self) -> int:
        """Return how many there are, without the one that asks."""
        found: Any = self.client.info("clients")
        return int(found["connected_clients"]) - 1


def spent_in(seconds: float, *meters: Meter) -> list[Spent]:
    """Return what each of these servers spends in a second, the mean of so many."""
    before = [meter.so_far() for meter in meters]
    time.sleep(seconds)
    spent = [meter.since(then) for meter, then in zip(meters, before, strict=True)]
    return [one.times(1 / one.seconds) for one in spent]


class Line(NamedTuple):
    """What is spent without any, and what each one adds."""

    base: float
    each: float

    def at(self, count: float) -> float:
        """Return what so many of them cost."""
        return self.base + self.each * count


class Check(NamedTuple):
    """How a line does at a size that it was not fitted to."""

    at: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """By which part the prediction is wrong."""
        return self.predicted / self.measured - 1


class Cost(NamedTuple):
    """A line, and how it does at larger sizes."""

    line: Line
    checks: Sequence[Check]


def fitted(medians: Mapping[int, float]) -> Cost:
    """Return the line through all sizes but the two largest, where it is checked."""
    sizes = sorted(medians)
    fit, larger = sizes[:-_CHECKS], sizes[-_CHECKS:]
    slope, base = statistics.linear_regression(fit, [medians[size] for size in fit])
    line = Line(base, slope)
    return Cost(line, [Check(size, line.at(size), medians[size]) for size in larger])


def figures_of(
    what: str, of: str, found: Mapping[int, Sequence[Spent]], *, each: str, but: Container[str] = ()
) -> Iterator[Figure]:
    """Return what was spent on so many `of` something, a figure for each size, and how wrong the lines are.

    `each`: what it was spent on, such as "s"; `but`: what is left out, as too little to be measured.
    """
    for part, place in _PLACES.items():
        if part not in but:
            values = {count: [spent[place] for spent in rounds] for count, rounds in found.items()}
            yield from series(what, part, of, values, f"{_UNITS[part]}/{each}")


def by_size(
    what: str, part: str, of: str, found: Mapping[int, Sequence[float]], unit: str
) -> dict[int, Figure]:
    """Return a figure for each size."""
    return {count: Figure(f"{what}: {part}, {count:,} {of}", unit, found[count]) for count in found}


def series(
    what: str, part: str, of: str, found: Mapping[int, Sequence[float]], unit: str
) -> Iterator[Figure]:
    """Return a figure for each size, and how wrong the line is at the two largest."""
    figures = by_size(what, part, of, found, unit)
    yield from figures.values()
    for check in fitted({count: figure.median for count, figure in figures.items()}).checks:
        name = f"{what}: {part}, {_ERROR} for {check.at:,} {of}"
        yield Figure(name, "%", [abs(check.error) * 100], _MOST_WRONG)


def costs(figures: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Cost]:
    """Return the costs that figures, as JSON has them, say: by what it was spent on, and which part."""
    medians: dict[tuple[str, str], dict[int, float]] = {}
    for figure in figures:
        match = _NAME.fullmatch(figure["name"])
        if match is not None and _ERROR not in match[2]:
            medians.setdefault((match[1], match[2]), {})[int(match[3].replace(",", ""))] = figure["median"]
    return {key: fitted(found) for key, found in medians.items()}
