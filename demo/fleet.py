"""The hosts of the demo: files, a stand-in broker and a real agent on each; and waiting for them."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

from .scenario import TOPIC, Settings
from .stand_in_broker import LOOPBACK

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S: Final = 0.005
# Below the ports that systems give to outgoing connections: no stranger takes the port of a dead broker.
_PORTS: Final = range(20_000, 30_000)
_PORT_ATTEMPTS: Final = 100
_LOG_LINES: Final = 3

# All processes are in the guard's process group. It reads a pipe whose other end only the demo holds: end of
# file = the demo is gone, in whatever way, and so is then the whole group, stopped processes too.
_GUARD: Final = ("/bin/sh", "-c", "trap '' HUP; read -r _; kill -s KILL -- -$$")

_BROKER: Final = Path(__file__).with_name("stand_in_broker.py")

_CLUSTER: Final = "DefaultCluster"
_CONF: Final = """\
brokerClusterName={cluster}
brokerName={name}
brokerId=0
brokerIP1=127.0.0.1
brokerIP2=127.0.0.1
listenPort={port}
storePathRootDir={store}
brokerRole=ASYNC_MASTER
flushDiskType=ASYNC_FLUSH
autoCreateTopicEnable=true
"""


class DemoFailed(Exception):
    """The demo cannot go on."""


class Interrupted(Exception):
    """A signal asks the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


class Patience:
    """Waits for conditions in the main thread; signals end the waiting, and nothing that is half done."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handle signals for the length of a `with` block; to be called in the main thread."""
        before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def until(self, condition: Callable[[], bool], deadline_s: float) -> float | None:
        """Return when the condition became true, None if not within `deadline_s`; raises Interrupted."""
        deadline = time.monotonic() + deadline_s
        while True:
            if self._signal is not None:
                raise Interrupted(self._signal)
            if condition():
                return time.monotonic()
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._signal = number


@dataclass(slots=True)
class _Host:
    """The place of one broker: its files, and the processes that were started there last."""

    folder: Path
    port: int
    broker: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None

    @property
    def journal(self) -> Path:
        return self.folder / "store" / "acknowledged"

    @property
    def running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in (self.agent, self.broker) if process is not None]


class Fleet:
    """Brokers with their agents, for the length of a `with` block, which ends with all of them dead."""

    def __init__(self, names: Iterable[str], folder: Path, redis_url: str, settings: Settings) -> None:
        self._names = tuple(names)
        self._folder = folder
        self._redis_url = redis_url
        self._settings = settings
        self._hosts: dict[str, _Host] = {}
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for name, port in zip(self._names, _free_ports(len(self._names)), strict=True):
            self._hosts[name] = _Host(self._folder / name, port)
            _write_files(self._folder / name, name, port)
        self._guard = subprocess.Popen(_GUARD, stdin=subprocess.PIPE, process_group=0)  # noqa: S603 - as below
        return self

    def __exit__(self, *_: object) -> None:
        if self._guard is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)
        for process in (self._guard, *(one for host in self._hosts.values() for one in host.running)):
            process.wait()
        if self._guard.stdin is not None:
            self._guard.stdin.close()

    def start_broker(self, name: str) -> None:
        """Start the broker process of a name."""
        host = self._hosts[name]
        arguments = (str(host.port), name, str(host.journal))
        host.broker = self._start(host, "broker", str(_BROKER), *arguments)

    def start_agent(self, name: str) -> None:
        """Start the agent beside the broker of a name."""
        host, settings = self._hosts[name], self._settings
        arguments = {
            "--broker-conf": str(host.folder / "broker.conf"),
            "--redis": self._redis_url,
            "--heartbeat": str(settings.heartbeat_s),
            "--lease-ttl": str(settings.lease_ttl_s),
            "--http": "off",
        }
        words = (word for pair in arguments.items() for word in pair)
        host.agent = self._start(host, "agent", "-m", "sharedroutes.broker_agent", *words)

    def kill_broker(self, name: str) -> None:
        """Kill the broker process of a name (SIGKILL); its agent goes on."""
        host = self._hosts[name]
        if host.broker is not None:
            _kill(host.broker)
            host.broker = None

    def silence_host(self, name: str) -> None:
        """Freeze broker and agent (SIGSTOP), as on a host that loses its power or its network.

        Killing them would not do: their system would close their connections, which a lost host does not.
        """
        for process in self._hosts[name].running:
            process.send_signal(signal.SIGSTOP)

    def kill_host(self, name: str) -> None:
        """Kill broker and agent, where they still run (SIGKILL)."""
        host = self._hosts[name]
        for process in host.running:
            _kill(process)
        host.broker = host.agent = None

    def listens(self, name: str) -> bool:
        """Whether the broker of a name accepts connections; raises DemoFailed when its process has ended."""
        host = self._hosts[name]
        if host.broker is None or host.broker.poll() is not None:
            raise DemoFailed(f"{name} did not start:\n{self.logs()}")
        with suppress(OSError), socket.create_connection((LOOPBACK, host.port), timeout=1.0):
            return True
        return False

    def stored(self) -> dict[str, frozenset[int]]:
        """Return the ids of the messages that each broker acknowledged, by its own journal."""
        return {name: _ids(host.journal) for name, host in self._hosts.items()}

    def logs(self) -> str:
        """Return the last log lines of every process."""
        files = sorted(self._folder.glob("*/*.log"))
        texts = {f"{file.parent.name}/{file.name}": file.read_text(errors="replace") for file in files}
        return "\n".join(
            f"  {name}: {line}" for name, text in texts.items() for line in text.splitlines()[-_LOG_LINES:]
        )

    def _start(self, host: _Host, log_name: str, *arguments: str) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise RuntimeError("the fleet is used outside of its `with` block")
        # Settings of the user's own agents are not for these.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SHAREDROUTES_")}
        with (host.folder / f"{log_name}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the command is ours, without a word from outside
                (sys.executable, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                process_group=self._guard.pid,
            )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _ids(journal: Path) -> frozenset[int]:
    """Return the whole lines of a journal: the last one may have been cut by a kill, before its answer."""
    try:
        *lines, _ = journal.read_bytes().split(b"\n")
    except FileNotFoundError:
        return frozenset()
    return frozenset(map(int, lines))


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    for port in random.sample(_PORTS, _PORT_ATTEMPTS):
        with suppress(OSError), socket.socket() as probe:
            probe.bind((LOOPBACK, port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise DemoFailed(f"no {count} free ports found within {_PORTS.start}..{_PORTS.stop - 1}")


def _write_files(folder: Path, name: str, port: int) -> None:
    """Write broker.conf, and topics.json in the form that a broker writes (RocketMQ 5.3)."""
    store = folder / "store"
    (store / "config").mkdir(parents=True)
    (folder / "broker.conf").write_text(
        _CONF.format(cluster=_CLUSTER, name=name, port=port, store=store), encoding="utf-8"
    )
    topics = [
        _topic(TOPIC, 4),
        _topic("payments", 2),
        _topic("audit", 2, perm=4),
        # Some of those that every broker creates at its start (TopicConfigManager.init).
        _topic("TBW102", 8, perm=7),
        _topic("BenchmarkTest", 1024),
        _topic(name, 1, perm=7),
        _topic("SCHEDULE_TOPIC_XXXX", 18),
        _topic(f"rmq_sys_SYNC_BROKER_MEMBER_{name}", 1, perm=1),
    ]
    version = {"counter": len(topics), "stateVersion": 0, "timestamp": time.time_ns() // 1_000_000}
    table = {topic["topicName"]: topic for topic in topics}
    text = json.dumps({"dataVersion": version, "topicConfigTable": table}, indent="\t")
    (store / "config" / "topics.json").write_text(text, encoding="utf-8")


def _topic(name: str, queues: int, perm: int = 6) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": queues,
    }
