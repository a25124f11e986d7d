"""An ingest that is killed in the middle, again and again, loses no change and doubles none."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from sharedroutes.registry import EmbeddedServer
from tests.fix_spark import need_java
from tests.pipeline.ingest_kills import Child, Kill, check, child, driver_alone, worker, writing

pytestmark = pytest.mark.long

CHANGES = 4_000


@pytest.mark.timeout(600)
def test_each_change_is_there_once_after_five_kills(own_server: EmbeddedServer, tmp_path: Path) -> None:
    need_java()
    out, rng = tmp_path / "out", random.Random()
    with ExitStack() as stack:  # what is left of the first one lives on meanwhile
        with writing(own_server.url, CHANGES, 40):
            _killed(
                stack.enter_context(child(own_server.url, out, "endless")), rng, worker, worker, driver_alone
            )
        last = stack.enter_context(child(own_server.url, out, "once"))
        _killed(last, rng, worker, worker)
        last.line("done")
    assert check(out, own_server.url) == CHANGES


def _killed(running: Child, rng: random.Random, *kills: Kill) -> None:
    """Kill in the batches that follow those that are told."""
    for kill in kills:
        running.line("batch")
        kill(running, rng)
