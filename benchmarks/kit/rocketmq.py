"""RocketMQ's own Java client, name server and broker, where Java and Maven are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final, cast

from demo.nameserver.rocketmq import NO_TLS, own_files, write_broker_conf

from .hosts import topics_json, write_topics
from .processes import bound
from .server_process import ServerProcess, free_port

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
        bound(*command, str(brokers), str(queues), str(isolated)),
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


class NameServer(ServerProcess):
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


class Broker(ServerProcess):
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
            bound("java", *_own(Path(folder)), "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath, *program),
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            yield cast(IO[str], process.stdout)
        finally:
            process.kill()


@contextmanager
def java_command(program: str, *arguments: str) -> Iterator[tuple[str, ...]]:
    """Yield how to run a program of java/ with RocketMQ's client; its files go with it. Raises JavaAbsent."""
    classpath = _classpath(_FOLDER)
    with tempfile.TemporaryDirectory(prefix="sharedroutes-java-", ignore_cleanup_errors=True) as folder:
        options = (*_own(Path(folder)), "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath)
        yield bound("java", *options, str(_FOLDER / program), *arguments)


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
