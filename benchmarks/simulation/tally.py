"""Plays blocks of clients, and adds up what came of them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

import numpy as np

from .clients import Met, Population
from .config import KINDS, FleetConfig
from .draws import Floats, Ints, Purpose, generator
from .faults import draw_faults, draw_outages
from .learning import World, avoid_s
from .sending import Sends, misdirected
from .sketch import Sketch, ticks
from .systems import System

__all__ = ["PAIR_MEASURES", "Played", "Tally", "play", "play_block", "world_of"]

PAIR_MEASURES: Final = ("avoid_s", "exposed_s", "misdirected")
"""Those measures that have a value for each pair of a client and a fault."""

_AVOID: Final = 0
_EXPOSED: Final = 1
_MISDIRECTED: Final = 2


class Played:
    """What came of the pairs of a client and a fault, for one system; inf in `avoid_s` = never."""

    __slots__ = ("avoid_s", "avoided", "exposed_s", "misdirected")

    def __init__(self, avoid_s: Floats, lasted_s: Floats, sends: Sends) -> None:
        self.avoid_s = avoid_s
        self.avoided = avoid_s < lasted_s
        self.exposed_s = np.minimum(np.minimum(avoid_s, lasted_s), sends.known_s)
        self.misdirected = sends.misdirected


def world_of(config: FleetConfig) -> World:
    """Return what happens in a run."""
    return World(config, draw_faults(config), draw_outages(config))


def play_block(world: World, system: System, met: Met, block: int) -> Played:
    """Play the pairs of a block of clients with one system."""
    config, traffic = world.config, world.config.traffic
    delay_s = avoid_s(world, system, met, generator(config.seed, Purpose.LEARNING, block))
    lasted_s = world.faults.lasted_s[met.fault]
    refused = np.array([kind in ("crash", "restart") for kind in KINDS])[world.faults.kind[met.fault]]
    sends = misdirected(
        generator(config.seed, Purpose.SENDING, block),
        met.slots * traffic.sends_per_s / (traffic.topics_per_client * traffic.brokers_per_topic),
        np.minimum(delay_s, lasted_s),
        np.where(refused, traffic.refused_s, traffic.timeout_s),
        system.faults,
        traffic.brokers_per_topic,
    )
    return Played(delay_s, lasted_s, sends)


def play(config: FleetConfig, blocks: Iterable[int]) -> Tally:
    """Play blocks of clients with all systems."""
    world, population = world_of(config), Population(config)
    tally = Tally(len(config.systems), len(world.faults))
    for block in blocks:
        met = population.met(world.faults, block)
        tally.met += np.bincount(met.fault, minlength=len(world.faults))
        for number, system in enumerate(config.systems):
            tally.add(number, world, met, play_block(world, system, met, block))
    return tally


class Tally:
    """Counts and sums of whole numbers, so that it does not matter in which order they are added up."""

    def __init__(self, systems: int, faults: int) -> None:
        self.systems = systems
        self.pairs = Sketch(systems * len(KINDS) * len(PAIR_MEASURES))
        self.clients = Sketch(systems)
        """Misdirected sends of each client in the whole run."""

        self.never = np.zeros((systems, faults), dtype=np.int64)
        self.met = np.zeros(faults, dtype=np.int64)
        self.avoided = np.zeros((systems, faults), dtype=np.int64)
        self.misdirected = np.zeros((systems, faults), dtype=np.int64)
        self.exposed_us = np.zeros((systems, faults), dtype=np.int64)
        self.longest_us = np.zeros((systems, faults), dtype=np.int64)

    def row(self, system: int, kind: int, measure: int) -> int:
        """Return the row of `pairs` for a measure."""
        return (system * len(KINDS) + kind) * len(PAIR_MEASURES) + measure

    def add(self, system: int, world: World, met: Met, played: Played) -> None:
        """Take in what came of a block of clients with one system."""
        fault, kind = met.fault, world.faults.kind[met.fault]
        first = (system * len(KINDS) + kind) * len(PAIR_MEASURES)
        known = np.isfinite(played.avoid_s)
        exposed_us = ticks(played.exposed_s)
        self.pairs.add((first + _AVOID)[known], ticks(played.avoid_s[known]))
        self.pairs.add(first + _EXPOSED, exposed_us)
        self.pairs.add(first + _MISDIRECTED, played.misdirected)
        np.add.at(self.never[system], fault, ~known)
        of_clients = np.zeros(met.clients, dtype=np.int64)
        np.add.at(of_clients, met.client, played.misdirected)
        self.clients.add(np.full(met.clients, system), of_clients)
        np.add.at(self.avoided[system], fault, played.avoided.astype(np.int64))
        np.add.at(self.misdirected[system], fault, played.misdirected)
        np.add.at(self.exposed_us[system], fault, exposed_us)
        np.maximum.at(self.longest_us[system], fault, exposed_us)

    def merge(self, other: Tally) -> None:
        """Take in what another task has added up."""
        self.pairs.merge(other.pairs)
        self.clients.merge(other.clients)
        for mine, its in zip(self._sums(), other._sums(), strict=True):
            np.add(mine, its, out=mine)
        np.maximum(self.longest_us, other.longest_us, out=self.longest_us)

    def to_bytes(self) -> bytes:
        """Return all of it for another process."""
        content = io.BytesIO()
        np.savez_compressed(content, *self._arrays())
        return content.getvalue()

    def merge_bytes(self, content: bytes) -> None:
        """Take in what another process has added up."""
        other = Tally(self.systems, len(self.met))
        with np.load(io.BytesIO(content)) as arrays:
            for mine, name in zip(other._arrays(), arrays.files, strict=True):
                mine[...] = arrays[name]
        self.merge(other)

    def _sums(self) -> list[Ints]:
        return [self.never, self.met, self.avoided, self.misdirected, self.exposed_us]

    def _arrays(self) -> list[Ints]:
        sketches = [self.pairs, self.clients]
        parts = [[one.counts, one.high, one.low, one.largest] for one in sketches]
        return [*parts[0], *parts[1], *self._sums(), self.longest_us]
