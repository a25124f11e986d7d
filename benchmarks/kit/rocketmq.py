"""RocketMQ's own Java client, name server and broker, where Java and Maven are installed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final, cast

from demo.nameserver.rocketmq import NO_TLS, own_files, write_broker_conf

from .hosts import topics_json, write_topics

QUIET: Final = "quiet"
FAULTY: Final = "faulty"

_FOLDER: Final = Path(__file__).parent / "java"
_CLASSPATH: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
_DOWNLOAD_S: Final = 300.0
_END_S: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
_SMALL: Final = ("-Xmx256m", "-XX:+UseSerialGC")
AS_LAUNCHED: Final = (
    *("-Xms4g", "-Xmx4g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:G1ReservePercent=25"),
    *("-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0"),
)
"""What RocketMQ's own launcher gives a name server (runserver.sh)."""

_STARTUP: Final = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER_STARTUP: Final = "org.apache.rocketmq.broker.BrokerStartup"

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


class JavaProcess:
    """A process of RocketMQ that listens on a loopback port; what it says goes to a file in `folder`."""

    def __init__(self, what: str, command: Sequence[str], folder: Path, port: int) -> None:
        self.host = _LOOPBACK
        self.port = port
        self._what = what
        self._command = command
        self._log = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process; raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError(f"the {self._what} does not run")
        return self._process.pid

    def start(self) -> None:
        """Start it; it listens a few seconds later."""
        with self._log.open("ab") as said:
            # In a session of its own: of an orphaned group, a stopped process gets SIGHUP.
            self._process = subprocess.Popen(self._command, stdout=said, stderr=said, start_new_session=True)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, for example SIGSTOP."""
        os.kill(self.pid, number)

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
            raise RuntimeError(
                f"the {self._what} does not run: {' | '.join(words[-5:]) or 'it said nothing'}"
            )


class NameServer(JavaProcess):
    """RocketMQ's name server."""

    def __init__(
        self, classpath: str, folder: Path, options: Sequence[str], *, scan_s: float, idle_s: float
    ) -> None:
        port, conf = free_port(), folder / "namesrv.conf"
        text = _CONF.format(
            host=_LOOPBACK, port=port, folder=folder, scan_ms=round(scan_s * 1_000), idle_s=round(idle_s)
        )
        conf.write_text(text, encoding="utf-8")
        command = ("java", *_own(folder), *options, "-cp", classpath, _STARTUP, "-c", str(conf))
        super().__init__("name server", command, folder, port)


class Broker(JavaProcess):
    """A broker of RocketMQ with default timers and some topics of four queues."""

    def __init__(
        self, classpath: str, folder: Path, name: str, topics: Sequence[str], name_servers: str
    ) -> None:
        port = free_port()
        settings = {"brokerName": name, "namesrvAddr": name_servers}
        conf = write_broker_conf(folder, (port, free_port()), settings)
        write_topics(folder / "store" / "config" / "topics.json", topics_json(topics, queues=4))
        options = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=256m")
        command = ("java", *_own(folder), *options, "-cp", classpath, _BROKER_STARTUP, "-c", str(conf))
        super().__init__(f"broker {name}", command, folder, port)


def _own(folder: Path) -> tuple[str, ...]:
    return (*own_files(folder), NO_TLS)


@contextmanager
def broker(name: str, topics: Sequence[str], name_servers: str) -> Iterator[Broker]:
    """Run a broker that registers at `name_servers`; raises JavaAbsent."""
    classpath = _classpath(_FOLDER / "broker")
    memory = Path("/dev/shm")  # noqa: S108 - brokers take no message where the disk is nearly full
    with tempfile.TemporaryDirectory(
        prefix="sharedroutes-broker-", dir=memory if memory.is_dir() else None, ignore_cleanup_errors=True
    ) as folder:
        one = Broker(classpath, Path(folder), name, topics, name_servers)
        one.start()
        try:
            yield one
        finally:
            one.kill()


@contextmanager
def sender(name_server: str, topic: str, *, threads: int, pause_ms: int) -> Iterator[IO[str]]:
    """Run Sender.java; yield what it prints, which is more than it says itself; raises JavaAbsent."""
    classpath = _classpath(_FOLDER / "broker")
    program = (str(_FOLDER / "Sender.java"), name_server, topic, str(threads), str(pause_ms))
    with (
        tempfile.TemporaryDirectory(prefix="sharedroutes-sender-", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            ("java", *_own(Path(folder)), "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath, *program),
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            yield cast(IO[str], process.stdout)
        finally:
            process.kill()


@contextmanager
def name_server(
    *, scan_s: float = 5.0, idle_s: float = 120.0, options: Sequence[str] = _SMALL
) -> Iterator[NameServer]:
    """Run a name server that scans for silent brokers every `scan_s` seconds; raises JavaAbsent.

    `idle_s`: whole seconds without traffic until it closes a connection; `options`: Java's.
    """
    classpath = _classpath(_FOLDER / "nameserver")
    with tempfile.TemporaryDirectory(prefix="sharedroutes-namesrv-") as folder:
        server = NameServer(classpath, Path(folder), options, scan_s=scan_s, idle_s=idle_s)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def require_java() -> None:
    """Raise JavaAbsent where Java or Maven is not on PATH."""
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise JavaAbsent(f"{tool} is not on PATH")


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens at."""
    with socket.create_server((_LOOPBACK, 0)) as bound:
        return int(bound.getsockname()[1])


def _classpath(project: Path) -> str:
    """Return where Maven keeps what a project needs of RocketMQ, after it has fetched it once."""
    require_java()
    return _fetched(project, os.environ["PATH"])


@cache
def _fetched(project: Path, _path: str) -> str:
    """Ask Maven, which takes seconds; another PATH may have another Maven."""
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
