"""The pipeline under spark-submit, from the wheel alone: neither driver nor workers have it installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pytest

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.fix_spark import need_java

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).resolve().parents[3]
NOT_COPIED: Final = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "*.egg-info", "tests", "docs"
)


def zipped_wheel(folder: Path) -> Path:
    """Build the wheel; Spark puts it on the path of its workers under the name of a zip only."""
    checkout = folder / "checkout"
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=NOT_COPIED)
    build = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder)
    subprocess.run(build, cwd=checkout, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel.rename(folder / "sharedroutes.zip")


def bare_python(folder: Path) -> Path:
    """Return an interpreter with what the package needs, without the package, which is installed in place."""
    python, needed = folder / "python", sysconfig.get_path("purelib")
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{needed}" exec "{sys.executable}" -S "$@"\n', encoding="utf-8"
    )
    python.chmod(0o755)
    return python


def run_bare(python: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program where that interpreter is."""
    own = {"PYTHONPATH": "", "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    return subprocess.run(
        arguments,
        env={**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=python.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def submit(master: str, wheel: Path, python: Path, *command: str | Path) -> str:
    """Have spark-submit run a command of the pipeline, and distribute the wheel; return what it printed."""
    spark_submit = Path(sysconfig.get_path("scripts"), "spark-submit")
    program = ROOT / "examples" / "pipeline_submit.py"
    done = run_bare(python, spark_submit, "--master", master, "--py-files", wheel, program, *command)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_an_ingest_runs_from_the_wheel_that_spark_submit_distributes(tmp_path: Path) -> None:
    need_java()
    wheel, python = zipped_wheel(tmp_path), bare_python(tmp_path)
    absent = run_bare(python, python, "-c", "import sharedroutes")
    assert "No module named 'sharedroutes'" in absent.stderr
    on_a_worker = f"import sys; sys.path.insert(0, './{wheel.name}'); import sharedroutes.pipeline.session"
    imported = run_bare(python, python, "-c", on_a_worker)
    assert imported.returncode == 0, imported.stderr
    with EmbeddedServer() as server, RouteStore.from_url(server.url) as store:
        broker = Broker("broker-a", "10.0.0.1:10911", 0, "c1")
        store.register(broker, {"orders": TopicConfig("orders", 4, 4)})
        submit("local[2]", wheel, python, "ingest", "--once", "--redis", server.url, "--out", "history")
    found = ds.dataset(tmp_path / "history" / "changes", partitioning="hive").to_table(columns=["kind"])
    assert sorted(found["kind"].to_pylist()) == ["topics", "up"]
