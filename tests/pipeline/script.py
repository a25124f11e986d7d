"""Runs `sharedroutes pipeline ...` as it is installed: a process of its own, with a Java of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from tests.pipeline.commands import Ran

_SCRIPT: Final = Path(sysconfig.get_path("scripts"), "sharedroutes")
_MOST_S: Final = 300


def script(*words: object, before: Sequence[str] = ()) -> Ran:
    """Run a command to its end; `before` is what runs it."""
    command = [*before, str(_SCRIPT), "pipeline", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_MOST_S)
    return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def started(*words: object) -> Iterator[subprocess.Popen[str]]:
    """Run a command, whose standard error can be read meanwhile; kill what is left of it in the end."""
    with subprocess.Popen(
        [str(_SCRIPT), "pipeline", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a command with Java and all that it started, as a machine that goes down does."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def await_line(process: subprocess.Popen[str], beginning: str) -> None:
    """Read standard error up to a line that begins so."""
    told = []
    for line in cast("IO[str]", process.stderr):
        if line.startswith(beginning):
            return
        told.append(line)
    raise AssertionError(f"it ended without a line {beginning!r}: {''.join(told)}")
