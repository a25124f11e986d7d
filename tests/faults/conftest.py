"""The plant that the fault tests break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.faults.plant import Plant


@pytest.fixture
def plant(tmp_path: Path, own_server: EmbeddedServer) -> Iterator[Plant]:
    """Return a plant without agents."""
    with Plant(tmp_path, own_server) as plant:
        yield plant
