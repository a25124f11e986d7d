"""The command of the fault matrix: it ends with everything that it started, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import wait_until

ROOT = Path(__file__).parents[3]
WORKS_WITHIN_S = 120.0
ENDS_WITHIN_S = 30.0


def processes_in(folder: Path) -> list[str]:
    """Return the commands of the processes that name a folder, or run in it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            place = str((entry / "cwd").readlink())
        except OSError:  # it has just ended, or is somebody else's
            continue
        if str(folder) in command or str(folder) in place:
            found.append(command)
    return found


@contextmanager
def matrix(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run the command, with all its folders in this one; the end of the block kills it."""
    log = folder / "said"
    command = [sys.executable, "-m", "tests.faults", "--out", str(folder / "out"), *arguments]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said)
    try:
        yield process, log
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("store", ["standalone", "cluster"])
def test_nothing_is_left_however_it_ends(tmp_path: Path, how: signal.Signals, store: str) -> None:
    faults = "pause-agent,pause-broker,kill-front"
    arguments = ("--minutes", "5", "--deployments", store, "--faults", faults)
    with matrix(tmp_path, *arguments) as (process, log):
        wait_until(
            lambda: re.search(r"pause-agent|pause-broker|kill-front", log.read_text().partition("works")[2]),
            timeout_s=WORKS_WITHIN_S,
            description="the first fault",
        )
        assert len(processes_in(tmp_path)) > 10
        process.send_signal(how)
        assert process.wait(ENDS_WITHIN_S) == (-how if how == signal.SIGKILL else 128 + how)
    wait_until(
        lambda: not processes_in(tmp_path),
        timeout_s=ENDS_WITHIN_S,
        description=f"nothing is left: {processes_in(tmp_path)}",
    )


@pytest.mark.timeout(300)
def test_a_short_run_is_clean_and_stands_in_the_summary_and_in_its_plots(tmp_path: Path) -> None:
    arguments = ("--minutes", "0.2", "--seed", "1", "--deployments", "standalone", "--churn")
    plots = tmp_path / "plots"
    faults = ("--faults", "kill-agent-briefly,script-flush")
    with matrix(tmp_path, *arguments, *faults, "--plots", str(plots)) as (process, log):
        assert process.wait(WORKS_WITHIN_S) == 0, log.read_text()
    text = log.read_text()
    assert "standalone: clean" in text
    assert re.search(r"kill-agent-briefly +standalone +\d", text)
    assert "not exercised" not in text
    assert len([*plots.glob("*.svg")]) == 3
    assert processes_in(tmp_path) == []


def test_an_unknown_fault_is_named_with_those_there_are(tmp_path: Path) -> None:
    with matrix(tmp_path, "--faults", "kill-everybody") as (process, log):
        assert process.wait(ENDS_WITHIN_S) == 2
    assert re.search(r"kill-everybody: there are .*flushall", log.read_text())
