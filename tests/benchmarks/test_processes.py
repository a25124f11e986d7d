"""The processes of a benchmark end with it, also when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kit.processes import bound
from tests.support import process_state, wait_until

ROOT = Path(__file__).resolve().parents[2]
STARTER = """
import sys
from pathlib import Path
from benchmarks.kit.hosts import stand_in
from benchmarks.kit.server_process import ServerProcess
server = ServerProcess("sleeper", ("sleep", "600"), Path(sys.argv[1]), 0)
server.start()
with stand_in():
    children = Path(f"/proc/self/task/{__import__('os').getpid()}/children").read_text()
    print(children, flush=True)
    sys.stdin.read()
"""


def lives(pid: int) -> bool:
    return process_state(pid) not in ("", "Z")


@pytest.mark.skipif(bound("x") == ("x",), reason="no setpriv here")
def test_what_a_benchmark_has_started_ends_when_it_is_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", STARTER, str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as starter:
        assert starter.stdout is not None
        pids = [int(word) for word in starter.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(lives, pids))
        starter.send_signal(signal.SIGKILL)
        starter.wait()
    wait_until(lambda: not any(map(lives, pids)), description="both have ended")
