"""Requests to a name server from a process that does nothing else, java/Load.java."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

from sharedroutes.remoting import RemotingCommand, encode

from .processes import bound
from .rocketmq import require_java

_PROGRAM: Final = Path(__file__).parent / "java" / "Load.java"
_JAVA: Final = ("java", "-XX:+UseSerialGC", "-Xms64m", "-Xmn32m")
"""What it keeps is small, and one thread does all its work."""

OPAQUE: Final = 1_000_000_000
"""The opaque of the frames: Load.java replaces it, digit by digit."""

_END_S: Final = 10.0
_ENDED: Final = "the process that sends requests has ended; it wrote the reason to standard error"


class Measured(NamedTuple):
    """What one load has found; times in us."""

    rate: float
    """Answers a second."""

    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float


class Load:
    """The process, by its standard input and output, and the frames that it may send."""

    def __init__(self, commands: IO[str], answers: IO[str], folder: Path) -> None:
        self._commands = commands
        self._answers = answers
        self._folder = folder
        self._numbers = count()
        self._seconds = 0.0

    def frames(self, commands: Iterable[RemotingCommand]) -> Path:
        """Write requests as `run` wants them; their opaque must be OPAQUE."""
        file = self._folder / f"frames-{next(self._numbers)}"
        file.write_bytes(b"".join(map(encode, commands)))
        return file

    def run(
        self, port: int, frames: Path, *, connections: int, seconds: float, rate: float = 0.0
    ) -> Measured:
        """Send requests for so long; raises RuntimeError when there is a wrong answer, or none."""
        self.begin(port, frames, connections=connections, seconds=seconds, rate=rate)
        return self.result()

    def begin(self, port: int, frames: Path, *, connections: int, seconds: float, rate: float = 0.0) -> None:
        """Begin with what `run` does: each connection waits for an answer before it sends the next request.

        `rate`: requests a second, of all connections together; 0 = as many as they can.
        """
        self._seconds = seconds
        self._commands.write(f"{port} {connections} {rate} {seconds} {frames}\n")
        self._commands.flush()

    def result(self) -> Measured:
        """Wait until that is over; raises RuntimeError."""
        line = self._answers.readline()
        if not line:
            raise RuntimeError(_ENDED)
        answers, *times = map(int, line.split())
        return Measured(answers / self._seconds, *(ns / 1_000 for ns in times))


@contextmanager
def load() -> Iterator[Load]:
    """Run the process that sends requests; raises JavaAbsent."""
    with _running() as process, tempfile.TemporaryDirectory(prefix="sharedroutes-load-") as folder:
        commands, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        yield Load(commands, answers, Path(folder))
        commands.close()
        process.wait(_END_S)


@contextmanager
def idle_server(answer: RemotingCommand) -> Iterator[int]:
    """Run what answers every request with the same frame, and yield its port; raises JavaAbsent.

    Nothing serves less: what a load of it reaches is what Load itself can do.
    """
    with tempfile.NamedTemporaryFile(prefix="sharedroutes-answer-") as file:
        Path(file.name).write_bytes(encode(answer))
        with _running("answer", file.name) as process:
            port = cast(IO[str], process.stdout).readline()
            if not port:
                raise RuntimeError(_ENDED)
            yield int(port)


@contextmanager
def _running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    require_java()
    with subprocess.Popen(
        bound(*_JAVA, str(_PROGRAM), *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()
