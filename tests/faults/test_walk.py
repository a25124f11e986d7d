"""A short random walk through faults; `make faults` takes longer ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.faults.plant import Plant
from tests.faults.walk import Walk

pytestmark = pytest.mark.timeout(180)  # on a machine on which all takes its time


def test_the_registry_tells_the_truth_after_any_order_of_faults(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    with Plant(tmp_path, own_server, heartbeat_s=0.3, lease_ttl_s=1.0) as plant:
        Walk(plant, random.getrandbits(32)).go(rounds=2, steps=6)
