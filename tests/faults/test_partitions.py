"""An agent whose way to the store fails, while the store and its standby are well."""

from __future__ import annotations

import pytest

from tests.faults.partitions import cut_off_and_come_back, cut_off_without_standby
from tests.faults.plant import Plant

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]  # on a machine on which all takes its time


@pytest.mark.parametrize("outage", ["hanging"])
def test_an_owner_that_is_cut_off_is_replaced_and_stands_by_when_it_is_back(
    plant: Plant, outage: str
) -> None:
    cut_off_and_come_back(plant, outage)


@pytest.mark.parametrize("outage", ["half-open"])
def test_a_broker_whose_only_agent_is_cut_off_is_gone_until_it_is_back(plant: Plant, outage: str) -> None:
    cut_off_without_standby(plant, outage)
