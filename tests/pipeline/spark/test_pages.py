"""Every Python block of the pages on the pipeline runs as it stands: only servers and folders are put in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from sharedroutes.client.observers.events import AttemptEnded, ClockRead
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.registry import Broker, EmbeddedServer, RegistryConfig, RouteStore, TopicConfig
from tests.broker_agent.data_files import put, topics_json
from tests.pages.blocks import blocks_of
from tests.pipeline.commands import run

pytestmark = pytest.mark.long

BLOCKS: Final = {block.place: block.text for page in blocks_of(__file__).values() for block in page}
FLEET: Final = {
    "brokers=1_000": "brokers=10",
    "topics=100_000": "topics=100",
    "clients=100_000": "clients=100",
}
"""The fleet of the page on the simulator takes minutes."""


@pytest.fixture(scope="module")
def names(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return what stands here for what the pages name: a registry, its history, samples of a client."""
    place = tmp_path_factory.mktemp("pages")
    with (
        EmbeddedServer() as server,
        RouteStore.from_url(server.url, RegistryConfig(lease_ttl_s=600.0)) as store,
    ):
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        assert run("ingest", "--once", "--redis", server.url, "--out", place / "data").status == 0
        spark.read.format("routes").option("url", server.url).load().write.parquet(str(place / "routes"))
        put(place / "dump" / "broker-z" / "topics.json", topics_json("orders", "payments"))
        with SampleRecorder(place / "samples", client="c", share=1.0) as recorder:
            recorder.on_event(ClockRead(1_700_000_000.0, 0.0, 0.001))
            recorder.on_event(AttemptEnded("orders", "broker-a", 0.1, "ok"))
        yield {
            **dict.fromkeys(
                ("redis://127.0.0.1:6379", "redis://n:6379", "redis://s:6379"), server.url.removesuffix("/0")
            ),
            **{f'"{name}"': repr(str(place / name)) for name in ("changes", "checkpoint")},
            "/data/routes": str(place / "data"),
            '"history"': repr(str(place / "data")),
            "/var/lib/checkout/samples": str(place / "samples"),
            '"routes-today"': repr(str(place / "routes")),
            '"dump/"': repr(str(place / "dump")),
            **FLEET,
        }


@pytest.mark.parametrize("code", BLOCKS.values(), ids=BLOCKS)
def test_a_block_runs_as_it_stands(
    code: str, names: dict[str, str], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    for name, here in names.items():
        code = code.replace(name, here)
    exec(compile(code, request.node.name, "exec"), {"__name__": "__main__"})  # noqa: S102 - a notebook does that
    silent = "compact(" in code or "to_table(" in code
    assert silent or capsys.readouterr().out, "it shows nothing, so nobody can see that it works"
