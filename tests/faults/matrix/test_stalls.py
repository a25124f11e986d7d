"""What the kernel says of a process that is ready and does not run, and nothing of one that is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.matrix.stalls import waited_ns
from tests.support import wait_until

_BUSY = "while True: pass"
_LEAST_NS = 50_000_000


def waited(pid: int) -> int:
    """Return for how long all threads of a process waited."""
    return sum(waited_ns(pid).values())


def ran_ns(pid: int) -> int:
    """Return for how long a process of one thread has run."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell who waits")
def test_who_shares_a_core_waits_and_who_is_stopped_does_not() -> None:
    (core, *_) = os.sched_getaffinity(0)
    with ExitStack() as stack:
        busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(2)]
        for process in busy:
            stack.callback(process.wait)
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {core})
        first, second = (process.pid for process in busy)
        wait_until(lambda: min(waited(first), waited(second)) > _LEAST_NS, description="both have waited")
        os.kill(first, signal.SIGSTOP)
        stopped, ran = waited(first), ran_ns(second)
        wait_until(lambda: ran_ns(second) > ran + 4 * _LEAST_NS, description="time has passed")
        assert waited(first) - stopped < _LEAST_NS
    assert waited_ns(first) == {}
