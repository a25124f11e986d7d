"""Eight kills of an ingest, each of a random kind at a random point of a batch."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sharedroutes.registry import EmbeddedServer
from tests.pipeline.ingest_kills import check, child, driver_alone, everything, worker, writing

CHANGES = 20_000
KILLS = 8
MOST_PAUSE_S = 1.5


@pytest.mark.timeout(900)
def test_each_change_is_there_once_after_many_kills(
    own_server: EmbeddedServer, tmp_path: Path, spark: SparkSession
) -> None:
    out, rng, pause = tmp_path / "out", random.Random(1), threading.Event()
    with writing(own_server.url, CHANGES, 40):
        for _ in range(KILLS):
            with child(own_server.url, out, "endless") as running:
                running.line("batch")
                pause.wait(rng.uniform(0, MOST_PAUSE_S))
                rng.choice((everything, driver_alone, worker))(running, rng)
    with child(own_server.url, out, "once") as running:
        running.line("done")
    assert check(out, own_server.url, spark) == CHANGES
