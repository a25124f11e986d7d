"""Random numbers that depend on the seed and on what they are for, and never on who draws them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Purpose", "exponential", "generator", "hashed", "uniform"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_DOWN: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
_SPARE_BITS: Final = np.uint64(11)
_ULP: Final = 2.0**-53


class Purpose(IntEnum):
    """What a random number is for: numbers for different things have nothing to do with each other."""

    FAULTS = 1
    OUTAGES = 2
    PLACES = 3
    TOPICS = 4
    LEARNING = 5
    SENDING = 6
    HEARTBEAT = 7
    SCAN = 8
    TRAFFIC = 9
    SWEEP = 10
    SWEEPER = 11
    HANG_CHECK = 12
    REJOIN = 13
    REGISTER = 14
    SWEEPER_LEASE = 15
    LOOK = 16


def generator(seed: int, purpose: Purpose, block: int = 0) -> np.random.Generator:
    """Return the generator of one block of brokers or clients."""
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence([seed, purpose, block])))


def hashed(seed: int, purpose: Purpose, one: Ints, other: Ints | int = 0) -> Words:
    """Return 64 random bits for each pair of numbers.

    Source: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    """
    with np.errstate(over="ignore"):
        found = _mixed(np.array([seed], dtype=np.uint64))
        found = _mixed(found ^ np.uint64(purpose))
        found = _mixed(found ^ np.asarray(one).astype(np.uint64))
        return _mixed(found ^ np.asarray(other).astype(np.uint64))


def uniform(seed: int, purpose: Purpose, one: Ints, other: Ints | int = 0) -> Floats:
    """Return a number within 0..1, without 1, for each pair of numbers."""
    return (hashed(seed, purpose, one, other) >> _SPARE_BITS).astype(np.float64) * _ULP


def exponential(seed: int, purpose: Purpose, one: Ints) -> Floats:
    """Return an exponentially distributed number with mean 1 for each number."""
    return -np.log1p(-uniform(seed, purpose, one))


def _mixed(words: Words) -> Words:
    words = words + _STEP
    words = (words ^ (words >> _DOWN[0])) * _FIRST
    words = (words ^ (words >> _DOWN[1])) * _SECOND
    found: Words = words ^ (words >> _DOWN[2])
    return found
