"""An ingest that is killed again and again while somebody writes, for a short test and a long one."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, TypeAlias, cast

import redis
from pyspark.sql import SparkSession

from sharedroutes.pipeline.ingest import stored_changes
from tests.pipeline.ingest_history import add, ids_on, ids_once
from tests.support import wait_until

_PATIENCE_S: Final = 120.0
_PAUSE_S: Final = 0.02


class Child:
    """A process of ingest_child, with all that it started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(cast("IO[str]", process.stdout),), daemon=True).start()

    def line(self, beginning: str) -> str:
        """Return the next line that begins so."""
        while True:
            line = self.lines.get(timeout=_PATIENCE_S)
            if line.startswith(beginning) or not line:
                assert line, f"it ended without a line {beginning!r}"
                return line.rstrip()

    def end(self) -> None:
        """Kill what is left of it."""
        _kill(lambda: os.killpg(self.process.pid, signal.SIGKILL))
        self.process.wait()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            self.lines.put(line)
        self.lines.put("")


@contextmanager
def child(url: str, out: Path | str, mode: str, *master: str, **more: str) -> Iterator[Child]:
    """Run an ingest, with `more` in its environment, and kill what is left of it in the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}
    command = [sys.executable, "-m", "tests.pipeline.ingest_child", url, str(out), mode, *master]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        found = Child(process)
        try:
            yield found
        finally:
            found.end()


def everything(of: Child, _: random.Random) -> None:
    """Kill driver, Java and workers at the same time, as a machine that goes down does."""
    _kill(lambda: os.killpg(of.process.pid, signal.SIGKILL))


def driver_alone(of: Child, _: random.Random) -> None:
    """Kill Python's process only: Java goes on for a moment."""
    of.process.kill()


def worker(of: Child, rng: random.Random) -> None:
    """Kill a Python process that reads for Spark, which has the task tried again."""
    workers = wait_until(lambda: _workers(of.process.pid), description="a worker")
    victim = rng.choice(workers)
    _kill(lambda: os.kill(victim, signal.SIGKILL))


Kill: TypeAlias = Callable[[Child, random.Random], None]


@contextmanager
def writing(url: str, total: int, at_once: int) -> Iterator[threading.Thread]:
    """Add changes all the time from another thread, so many in all."""

    def write() -> None:
        pause = threading.Event()
        with redis.Redis.from_url(url) as client:
            for _ in range(total // at_once):
                add(client, at_once)
                pause.wait(_PAUSE_S)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()


def check(out: Path, url: str, spark: SparkSession | None = None) -> int:
    """Assert that an ingest has each change once, for who lists all files and for Spark; return how many."""
    with redis.Redis.from_url(url) as client:
        expected = ids_once(client)
    assert ids_on(out) == expected
    if spark is not None:
        stored = stored_changes(spark, str(out)).select("change_id").collect()
        assert Counter(row.change_id for row in stored) == expected
    assert not list((out / "_staging" / "batches").iterdir())
    return len(expected)


def _workers(session_id: int) -> list[int]:
    """Return the processes of a session in which Python works for Spark."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            command = (path / "cmdline").read_bytes()
            if b"pyspark.daemon" in command and os.getsid(int(path.name)) == session_id:
                found.append(int(path.name))
        except OSError:  # it has ended
            continue
    return found


def _kill(act: Callable[[], None]) -> None:
    try:
        act()
    except ProcessLookupError:
        return
