"""For how long the machine did not run a process, and when a bound is over that does not count it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import accumulate
from typing import Final, TypeAlias

from tests.faults.checker.history import Late

_SAMPLED_US: Final = 200_000
"""So far off a lateness may stand: what processes waited is asked every so often."""

_Window: TypeAlias = tuple[int, int]


class _Stalls:
    """The times in which a clock stood still, without overlaps."""

    def __init__(self, windows: Iterable[_Window]) -> None:
        joined = joined_windows(sorted(windows))
        self._begins = [begin for begin, _ in joined]
        self._sums = [0, *accumulate(end - begin for begin, end in joined)]
        self._ran_before = [begin - sum_us for begin, sum_us in zip(self._begins, self._sums, strict=False)]

    def before_us(self, at_us: int) -> int:
        """Return for how long it had stood still by a time."""
        index = bisect_right(self._begins, at_us) - 1
        if index < 0:
            return 0
        return min(self._sums[index + 1], self._sums[index] + at_us - self._begins[index])

    def reached_us(self, since_us: int, for_us: int) -> int:
        """Return when it has run for so long."""
        ran_us = since_us - self.before_us(since_us) + for_us
        return ran_us + self._sums[bisect_left(self._ran_before, ran_us)]


class Lateness:
    """What was late; of nobody in particular is what serves everybody: the store, the harness."""

    def __init__(self, events: Iterable[Late]) -> None:
        self._of: dict[str, list[_Window]] = defaultdict(list)
        for event in events:
            self._of[event.process].append((event.at_us - 1_000 * event.late_ms, event.at_us))
        self._stalls: dict[frozenset[str], _Stalls] = {}

    @property
    def processes(self) -> Collection[str]:
        """The names of those that waited at all."""
        return self._of.keys()

    def within_us(self, since_us: int, until_us: int, who: Iterable[str]) -> int:
        """Return for how much of a time, at most, one of these did not run."""
        stalls = self._stalls_of(who)
        late_us = stalls.before_us(until_us + _SAMPLED_US) - stalls.before_us(since_us - _SAMPLED_US)
        return max(0, min(until_us - since_us, late_us))

    def limit_us(self, since_us: int, bound_ms: int, who: Iterable[str]) -> int:
        """Return when a bound is over in which only counts when all of these ran."""
        stalls = self._stalls_of(who)
        limit_us = stalls.reached_us(since_us - _SAMPLED_US, _SAMPLED_US + 1_000 * bound_ms)
        return limit_us + stalls.before_us(limit_us + _SAMPLED_US) - stalls.before_us(limit_us)

    def _stalls_of(self, who: Iterable[str]) -> _Stalls:
        names = frozenset(("", *who))
        if names not in self._stalls:
            self._stalls[names] = _Stalls(window for name in names for window in self._of.get(name, ()))
        return self._stalls[names]


def joined_windows(windows: Iterable[_Window]) -> list[_Window]:
    """Return windows, sorted by their begins, without overlaps."""
    joined: list[_Window] = []
    for begin, end in windows:
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined
