"""After an outage clients and agents are back when their own rules of trying again say so."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmarks.simulation.draws import Floats
from benchmarks.simulation.returning import agents_back_s, client_back_s, most_back_s

SAMPLE = 2_000
FAR = 1.95 * (2 / SAMPLE) ** 0.5
"""What samples of the same distribution exceed in one of a thousand cases."""


def distance(one: Floats, other: Floats) -> float:
    """Return the largest difference of two distributions (Kolmogorov-Smirnov)."""
    points = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def client(rng: random.Random, lasted_s: float, longest_s: float) -> float:
    """Return when one client is back, try by try, as ClientCore.failed says."""
    tried_s = rng.uniform(0.02, 0.1)
    while tried_s < lasted_s:
        tried_s += rng.uniform(0.5, longest_s)
    return tried_s - lasted_s


def agent(rng: random.Random, lasted_s: float, fails_s: float, heartbeat_s: float) -> float:
    """Return when one agent has told of its broker, try by try, as the planner says."""
    tried_s, failures, knows = rng.uniform(0, heartbeat_s), 0, False
    while True:
        if not knows and tried_s >= fails_s:
            tried_s, knows = fails_s, True
        if tried_s >= lasted_s:
            return tried_s - lasted_s
        failures += 1
        tried_s += min(heartbeat_s, 0.1 * 2 ** (failures - 1)) * rng.uniform(0.5, 1)


@pytest.mark.parametrize("lasted_s", [0.05, 2.0, 30.0, 4_000.0])
def test_clients_are_back_as_single_ones_are(lasted_s: float) -> None:
    rng = random.Random(1)
    single = np.array([client(rng, lasted_s, 6.0) for _ in range(SAMPLE)])
    found = client_back_s(np.random.default_rng(2), np.full(SAMPLE, lasted_s), 6.0)
    assert distance(found, single) < FAR


@pytest.mark.parametrize(("lasted_s", "fails_s"), [(2.0, 0.3), (2.0, 1.9), (30.0, 12.0), (2_000.0, 100.0)])
def test_agents_tell_as_single_ones_do(lasted_s: float, fails_s: float) -> None:
    rng, many = random.Random(1), np.random.default_rng(2)
    single = np.array([agent(rng, lasted_s, fails_s, 5.0) for _ in range(SAMPLE)])
    found = agents_back_s(
        lambda _: many.random(SAMPLE), np.full(SAMPLE, lasted_s), np.full(SAMPLE, fails_s), 5.0, 5.0
    )
    assert distance(found, single) < FAR


def test_most_brokers_are_back_as_single_ones_are() -> None:
    rng, longest_s, others = random.Random(1), 5.0, 4
    single = []
    for _ in range(SAMPLE):
        back_s = sorted(
            agent(rng, rng.uniform(100, 200), 0.0, longest_s) + rng.uniform(0, 0.2) for _ in range(others)
        )
        # Of five brokers two may be missing, one of which is gone for good.
        single.append(back_s[2])
    found = most_back_s(np.random.default_rng(2), others, longest_s, SAMPLE)
    assert distance(found, np.array(single)) < FAR


def test_a_client_with_one_broker_never_sees_most_of_them_again() -> None:
    assert np.isinf(most_back_s(np.random.default_rng(1), 0, 5.0, 3)).all()
