"""When an agent sweeps."""

from __future__ import annotations

import random

import pytest

from sharedroutes.broker_agent.sweeper import pause_s
from sharedroutes.registry import RegistryConfig, Sweep


def pause(sweep: Sweep | None) -> float:
    return pause_s(sweep, RegistryConfig(sweeper_lease_s=1.0, lease_ttl_s=15.0), random.Random(1))


@pytest.mark.parametrize(
    ("wait_s", "expected"), [(None, 0.4), (14.0, 0.4), (0.3, 0.3), (0.001, 0.02), (0.0, 0.02)]
)
def test_the_sweeper_sleeps_until_a_lease_can_end_and_keeps_its_own(
    wait_s: float | None, expected: float
) -> None:
    assert pause(Sweep(held=False, wait_s=wait_s)) == pytest.approx(expected)


@pytest.mark.parametrize("sweep", [Sweep(held=True, wait_s=0.5), Sweep(held=True, wait_s=0.0), None])
def test_the_others_look_about_three_times_in_the_ttl_of_a_lease(sweep: Sweep | None) -> None:
    assert 3 <= pause(sweep) <= 6
