"""The benchmark of the front against RocketMQ's own name server runs, and measures something."""

from __future__ import annotations

import math

import pytest

from benchmarks import nameserver, nameserver_faults
from benchmarks.kit.figures import Outcome

SIZE = nameserver.Size(
    rounds=1,
    round_s=0.3,
    warm_up_s=0.3,
    connections=2,
    brokers=2,
    topics=5,
    many_topics=20,
    registrations=1,
    registering=3,
    settle_s=1.5,
    idle=5,
    paced=50,
)
FAULTS = nameserver_faults.Size(threads=1, before_s=1.0, after_s=0.5, kills=1, stops=0)


def measured(outcome: Outcome) -> dict[str, float]:
    """Return the figures by their names; skips the test where nothing was measured."""
    if not outcome.figures:
        pytest.skip(outcome.notes[0])
    found = {figure.name: figure.median for figure in outcome.figures}
    assert len(found) == len(outcome.figures)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    return found


def test_fronts_are_compared_with_a_real_name_server() -> None:
    outcome = nameserver.run(SIZE)
    assert all(value > 0 for value in measured(outcome).values())
    assert sum(figure.target is not None for figure in outcome.figures) == 12


@pytest.mark.timeout(600)  # brokers take long to start, and producers to look at routes
def test_a_killed_broker_is_noticed_by_real_producers() -> None:
    found = measured(nameserver_faults.run(FAULTS))
    assert found["kill -9, front: until its answers lack the broker"] < 30
