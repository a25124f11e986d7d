"""Pauses and deaths whose outcome takes longer to await."""

from __future__ import annotations

import pytest

from tests.faults.plant import Plant

pytestmark = pytest.mark.timeout(180)  # on a machine on which all takes its time


def test_a_broker_that_died_while_its_agent_slept_is_not_registered_until_it_is_back(plant: Plant) -> None:
    agent = plant.agent("agent")
    plant.until_served()
    agent.pause()
    plant.broker.kill()
    plant.until_gone()
    agent.resume()
    agent.until_said("the broker is gone")
    plant.until_gone()
    plant.broker.start()
    plant.until_served()


def test_agents_that_are_both_killed_are_forgotten_and_replaced(plant: Plant) -> None:
    first, second = plant.agent("first"), plant.agent("second")
    plant.until_served()
    first.kill()
    second.kill()
    plant.until_gone()
    second.start()
    plant.until_served()
