"""Random walks through faults; pytest-randomly's seed, which the run says at its start, decides on them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.faults.plant import Plant
from tests.faults.walk import Walk


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(6))
def test_the_registry_tells_the_truth_after_any_order_of_faults(
    tmp_path: Path, own_server: EmbeddedServer, number: int
) -> None:
    with Plant(tmp_path, own_server, heartbeat_s=0.3, lease_ttl_s=1.0) as plant:
        Walk(plant, random.getrandbits(31) + number).go(rounds=8, steps=8)
