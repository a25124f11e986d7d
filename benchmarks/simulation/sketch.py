"""Distributions that can be added up: whole numbers counted in bins that are half a percent wide."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from .draws import Floats, Ints

__all__ = ["BINS", "EDGES", "Sketch", "quantile", "ticks"]

_WIDTH: Final = 1.005
_HIGHEST: Final = 2**62
_TICKS_PER_S: Final = 1_000_000
_LOW_BITS: Final = 32


def _edges() -> Ints:
    edges = [0]
    while edges[-1] < _HIGHEST:
        edges.append(max(edges[-1] + 1, math.floor(edges[-1] * _WIDTH)))
    return np.array(edges, dtype=np.int64)


EDGES: Final = _edges()
"""The largest value of each bin; up to 200 every number has a bin of its own."""

BINS: Final = len(EDGES)


def ticks(seconds: Floats) -> Ints:
    """Return times in microseconds, in which they are counted: sums of whole numbers know no order."""
    return np.rint(seconds * _TICKS_PER_S).astype(np.int64)


class Sketch:
    """The distribution of whole numbers from 0 on, for each of several rows; those of two tasks add up."""

    def __init__(self, rows: int) -> None:
        self.counts = np.zeros((rows, BINS), dtype=np.int64)
        self.high = np.zeros(rows, dtype=np.int64)
        """The sum of the values in units of 2 to the 32; `low` is the rest: one number would overflow."""

        self.low = np.zeros(rows, dtype=np.int64)
        self.largest = np.zeros(rows, dtype=np.int64)

    def add(self, row: Ints, values: Ints) -> None:
        """Count values, each in a row."""
        place = row * BINS + np.searchsorted(EDGES, values)
        self.counts += np.bincount(place, minlength=self.counts.size).reshape(self.counts.shape)
        np.add.at(self.low, row, values & (2**_LOW_BITS - 1))
        np.add.at(self.high, row, values >> _LOW_BITS)
        self._carry()
        np.maximum.at(self.largest, row, values)

    def merge(self, other: Sketch) -> None:
        """Take in what another one has counted."""
        self.counts += other.counts
        self.low += other.low
        self.high += other.high
        self._carry()
        np.maximum(self.largest, other.largest, out=self.largest)

    def combined(self, rows: Ints) -> Sketch:
        """Return one row for several together."""
        found = Sketch(1)
        found.counts[0] = self.counts[rows].sum(axis=0)
        found.low[0], found.high[0] = self.low[rows].sum(), self.high[rows].sum()
        found.largest[0] = self.largest[rows].max()
        found._carry()
        return found

    def total(self, row: int) -> int:
        """Return the sum of a row's values."""
        return (int(self.high[row]) << _LOW_BITS) + int(self.low[row])

    def size(self, row: int) -> int:
        """Return how many values a row has."""
        return int(self.counts[row].sum())

    def _carry(self) -> None:
        self.high += self.low >> _LOW_BITS
        self.low &= 2**_LOW_BITS - 1


def quantile(counts: Ints, largest: int, share: float, never: int = 0) -> int | None:
    """Return the smallest edge that at least `share` (above 0, to 1) of the counted values do not exceed.

    It is above the value itself by up to half a percent, and never above the largest one. `never`: so many
    more are above all that are counted: None = the edge is among those.
    """
    ends = np.cumsum(counts)
    size = int(ends[-1])
    rank = max(1, math.ceil(share * (size + never)))
    return None if rank > size else min(largest, int(EDGES[np.searchsorted(ends, rank)]))
