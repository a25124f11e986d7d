"""The hosts of the demo: files, a stand-in broker and a real agent on each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from .processes import DemoFailed, ProcessGroup, free_ports, kill, last_lines, listens
from .scenario import TOPIC, Settings

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
        self._processes = ProcessGroup()

    def __enter__(self) -> Self:
        for name, port in zip(self._names, free_ports(len(self._names)), strict=True):
            self._hosts[name] = _Host(self._folder / name, port)
            _write_files(self._folder / name, name, port)
        self._processes.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._processes.__exit__(*error)

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
            kill(host.broker)
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
            kill(process)
        host.broker = host.agent = None

    def listens(self, name: str) -> bool:
        """Whether the broker of a name accepts connections; raises DemoFailed when its process has ended."""
        host = self._hosts[name]
        if host.broker is None or host.broker.poll() is not None:
            raise DemoFailed(f"{name} did not start:\n{self.logs()}")
        return listens(host.port)

    def stored(self) -> dict[str, frozenset[int]]:
        """Return the ids of the messages that each broker acknowledged, by its own journal."""
        return {name: _ids(host.journal) for name, host in self._hosts.items()}

    def logs(self) -> str:
        """Return the last log lines of every process."""
        return last_lines(self._folder)

    def _start(self, host: _Host, log_name: str, *arguments: str) -> subprocess.Popen[bytes]:
        return self._processes.start((sys.executable, *arguments), host.folder / f"{log_name}.log")


def _ids(journal: Path) -> frozenset[int]:
    """Return the whole lines of a journal: the last one may have been cut by a kill, before its answer."""
    try:
        *lines, _ = journal.read_bytes().split(b"\n")
    except FileNotFoundError:
        return frozenset()
    return frozenset(map(int, lines))


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
