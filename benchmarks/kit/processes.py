"""A process that measures elsewhere: it takes commands and answers, a line each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final, NamedTuple, cast

_END_S: Final = 10.0


class Child(NamedTuple):
    """Both ends of the talk with it."""

    commands: IO[str]
    answers: IO[str]

    def tell(self, command: str) -> None:
        """Give it a command, and wait until it has answered that it takes it."""
        self.send(command)
        self.answer()

    def send(self, command: str) -> None:
        """Give it a command."""
        self.commands.write(f"{command}\n")
        self.commands.flush()

    def answer(self) -> str:
        """Return its next line; raises RuntimeError when it has ended."""
        line = self.answers.readline()
        if not line:
            raise RuntimeError("a process of the benchmark has ended; it wrote the reason to standard error")
        return line


@contextmanager
def running(module: str, *arguments: str) -> Iterator[Child]:
    """Run `python -m benchmarks.<module>` with what this process can import, until the block ends."""
    command = (sys.executable, "-m", f"benchmarks.{module}", *arguments)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        child = Child(cast(IO[str], process.stdin), cast(IO[str], process.stdout))
        try:
            yield child
            child.commands.close()
            process.wait(_END_S)
        finally:
            process.kill()
