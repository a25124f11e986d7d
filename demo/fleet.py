"""The hosts of the demo: files, a stand-in broker and a real agent on each."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .nameserver.rocketmq import write_broker_conf
from .processes import LOOPBACK, DemoFailed, ProcessGroup, free_ports, kill, last_lines, listens
from .scenario import BROKERS, SETTINGS, TOPIC

_BROKER: Final = Path(__file__).with_name("stand_in_broker.py")


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
    """The brokers with their agents; `processes` ends all of them."""

    def __init__(self, folder: Path, redis_url: str, processes: ProcessGroup) -> None:
        self._folder = folder
        self._redis_url = redis_url
        self._processes = processes
        self._hosts: dict[str, _Host] = {}
        for name, port in zip(BROKERS, free_ports(len(BROKERS)), strict=True):
            self._hosts[name] = _Host(folder / name, port)
            _write_files(folder / name, name, port)

    def start_host(self, name: str) -> None:
        """Start the agent and the broker of a name; what still runs there, or is frozen, is killed first."""
        host = self._hosts[name]
        for process in host.running:
            kill(process)
        arguments = {
            "--broker-conf": str(host.folder / "broker.conf"),
            "--redis": self._redis_url,
            "--heartbeat": str(SETTINGS.heartbeat_s),
            "--lease-ttl": str(SETTINGS.lease_ttl_s),
            "--http": "off",
        }
        words = (word for pair in arguments.items() for word in pair)
        host.agent = self._start(host, "agent", "-m", "sharedroutes.broker_agent", *words)
        self.start_broker(name)

    def start_broker(self, name: str) -> None:
        """Start the broker process of a name."""
        host = self._hosts[name]
        arguments = (str(host.port), name, str(host.journal))
        host.broker = self._start(host, "broker", str(_BROKER), *arguments)

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
    config = folder / "store" / "config"
    config.mkdir(parents=True)
    settings = {"brokerName": name, "brokerIP2": LOOPBACK, "autoCreateTopicEnable": "true"}
    write_broker_conf(folder, (port, port + 1), settings)
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
    (config / "topics.json").write_text(text, encoding="utf-8")


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
