"""On a real S3, two ingests do not both write, and a kill or a standstill loses and doubles no change."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pytest
import redis
from pyarrow import fs

from sharedroutes.registry import EmbeddedServer
from tests.fix_spark import need_java
from tests.pipeline.ingest_history import add, ids_once
from tests.pipeline.ingest_kills import Child, child, writing
from tests.ports import free_port
from tests.support import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TOOLS: Final = Path(__file__).resolve().parents[3] / ".venv" / "s3"
BUCKET: Final = "routes"
OUT: Final = f"s3a://{BUCKET}/history"
KEY: Final = "any"
SOON: Final = {"LEASE_S": "9"}


class S3:
    """A server on this machine, and what Spark needs to know of it."""

    def __init__(self, port: int, conf: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        jars = ",".join(map(str, sorted((TOOLS / "jars").iterdir())))
        of_hadoop = {
            "endpoint": self.url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": KEY,
            "secret.key": KEY,
        }
        settings = {f"spark.hadoop.fs.s3a.{name}": value for name, value in of_hadoop.items()}
        lines = [f"{name} {value}" for name, value in ({"spark.jars": jars} | settings).items()]
        (conf / "spark-defaults.conf").write_text("\n".join(lines))
        self.environment = {"SPARK_CONF_DIR": str(conf)}
        self.files = fs.S3FileSystem(
            endpoint_override=self.url,
            region="us-east-1",
            access_key=KEY,
            secret_key=KEY,
            allow_bucket_creation=True,
        )

    def ids(self) -> Counter[str]:
        """Return how often each id stands in the files, for who lists them all."""
        found = ds.dataset(f"{BUCKET}/history/changes", filesystem=self.files, partitioning="hive")
        return Counter(found.to_table(columns=["change_id"]).column("change_id").to_pylist())


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3]:
    need_java()
    if not (TOOLS / ".ready").exists():
        pytest.skip("there is no S3 here: make s3")
    found = S3(port := free_port(), tmp_path)
    with subprocess.Popen(
        [TOOLS / "bin" / "moto_server", "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_until(lambda: is_open(port), description="an S3")
            found.files.create_dir(BUCKET)
            yield found
        finally:
            server.kill()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _signalled(of: Child, number: int) -> None:
    os.killpg(of.process.pid, number)


def _ends(of: Child) -> None:
    assert of.process.stdin is not None
    of.process.stdin.close()
    of.line("done")


def test_one_that_was_killed_is_followed_and_a_second_one_is_refused(
    own_server: EmbeddedServer, s3: S3
) -> None:
    url = own_server.url
    with child(url, OUT, "endless", **s3.environment) as first, writing(url, 800, 40):
        first.line("batch")
        first.line("batch")
        _signalled(first, signal.SIGKILL)
    with child(url, OUT, "endless", **s3.environment, **SOON) as second:
        second.line("batch")
        with child(url, OUT, "once", **s3.environment, **SOON) as third:
            assert f"another ingest works below {OUT}: stop it" in third.line("failed")
        _ends(second)
    with child(url, OUT, "once", **s3.environment) as last:
        last.line("done")
    with redis.Redis.from_url(url) as client:
        assert s3.ids() == ids_once(client)


def test_one_that_stood_still_writes_nothing_after_another_one_went_on(
    own_server: EmbeddedServer, s3: S3
) -> None:
    with redis.Redis.from_url(own_server.url) as client:
        add(client, 100)
        with child(own_server.url, OUT, "endless", **s3.environment) as first:
            first.line("batch")
            _signalled(first, signal.SIGSTOP)
            add(client, 100)
            with child(own_server.url, OUT, "endless", **s3.environment, **SOON) as second:
                second.line("batch")
                _signalled(first, signal.SIGCONT)
                assert f"another ingest works below {OUT}" in first.line("failed")
                add(client, 100)
                second.line("batch")
                _ends(second)
        assert s3.ids() == ids_once(client)
