"""RocketMQ's own Java client beside ours, where Java and Maven are at hand."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

__all__ = ["FAULTY", "QUIET", "JavaAbsent", "Selection", "java_selection"]

QUIET: Final = "quiet"
FAULTY: Final = "faulty"

_FOLDER: Final = Path(__file__).parent / "java"
_CLASSPATH: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
_DOWNLOAD_S: Final = 120.0
_END_S: Final = 10.0


class JavaAbsent(Exception):
    """RocketMQ's client cannot be run here; says why."""


class Selection:
    """The Java process, by its standard input and output."""

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self._commands = commands
        self._answers = answers

    def nanoseconds(self, kind: str, count: int) -> float:
        """Return ns a selection, `kind` QUIET or FAULTY; raises RuntimeError when the process has ended."""
        self._commands.write(f"{kind} {count}\n")
        self._commands.flush()
        line = self._answers.readline()
        if not line:
            raise RuntimeError("the Java process has ended; it wrote the reason to standard error")
        return float(line)


@contextmanager
def java_selection(brokers: int, queues: int, isolated: int) -> Iterator[Selection]:
    """Run MQFaultStrategy with so many brokers of so many queues each; raises JavaAbsent."""
    command = ("java", "-cp", _classpath(), str(_FOLDER / "Select.java"))
    with subprocess.Popen(
        (*command, str(brokers), str(queues), str(isolated)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        commands, answers = cast(IO[str], process.stdin), cast(IO[str], process.stdout)
        try:
            yield Selection(commands, answers)
            commands.close()
            process.wait(_END_S)
        finally:
            process.kill()


def _classpath() -> str:
    """Return where Maven keeps RocketMQ's client and what it needs, after it has fetched them once."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise JavaAbsent(f"{tool} is not on PATH")
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
        command = ("mvn", "-q", "-B", "-f", str(_FOLDER / "pom.xml"), _CLASSPATH)
        try:
            subprocess.run(
                (*command, f"-Dmdep.outputFile={file.name}"),
                capture_output=True,
                timeout=_DOWNLOAD_S,
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise JavaAbsent(f"Maven did not fetch RocketMQ's client: {error}") from error
        return Path(file.name).read_text(encoding="utf-8")
