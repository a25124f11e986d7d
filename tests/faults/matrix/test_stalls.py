"""What the kernel says of a process that is ready and does not run, and nothing of one that is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.faults.checker.history import Late, Writer, read_file
from tests.faults.matrix.fleet import Fleet
from tests.faults.matrix.stalls import EVERY_S, Stalls, waited_ns
from tests.support import process_state, wait_until

_BUSY = "import os; os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))\nwhile True: pass"
"""It takes turns with others also under `chrt`: otherwise nothing that could end it would run again."""

_LEAST_NS = 50_000_000


needs_schedstat = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel does not tell who waits"
)


def waited(pid: int) -> int:
    """Return for how long all threads of a process waited."""
    return sum(waited_ns(pid).values())


def ran_ns(pid: int) -> int:
    """Return for how long a process of one thread has run."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])


@contextmanager
def on_one_core(count: int) -> Iterator[list[int]]:
    """Run busy processes that share a core; yield their pids."""
    (core, *_) = os.sched_getaffinity(0)
    with ExitStack() as stack:
        busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
        for process in busy:
            stack.callback(process.wait)
            stack.callback(process.kill)
            os.sched_setaffinity(process.pid, {core})
        yield [process.pid for process in busy]


@needs_schedstat
def test_who_shares_a_core_waits_and_who_is_stopped_does_not() -> None:
    with on_one_core(2) as (first, second):
        wait_until(lambda: min(waited(first), waited(second)) > _LEAST_NS, description="both have waited")
        os.kill(first, signal.SIGSTOP)
        wait_until(lambda: process_state(first) == "T", description="it had its turn, and stopped")
        stopped, ran = waited(first), ran_ns(second)
        wait_until(lambda: ran_ns(second) > ran + 4 * _LEAST_NS, description="time has passed")
        assert waited(first) - stopped < _LEAST_NS
    assert waited_ns(first) == {}


class Few:
    """A fleet of a few processes, on a store without servers."""

    store = SimpleNamespace(servers=[], helpers=[])

    def __init__(self, pids: dict[str, int | None]) -> None:
        self._pids = pids

    def __iter__(self) -> Iterator[SimpleNamespace]:
        return iter([SimpleNamespace(name=name, pid=pid) for name, pid in self._pids.items()])


@needs_schedstat
def test_it_is_written_down_who_waited_and_that_the_harness_did(tmp_path: Path) -> None:
    with on_one_core(2) as (first, _), Writer(tmp_path, "driver") as history:
        pids = {"busy": first, "idle": os.getpid(), "gone": None}
        stalls = Stalls(cast("Fleet", Few(pids)), history)

        def written() -> set[str]:
            stalls.look()
            found = read_file(tmp_path / "driver.jsonl")
            return {event.process for event in found if isinstance(event, Late)}

        wait_until(lambda: "busy" in written(), pause_s=EVERY_S, description="who was busy has waited")
        assert "gone" not in written()
        time.sleep(2 * EVERY_S)  # so late is the next look
        assert "" in written()
