"""An ingest is stopped as `timeout`, or a shell, does it: by a signal to all of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import IO, cast

import pyarrow.dataset as ds
import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.fix_spark import need_java

pytestmark = pytest.mark.long


def test_a_sigterm_to_all_of_its_processes_ends_an_ingest_in_good_order(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    need_java()
    with RouteStore.from_url(own_server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    command = ("ingest", "--redis", own_server.url, "--out", "history")
    with subprocess.Popen(
        (sys.executable, "-m", "sharedroutes.cli.pipeline", *command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        before = list(takewhile(lambda line: not line.startswith("batch "), cast("IO[str]", process.stderr)))
        assert before[-1] == "ingesting into history\n"
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "2 changes in 1 batches, 0 set aside\n"), err
    assert err == "stopping: a batch that is being written is finished first\n"
    assert ds.dataset(tmp_path / "history" / "changes", partitioning="hive").count_rows() == 2
