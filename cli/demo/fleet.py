"""The processes of the demo: a stand-in broker and a real agent for each name, gone when the demo is gone."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from .broker_files import write_broker_files
from .patience import DemoFailed
from .scenario import Settings

_LOOPBACK: Final = "127.0.0.1"
# Below the ports that systems give to outgoing connections: no stranger takes the port of a dead broker.
_PORTS: Final = range(20_000, 30_000)
_PORT_ATTEMPTS: Final = 100
_LOG_LINES: Final = 3

# All processes are in the guard's process group. It reads a pipe whose other end only the demo holds: end of
# file = the demo is gone, in whatever way, and so is then the whole group, stopped processes too.
_GUARD: Final = ("/bin/sh", "-c", "trap '' HUP; read -r _; kill -s KILL -- -$$")


@dataclass(slots=True)
class _Host:
    """One broker's place: its files, and the processes that were started there last."""

    name: str
    folder: Path
    port: int
    conf: Path
    broker: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None

    @property
    def journal(self) -> Path:
        return self.folder / "store" / "acknowledged"

    @property
    def running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in (self.agent, self.broker) if process is not None]


class Fleet:
    """Brokers with their agents; to be used in a `with` block, which ends with all of them dead."""

    def __init__(self, names: Iterable[str], folder: Path, redis_url: str, settings: Settings) -> None:
        self._names = tuple(names)
        self._folder = folder
        self._redis_url = redis_url
        self._settings = settings
        self._hosts: dict[str, _Host] = {}
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for name, port in zip(self._names, _free_ports(len(self._names)), strict=True):
            folder = self._folder / name
            self._hosts[name] = _Host(name, folder, port, write_broker_files(folder, name, port))
        self._guard = subprocess.Popen(_GUARD, stdin=subprocess.PIPE, process_group=0)  # noqa: S603 - as below
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        arguments = ("--port", str(host.port), "--name", name, "--journal", str(host.journal))
        host.broker = self._start(host, "sharedroutes.cli.stand_in_broker", *arguments)

    def start_agent(self, name: str) -> None:
        """Start the agent beside the broker of a name."""
        host, settings = self._hosts[name], self._settings
        arguments = {
            "--broker-conf": str(host.conf),
            "--redis": self._redis_url,
            "--heartbeat": str(settings.heartbeat_s),
            "--lease-ttl": str(settings.lease_ttl_s),
            "--http": "off",
        }
        words = (word for pair in arguments.items() for word in pair)
        host.agent = self._start(host, "sharedroutes.broker_agent", *words)

    def kill_broker(self, name: str) -> None:
        """Kill the broker process of a name (SIGKILL); its agent goes on."""
        host = self._hosts[name]
        if host.broker is not None:
            _kill(host.broker)
            host.broker = None

    def silence_host(self, name: str) -> None:
        """Stop broker and agent in their tracks (SIGSTOP), as a host that loses its power or its network.

        Killing them would not do: their system would close their connections, which a lost host does not.
        """
        for process in self._hosts[name].running:
            process.send_signal(signal.SIGSTOP)

    def kill_host(self, name: str) -> None:
        """Kill what is left of broker and agent (SIGKILL)."""
        host = self._hosts[name]
        for process in host.running:
            _kill(process)
        host.broker = host.agent = None

    def listens(self, name: str) -> bool:
        """Whether the broker of a name accepts connections; raises DemoFailed when its process has ended."""
        host = self._hosts[name]
        if host.broker is None or host.broker.poll() is not None:
            raise DemoFailed(f"{name} did not start:\n{self.logs()}")
        with suppress(OSError), socket.create_connection((_LOOPBACK, host.port), timeout=1.0):
            return True
        return False

    def stored(self) -> dict[str, frozenset[int]]:
        """Return the ids of the messages that each broker acknowledged, by its own journal."""
        return {name: _ids(host.journal) for name, host in self._hosts.items()}

    def logs(self) -> str:
        """Return the last lines of what every process wrote."""
        files = sorted(self._folder.glob("*/*.log"))
        texts = {f"{file.parent.name}/{file.name}": file.read_text(errors="replace") for file in files}
        return "\n".join(
            f"  {name}: {line}" for name, text in texts.items() for line in text.splitlines()[-_LOG_LINES:]
        )

    def _start(self, host: _Host, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        if self._guard is None:
            raise RuntimeError("the fleet is used outside of its `with` block")
        # Settings of the user's own agents are not for these.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SHAREDROUTES_")}
        with (host.folder / f"{module.rpartition('.')[2]}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - the command is ours, without a word from outside
                (sys.executable, "-m", module, *arguments),
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
            probe.bind((_LOOPBACK, port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise DemoFailed(f"no {count} free ports found within {_PORTS.start}..{_PORTS.stop - 1}")
