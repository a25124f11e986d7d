"""RocketMQ's own Java client and name server as peers, where Java and Maven are installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

QUIET: Final = "quiet"
FAULTY: Final = "faulty"

_FOLDER: Final = Path(__file__).parent / "java"
_CLASSPATH: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
_DOWNLOAD_S: Final = 120.0
_END_S: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
_STARTUP: Final = "org.apache.rocketmq.namesrv.NamesrvStartup"

_CONF: Final = """\
bindAddress={host}
listenPort={port}
scanNotActiveBrokerInterval={scan_ms}
serverChannelMaxIdleTimeSeconds={idle_s}
kvConfigPath={folder}/kvConfig.json
configStorePath={folder}/namesrv.properties
"""


class JavaAbsent(Exception):
    """RocketMQ's Java code cannot be run here, and why."""


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
    command = ("java", "-cp", _classpath(_FOLDER), str(_FOLDER / "Select.java"))
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


class NameServer:
    """RocketMQ's name server as a process on a loopback port."""

    def __init__(self, classpath: str, folder: Path, *, scan_s: float, idle_s: float) -> None:
        self.host = _LOOPBACK
        self.port = _free_port()
        self._log = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None
        conf = folder / "namesrv.conf"
        text = _CONF.format(
            host=self.host, port=self.port, folder=folder, scan_ms=round(scan_s * 1_000), idle_s=round(idle_s)
        )
        conf.write_text(text, encoding="utf-8")
        own = (f"-Drocketmq.home.dir={folder}", f"-Duser.home={folder}", "-Xmx256m", "-XX:+UseSerialGC")
        self._command = ("java", *own, "-cp", classpath, _STARTUP, "-c", str(conf))

    def start(self) -> None:
        """Start it; it listens a few seconds later."""
        with self._log.open("ab") as said:
            self._process = subprocess.Popen(self._command, stdout=said, stderr=said)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_S)
            self._process = None

    def check(self) -> None:
        """Raise RuntimeError with its last words when it has ended."""
        if self._process is None or self._process.poll() is not None:
            words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(f"the name server does not run: {' | '.join(words[-5:]) or 'it said nothing'}")


@contextmanager
def name_server(*, scan_s: float, idle_s: float) -> Iterator[NameServer]:
    """Run a name server that scans for silent brokers every `scan_s` seconds; raises JavaAbsent.

    `idle_s`: whole seconds without traffic until it closes a connection.
    """
    classpath = _classpath(_FOLDER / "nameserver")
    with tempfile.TemporaryDirectory(prefix="sharedroutes-namesrv-") as folder:
        server = NameServer(classpath, Path(folder), scan_s=scan_s, idle_s=idle_s)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def _free_port() -> int:
    with socket.create_server((_LOOPBACK, 0)) as bound:
        return int(bound.getsockname()[1])


def _classpath(project: Path) -> str:
    """Return where Maven keeps what a project needs of RocketMQ, after it has fetched it once."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise JavaAbsent(f"{tool} is not on PATH")
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as file:
        command = ("mvn", "-q", "-B", "-f", str(project / "pom.xml"), _CLASSPATH)
        try:
            subprocess.run(
                (*command, f"-Dmdep.outputFile={file.name}"),
                capture_output=True,
                timeout=_DOWNLOAD_S,
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise JavaAbsent(f"Maven did not fetch RocketMQ: {error}") from error
        return Path(file.name).read_text(encoding="utf-8")
