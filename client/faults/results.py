"""How a broker did lately: success rate, moving average and percentiles of latency, in constant memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

_SLOTS: Final = 5

LATENCY_BOUNDS_S: Final = tuple(0.0001 * 2 ** (step / 2) for step in range(41))
"""Upper bounds of the buckets, 0.1 ms to 105 s, each 1.41 times the one before; the last holds all above."""

_INNER_BOUNDS_S: Final = LATENCY_BOUNDS_S[:-1]


class _Slot:
    """The results of a part of the window."""

    __slots__ = ("failures", "latencies", "number", "successes")

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, number: int) -> None:
        self.number = number
        self.successes = 0
        self.failures = 0
        self.latencies = [0] * len(LATENCY_BOUNDS_S)


class Results:
    """The results of one broker over a sliding window; taking one in costs the same however many there were.

    The window moves by a fifth of its length at a time. Every `now` is in seconds of the monotonic clock, and
    no earlier than the one before.
    """

    __slots__ = ("_alpha", "_slot_s", "_slots", "ewma_latency_s")

    def __init__(self, window_s: float, ewma_alpha: float) -> None:
        self._slot_s = window_s / _SLOTS
        self._alpha = ewma_alpha
        self._slots = tuple(_Slot() for _ in range(_SLOTS))
        self.ewma_latency_s: float | None = None
        """The moving average of the latency of good answers; None = there was none yet."""

    def record(self, latency_s: float, now: float, *, failed: bool) -> None:
        """Take in one result; how quickly a failure came says nothing of the latency."""
        number = int(now // self._slot_s)
        slot = self._slots[number % _SLOTS]
        if slot.number != number:
            slot.begin(number)
        if failed:
            slot.failures += 1
            return
        slot.successes += 1
        slot.latencies[bisect_left(_INNER_BOUNDS_S, latency_s)] += 1
        average = self.ewma_latency_s
        self.ewma_latency_s = latency_s if average is None else average + self._alpha * (latency_s - average)

    def counts(self, now: float) -> tuple[int, int]:
        """Return how many results within the window were good, and how many were not."""
        slots = tuple(self._within(now))
        return sum(slot.successes for slot in slots), sum(slot.failures for slot in slots)

    def percentiles_s(self, now: float, shares: tuple[float, ...]) -> tuple[float | None, ...]:
        """Return the latency that such shares of the window's good answers kept, up to 41 % too high."""
        slots = (slot.latencies for slot in self._within(now))
        sums = tuple(accumulate(map(sum, zip(*slots, strict=True))))
        if not sums or not sums[-1]:
            return (None,) * len(shares)
        return tuple(LATENCY_BOUNDS_S[bisect_left(sums, share * sums[-1])] for share in shares)

    def clear_counts(self) -> None:
        """Forget the window; the moving average stays."""
        for slot in self._slots:
            slot.begin(slot.number)

    def _within(self, now: float) -> Iterator[_Slot]:
        oldest = int(now // self._slot_s) - _SLOTS
        return (slot for slot in self._slots if slot.number > oldest)
