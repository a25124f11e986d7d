"""A function of a benchmark in another process, which measures there; both talk in lines of JSON.

Both processes read the same monotonic clock.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import IO, Any, Final, NamedTuple, cast

_END_S: Final = 30.0
_READY: Final = "ready"
_PROGRAM: Final = "from benchmarks.kit.processes import main; main()"


class Child(NamedTuple):
    """The other process, by its standard input and output."""

    commands: IO[str]
    answers: IO[str]
    pid: int

    def tell(self, command: Any) -> None:
        """Send a command, and wait until the other process has begun with it."""
        self.send(command)
        self.await_ready()

    def send(self, command: Any) -> None:
        """Send a command."""
        self.commands.write(f"{json.dumps(command)}\n")
        self.commands.flush()

    def await_ready(self) -> None:
        """Wait until it is ready; raises RuntimeError when it says something else."""
        if (said := self.answer()) != _READY:
            raise RuntimeError(f"a process of the benchmark said {said!r} before it was ready")

    def answer(self) -> Any:
        """Return what it says next; raises RuntimeError when it has ended."""
        line = self.answers.readline()
        if not line:
            raise RuntimeError("a process of the benchmark has ended; the reason is on standard error")
        return json.loads(line)


def bound(*command: str) -> tuple[str, ...]:
    """Return a command that ends with the thread that starts it, however that ends (Linux, util-linux)."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--", *command) if setpriv else command


@contextmanager
def running(work: Callable[..., None], *arguments: Any) -> Iterator[Child]:
    """Run a function of a module in another process until the block ends; the arguments become JSON."""
    command = bound(sys.executable, "-c", _PROGRAM, work.__module__, work.__name__, json.dumps(arguments))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        child = Child(cast(IO[str], process.stdin), cast(IO[str], process.stdout), process.pid)
        try:
            yield child
            child.commands.close()
            process.wait(_END_S)
        finally:
            process.kill()


def allow_files() -> int:
    """Let this process, and those that it starts, have as many open files as they may; return how many."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def main() -> None:
    """Be the other process."""
    allow_files()
    _, module, name, arguments = sys.argv
    getattr(import_module(module), name)(*json.loads(arguments))


def commands() -> Iterator[Any]:
    """Yield the commands of the other process until it ends the block."""
    return map(json.loads, sys.stdin)


def say(answer: Any = _READY) -> None:
    """Answer the other process; without anything else, that this one is ready."""
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


def await_until(
    condition: Callable[[], bool], what: str, *, deadline_s: float = 60.0, poll_s: float = 0.05
) -> None:
    """Wait until a condition is true; raises TimeoutError, which names `what` was awaited."""
    give_up_s = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"not within {deadline_s:g} s: {what}")
        time.sleep(poll_s)
