"""When which broker is away, and the store: drawn for all brokers at once, by blocks of brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .config import KINDS, FleetConfig, Happening
from .draws import Floats, Ints, Purpose, generator

__all__ = ["Faults", "Outages", "draw_faults", "draw_outages"]

_BLOCK: Final = 4_096


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults, by broker and time; their place is their number. Times in seconds since the start."""

    broker: Ints
    kind: Ints
    """Index in KINDS."""

    began_s: Floats
    lasted_s: Floats
    first: Ints
    """By broker: its first fault; one more at the end, so that those of broker n are first[n]..first[n+1]."""

    def __len__(self) -> int:
        return len(self.broker)

    @property
    def per_broker(self) -> Ints:
        """How many faults each broker has."""
        return np.diff(self.first)


@dataclass(frozen=True, slots=True)
class Outages:
    """When the store is away, in order of time; seconds since the start."""

    began_s: Floats
    ended_s: Floats

    def __len__(self) -> int:
        return len(self.began_s)


def draw_faults(config: FleetConfig) -> Faults:
    """Return the faults that begin within the simulated time; each is played to its end.

    A broker has one at a time: while it is away, no other one begins.
    """
    parts = [_block(config, first) for first in range(0, config.brokers, _BLOCK)]
    broker, kind = (np.concatenate(column) for column in zip(*(part[:2] for part in parts), strict=True))
    began_s, lasted_s = (np.concatenate(column) for column in zip(*(part[2:] for part in parts), strict=True))
    first = np.searchsorted(broker, np.arange(config.brokers + 1))
    return Faults(broker, kind, began_s, lasted_s, first)


def draw_outages(config: FleetConfig) -> Outages:
    """Return the outages of the store that begin within the simulated time."""
    rng = generator(config.seed, Purpose.OUTAGES)
    happening = config.faults.store_outage
    _, _, began_s, lasted_s = _played(rng, [happening], 1, config.duration_s)
    return Outages(began_s, began_s + lasted_s)


def _block(config: FleetConfig, first: int) -> tuple[Ints, Ints, Floats, Floats]:
    rng = generator(config.seed, Purpose.FAULTS, first // _BLOCK)
    brokers = min(_BLOCK, config.brokers - first)
    happenings = [config.faults.of(kind) for kind in KINDS]
    broker, kind, began_s, lasted_s = _played(rng, happenings, brokers, config.duration_s)
    return broker + first, kind, began_s, lasted_s


def _played(
    rng: np.random.Generator, happenings: list[Happening], members: int, until_s: float
) -> tuple[Ints, Ints, Floats, Floats]:
    """Return member, kind, begin and length of what happens to members one at a time, by member and begin."""
    rates = np.array([happening.per_hour for happening in happenings]) / 3_600
    found: list[tuple[Ints, Ints, Floats, Floats]] = []
    alive = np.arange(members if rates.sum() > 0 else 0)
    now_s = np.zeros(len(alive))
    while len(alive):
        now_s = now_s + rng.exponential(1 / rates.sum(), len(alive))
        alive, now_s = alive[now_s < until_s], now_s[now_s < until_s]
        kind = rng.choice(len(rates), len(alive), p=rates / rates.sum())
        lasted_s = _lengths(rng, happenings, kind)
        found.append((alive, kind, now_s, lasted_s))
        now_s = now_s + lasted_s
    if not found:
        none, never = np.empty(0, dtype=np.int64), np.empty(0)
        return none, none, never, never
    member, kind = (np.concatenate(column) for column in zip(*(part[:2] for part in found), strict=True))
    began_s, lasted_s = (np.concatenate(column) for column in zip(*(part[2:] for part in found), strict=True))
    order = np.lexsort((began_s, member))
    return member[order], kind[order], began_s[order], lasted_s[order]


def _lengths(rng: np.random.Generator, happenings: list[Happening], kind: Ints) -> Floats:
    mean_s = np.array([happening.mean_s for happening in happenings])[kind]
    fixed = np.array([happening.fixed for happening in happenings])[kind]
    # Drawn for all, so that what is fixed does not change what is not.
    factor = rng.standard_exponential(len(kind))
    return np.asarray(mean_s * np.where(fixed, 1.0, factor))
