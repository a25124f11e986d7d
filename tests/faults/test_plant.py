"""A plant whose processes die and come back."""

from __future__ import annotations

import socket
from contextlib import suppress

from tests.faults.plant import Plant


def is_free(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe, suppress(OSError):
        probe.bind((host, int(port)))
        return True
    return False


def test_nobody_is_given_the_place_of_who_is_dead(plant: Plant) -> None:
    agent = plant.agent("first")
    plant.until_served()
    agent.kill()
    plant.broker.kill()
    assert not is_free(agent.http)
    assert not is_free(plant.broker.address)
    plant.broker.start()
    agent.start()
    plant.until_served()
