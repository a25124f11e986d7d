"""What tests share: awaiting a condition instead of sleeping, and time in which this process could run."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

T = TypeVar("T")

LONG: Final = os.environ.get("SHAREDROUTES_TESTS") == "long"
"""Whether the long tests run too, and each test draws all of its examples: `make test-all`."""

ASKED_EXAMPLES: Final = int(os.environ.get("SHAREDROUTES_EXAMPLES", "0"))
"""So many examples each test is to draw at random; 0 = its own number, the same ones at every run."""

_SOURCE: Final = str(Path(__file__).parents[1] / "src")
_SHARE: Final = 4
_FEW: Final = 10

_POLL_S: Final = 0.002
_TICK_S: Final = 0.01

PATIENCE_S: Final = 10.0
"""For a busy machine; less than the 15 s after which a client reads everything again, whatever it heard."""


def examples(count: int) -> int:
    """Return how many examples a test draws: `count` in `make test-all`, a quarter of them in `make test`."""
    return ASKED_EXAMPLES or (count if LONG else max(min(count, _FEW), count // _SHARE))


class _Runs(Protocol):
    def run(self) -> Coroutine[Any, Any, object]: ...

    def stop(self) -> object: ...


R = TypeVar("R", bound=_Runs)


@asynccontextmanager
async def kept_running(program: R) -> AsyncIterator[R]:
    """Run something that is told to stop, in a task, and wait for its end."""
    task = asyncio.create_task(program.run())
    try:
        yield program
    finally:
        program.stop()
        await task


def run_python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own, which finds the package whether it is installed or not."""
    command = (sys.executable, "-c", program, *arguments)
    environment = {**os.environ, "PYTHONPATH": _SOURCE}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def process_state(pid: int) -> str:
    """Return the letter of Linux for what a process does (T: stopped, Z: ended); empty = it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until(
    predicate: Callable[[], T],
    *,
    timeout_s: float = PATIENCE_S,
    pause_s: float = _POLL_S,
    description: str,
) -> T:
    """Return the first true value of `predicate`; raise AssertionError after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not (value := predicate()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s} s: {description}")
        pause.wait(pause_s)
    return value


async def await_until(
    predicate: Callable[[], Any], *, timeout_s: float = PATIENCE_S, description: str
) -> Any:
    """Return the first true value of `predicate`, a function or a coroutine function; raise as wait_until."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = predicate()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s} s: {description}")
        await asyncio.sleep(_POLL_S)


class Stopwatch:
    """Measures how long a block takes, without the time in which this process could not run.

    A deadline is kept by who is let run: a machine that stands still for two seconds proves nothing.
    """

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        self._began_s = self._ended_s = 0.0
        self._stalled_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="stopwatch", daemon=True)

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended_s = time.monotonic()
        self._stopping.set()
        self._thread.join()
        self.elapsed_s = max(0.0, self._ended_s - self._began_s - self._stalled_s)

    def _tick(self) -> None:
        before_s, ends = self._began_s, False
        while not ends:
            ends = self._stopping.wait(_TICK_S)
            now_s = self._ended_s if ends else time.monotonic()
            self._stalled_s += max(0.0, now_s - before_s - _TICK_S)
            before_s = now_s
