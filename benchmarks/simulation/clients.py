"""Which clients meet which faults: a block of clients at a time, with the topics that they use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from .config import KINDS, FleetConfig
from .draws import Floats, Ints, Purpose, generator, uniform
from .faults import Faults

__all__ = ["Met", "Population", "block_size", "blocks"]

_MOST_CLIENTS: Final = 8_192
_PAIRS: Final = 200_000
"""Pairs of a client and a fault that a block may have in the mean: what bounds the memory of a task."""


def block_size(config: FleetConfig) -> int:
    """Return how many clients a block has, which the settings alone decide."""
    rate = sum(config.faults.of(kind).per_hour for kind in KINDS)
    traffic = config.traffic
    each = traffic.topics_per_client * traffic.brokers_per_topic * max(1.0, rate * config.hours)
    return max(1, min(_MOST_CLIENTS, config.clients, int(_PAIRS / each)))


def blocks(config: FleetConfig) -> int:
    """Return how many blocks of clients there are."""
    return -(-config.clients // block_size(config))


@dataclass(frozen=True, slots=True)
class Met:
    """The pairs of a client and a fault of a broker that it uses, of one block of clients."""

    clients: int
    """How many clients the block has."""

    client: Ints
    """Which of them."""

    fault: Ints
    slots: Ints
    """How many of the client's topics are on the broker; one that was drawn twice counts twice."""

    def __len__(self) -> int:
        return len(self.client)


class Population:
    """The topics of all clients, and their brokers; the same for every task."""

    def __init__(self, config: FleetConfig) -> None:
        self._config = config
        self._cumulated = _cumulated(config)

    def topics(self, rng: np.random.Generator, clients: int) -> Ints:
        """Return the topics of some clients: an array of clients x topics of a client."""
        shape = (clients, self._config.traffic.topics_per_client)
        if self._cumulated is None:
            return np.asarray(rng.integers(0, self._config.topics, shape), dtype=np.int64)
        found = np.searchsorted(self._cumulated, rng.random(shape) * self._cumulated[-1], side="right")
        return np.asarray(np.minimum(found, self._config.topics - 1), dtype=np.int64)

    def brokers(self, topics: Ints) -> Ints:
        """Return the brokers of topics, in one more dimension.

        A topic begins at a broker of its own and goes on in even steps around the ring of all brokers.
        """
        config = self._config
        first = uniform(config.seed, Purpose.PLACES, topics) * config.brokers
        each = config.traffic.brokers_per_topic
        steps = np.arange(each) * (config.brokers // each)
        return np.asarray((first.astype(np.int64)[..., np.newaxis] + steps) % config.brokers)

    def met(self, faults: Faults, block: int) -> Met:
        """Return the faults that the clients of a block meet, by client and fault."""
        config = self._config
        size = block_size(config)
        clients = min(size, config.clients - block * size)
        topics = self.topics(generator(config.seed, Purpose.TOPICS, block), clients)
        brokers = self.brokers(topics).reshape(clients, -1)
        client = np.broadcast_to(np.arange(clients)[:, np.newaxis], brokers.shape)
        per_broker = faults.per_broker
        is_met = per_broker[brokers] > 0
        pair, slots = np.unique(client[is_met] * config.brokers + brokers[is_met], return_counts=True)
        client, broker = pair // config.brokers, pair % config.brokers
        times = per_broker[broker]
        ends = np.cumsum(times)
        place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - times, times)
        fault = np.repeat(faults.first[broker], times) + place
        return Met(clients, np.repeat(client, times), fault, np.repeat(slots, times))


def _cumulated(config: FleetConfig) -> Floats | None:
    """Return the summed weights of the topics in order of their rank; None = all are alike."""
    exponent = config.traffic.zipf_exponent
    if exponent == 0:
        return None
    return np.cumsum(np.arange(1, config.topics + 1, dtype=np.float64) ** -exponent)
