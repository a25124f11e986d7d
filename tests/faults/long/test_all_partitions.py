"""Every kind of outage between an agent and the store."""

from __future__ import annotations

import pytest

from tests.faults.partitions import (
    ARRIVING,
    SILENT,
    cut_off_and_come_back,
    cut_off_without_standby,
    misunderstood,
)
from tests.faults.plant import Plant

pytestmark = pytest.mark.timeout(180)  # on a machine on which all takes its time


@pytest.mark.parametrize("outage", [name for name in SILENT if name != "hanging"])
def test_an_owner_that_is_cut_off_is_replaced_and_stands_by_when_it_is_back(
    plant: Plant, outage: str
) -> None:
    cut_off_and_come_back(plant, outage)


@pytest.mark.parametrize("outage", [name for name in SILENT if name != "half-open"])
def test_a_broker_whose_only_agent_is_cut_off_is_gone_until_it_is_back(plant: Plant, outage: str) -> None:
    cut_off_without_standby(plant, outage)


@pytest.mark.parametrize("outage", ARRIVING)
def test_agents_that_hear_nothing_of_what_they_do_end_with_one_owner(plant: Plant, outage: str) -> None:
    misunderstood(plant, outage)
