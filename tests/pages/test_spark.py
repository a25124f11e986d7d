"""The commands of the pages on the pipeline and the simulator, on Spark of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sharedroutes.client.observers.events import AttemptEnded, ClockRead
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from tests.fix_spark import need_java
from tests.pages.blocks import ROOT, Block, blocks_of
from tests.pages.shell import Shell
from tests.pipeline.processes.test_submit import zipped_wheel
from tests.support import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_200)]

BLOCKS: Final = blocks_of(__file__)
SMALL: Final = {
    "'yesterday noon'": "now",
    "--brokers 1000 --clients 100000": "--brokers 10 --clients 100 --topics 100 --hours 1",
}
"""Nothing has happened here yesterday, and the fleet of the page on the simulator takes minutes."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    return zipped_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def shell(own_server: EmbeddedServer, wheel: Path, tmp_path: Path) -> Iterator[Shell]:
    """Return a terminal with a wheel and samples, where Spark is local and HDFS is a folder."""
    need_java()
    with SampleRecorder(tmp_path / "lib" / "checkout" / "samples", client="c", share=1.0) as recorder:
        recorder.on_event(ClockRead(1_700_000_000.0, 0.0, 0.001))
        recorder.on_event(AttemptEnded("orders", "broker-a", 0.1, "ok"))
    place = tmp_path / "checkout"
    place.mkdir()
    for name in ("benchmarks", "examples"):
        (place / name).symlink_to(ROOT / name)
    here = {
        "redis://127.0.0.1:6379/0": own_server.url,
        "redis://store:6379/0": own_server.url,
        "spark://host:7077": "'local[1]'",
        "--master yarn": "--master 'local[1]' --conf spark.sql.shuffle.partitions=2",  # for a few rows
        "hdfs:///routes": str(tmp_path / "hdfs"),
        "/var/lib": str(tmp_path / "lib"),
        "dist/sharedroutes-0.1.0-py3-none-any.whl": str(wheel),
    }
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    config = RegistryConfig(lease_ttl_s=600.0)
    with (
        RouteStore.from_url(own_server.url, config) as store,
        Shell(place, here | SMALL, environment) as shell,
    ):
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        yield shell


@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_the_commands_of_a_page_run_as_they_stand(blocks: list[Block], shell: Shell) -> None:
    for block in blocks:
        if "pipeline_submit.py" in block.text and "ingest" in block.text:
            shell.end("sharedroutes pipeline ingest")  # only one may write to a folder
        shell.until_shown(block)
        if " ingest " in block.text:
            wait_until(
                lambda: "changes in" in shell.log(), timeout_s=400, description="it has written a batch"
            )
