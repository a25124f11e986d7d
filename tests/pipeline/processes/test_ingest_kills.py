"""An ingest that is killed in the middle, again and again, loses no change and doubles none."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sharedroutes.registry import EmbeddedServer
from tests.pipeline.ingest_kills import check, child, driver_alone, everything, worker, writing

CHANGES = 4_000


@pytest.mark.timeout(600)
def test_each_change_is_there_once_after_five_kills(
    spark: SparkSession, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    out, rng = tmp_path / "out", random.Random()
    with (
        writing(own_server.url, CHANGES, 40),
        ExitStack() as stack,
    ):  # what is left of them lives on meanwhile
        for kills in ((worker, driver_alone), (worker, worker, everything)):
            running = stack.enter_context(child(own_server.url, out, "endless"))
            for kill in kills:
                running.line("batch")
                kill(running, rng)
        stack.enter_context(child(own_server.url, out, "once")).line("done")
    assert check(out, own_server.url, spark) == CHANGES
