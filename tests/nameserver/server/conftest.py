"""What all tests of the server share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _tasks_end_with_their_test() -> Iterator[None]:
    """Let what asyncio says of tasks that a test left come at its own end, and not in the log of another."""
    yield
    gc.collect()
