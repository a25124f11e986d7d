"""The demo end to end, as a process of its own: what it finds, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, Self

import pytest

from demo.scenario import BROKERS, SCENARIO
from tests.demo.processes import ProcessId, descendants, is_alive, needs_proc
from tests.support import wait_until

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
PROCESSES: Final = 3 + 2 * len(BROKERS)
"""The server and its guard, the guard of the fleet, a broker and an agent for each name."""

DEMO_S: Final = 80.0
"""Three times as long as it takes: all its deadlines together are a minute."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a path so short that a socket fits into it."""
    with tempfile.TemporaryDirectory(prefix="d") as path:
        yield Path(path)


class Demo:
    """A running demo and all processes that were ever seen below it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.seen: set[ProcessId] = set()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "demo", "--json"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(folder), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.output, self._read_output = _collected(self.process.stdout)
        self.progress, self._read_progress = _collected(self.process.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._read_output.join()
        self._read_progress.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def look(self) -> bool:
        """Note which processes are there; whether the demo has ended."""
        self.seen |= descendants(self.process.pid)
        return self.process.poll() is not None

    def await_progress(self, text: str) -> None:
        """Wait until the demo has said something."""

        def said() -> bool:
            assert not self.look(), "".join(self.progress)
            return any(text in line for line in self.progress)

        wait_until(said, timeout_s=DEMO_S, description=f"{text!r} is said")

    def await_end(self) -> int:
        """Wait until the demo has ended; return its exit status."""
        wait_until(self.look, timeout_s=DEMO_S, description="the demo ends")
        self._read_output.join()
        self._read_progress.join()
        return self.process.wait()

    def await_nothing_left(self) -> None:
        """Wait until no process of the demo is left."""
        assert len(self.seen) >= PROCESSES
        wait_until(
            lambda: not any(map(is_alive, self.seen)),
            description=f"all of {sorted(one.pid for one in self.seen)} are gone",
        )


def _collected(pipe: IO[str] | None) -> tuple[list[str], threading.Thread]:
    assert pipe is not None
    lines: list[str] = []
    thread = threading.Thread(target=lambda: lines.extend(iter(pipe.readline, "")))
    thread.start()
    return lines, thread


@needs_proc
def test_every_event_is_seen_no_message_is_lost_and_nothing_is_left(folder: Path) -> None:
    settings_of_others = {"SHAREDROUTES_TOPICS": "/nowhere", "SHAREDROUTES_PROBE": "127.0.0.1:1"}
    with Demo(folder, **settings_of_others) as demo:
        status = demo.await_end()
        told = "".join(demo.progress)
        demo.await_nothing_left()
        assert status == 0, told
        report: dict[str, Any] = json.loads("".join(demo.output))
    assert report["ok"], told
    assert report["messages"]["lost"] == 0
    assert report["messages"]["sent"] == sum(event["messages"] for event in report["events"])
    assert [event["event"] for event in report["events"]] == [event.name for event in SCENARIO]
    assert all(event["seen"] for event in report["events"])
    assert report["duration_s"] < DEMO_S
    assert all(event.title in told for event in SCENARIO)
    assert list(folder.iterdir()) == []


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_a_frozen_host_too(folder: Path, number: signal.Signals) -> None:
    with Demo(folder) as demo:
        demo.await_progress("its host is lost")
        demo.process.send_signal(number)
        assert demo.await_end() == 128 + number, "".join(demo.progress)
        demo.await_nothing_left()
    assert demo.output == []
    assert demo.progress[-1] == f"ended by {number.name}\n"
    assert list(folder.iterdir()) == []


@needs_proc
def test_a_demo_that_is_killed_leaves_no_process(folder: Path) -> None:
    with Demo(folder) as demo:
        demo.await_progress("its host is lost")
        demo.process.kill()
        assert demo.await_end() == -signal.SIGKILL
        demo.await_nothing_left()
