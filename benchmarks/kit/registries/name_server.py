"""RocketMQ's own name server, with brokers as they register and its own Java client."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

from sharedroutes.registry import TopicConfig
from sharedroutes.remoting import ResponseCode

from ..contestants import succeeded
from ..name_servers import Link, heartbeat, registration, route_request, unregistration
from ..rocketmq import AS_LAUNCHED, JavaAbsent, java_command, name_server
from ..server_process import await_listening
from ..workload import Table
from .registry import DEADLINE_S, Absent, Queues, Registry, Server, Session, Watcher, address_of

_VERSION: Final = "RocketMQ 5.3.3"
_CLIENTS: Final = 10
DEFAULT_POLL_S: Final = 30.0
FAST_POLL_S: Final = 1.0


class NameServerSession(Session):
    """A connection that says what a broker says; each change is a registration with the whole table."""

    def __init__(self, address: str, _lease_s: float) -> None:
        self._link = Link(int(address.rpartition(":")[2]))
        self._name = ""
        self._table: Table = {}
        self._counter = 1

    def close(self) -> None:
        """Close the connection, which takes the broker away."""
        self._link.close()

    def ping(self) -> None:
        """Ask for a topic that is not there."""
        self._link.ask(route_request("absent"))

    def registering(self, name: str, table: Table) -> Callable[[], object]:
        """Return what sends the registration, which is made before."""
        self._name, self._table = name, {**table}
        command = registration(name, address_of(name), table, counter=self._counter)
        return lambda: succeeded(self._link.ask(command))

    def beat(self) -> None:
        """Say that the broker lives."""
        self._link.ask(heartbeat(self._name, address_of(self._name)))

    def change(self, config: TopicConfig) -> None:
        """Register the whole table anew, as brokers do."""
        self._counter += 1
        self.registering(self._name, {**self._table, config.topic_name: config})()

    def leave(self) -> None:
        """Unregister."""
        succeeded(self._link.ask(unregistration(self._name, address_of(self._name))))

    def lookup(self, topic: str) -> Queues:
        """Ask for the route."""
        answer = self._link.ask(route_request(topic))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return {}
        rows = json.loads(succeeded(answer).body)["queueDatas"]
        return {row["brokerName"]: row["writeQueueNums"] for row in rows}


class JavaWatcher:
    """Producers of RocketMQ in one process, java/Watch.java."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._commands = cast(IO[str], process.stdin)
        self._answers = cast(IO[str], process.stdout)
        self._wanted: tuple[str, int | None] = ("", None)
        self._known: dict[int, tuple[int, Queues]] = {}

    def await_ready(self) -> None:
        """Wait until all have begun."""
        while self._said() != ["ready"]:
            pass
        while len(self._known) < _CLIENTS:
            self._take(self._said())

    def expect(self, broker: str, write_queues: int | None) -> None:
        """Note what to wait for; they look all the time."""
        self._wanted = (broker, write_queues)

    def seen(self) -> list[int]:
        """Return when each of them saw that."""
        broker, write_queues = self._wanted
        while not all(queues.get(broker) == write_queues for _, queues in self._known.values()):
            self._take(self._said())
        return [at_ns for at_ns, _ in self._known.values()]

    def cached_us(self, lookups: int) -> float:
        """Return how long one takes to read its own table."""
        self._commands.write(f"{lookups}\n")
        self._commands.flush()
        while (words := self._said())[0] != "time":
            self._take(words)
        return float(words[1]) / 1_000

    def _take(self, words: list[str]) -> None:
        _, number, at_ns, *queues = words
        pairs = (pair.split("=") for pair in ",".join(queues).split(",") if pair)
        self._known[int(number)] = (int(at_ns), {name: int(count) for name, count in pairs})

    def _said(self) -> list[str]:
        overdue = threading.Timer(DEADLINE_S, self._process.kill)
        overdue.start()
        line = self._answers.readline()
        overdue.cancel()
        if not line:
            raise RuntimeError(f"RocketMQ's clients have ended, or saw nothing for {DEADLINE_S:g} s")
        return line.split()


@contextmanager
def _watching(poll_s: float, address: str, topic: str) -> Iterator[Watcher]:
    arguments = (address, topic, str(_CLIENTS), str(round(poll_s * 1_000)))
    with (
        java_command("Watch.java", *arguments) as command,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process,
    ):
        try:
            watcher = JavaWatcher(process)
            watcher.await_ready()
            yield watcher
        finally:
            process.kill()


@contextmanager
def _run(_folder: Path) -> Iterator[Server]:
    try:
        with name_server(options=AS_LAUNCHED[2:]) as server:
            await_listening(server.port, server)
            yield Server(f"{server.host}:{server.port}", server.pid, _VERSION)
    except JavaAbsent as reason:
        raise Absent(str(reason)) from reason


def _rocketmq(name: str, poll_s: float) -> Registry:
    return Registry(
        name=name,
        terms=f"keeps nothing on disk, G1 as its launcher sets it; Java clients poll every {poll_s:g} s",
        run=_run,
        session=NameServerSession,
        watching=partial(_watching, poll_s),
    )


ROCKETMQ: Final = _rocketmq("RocketMQ", DEFAULT_POLL_S)
ROCKETMQ_FAST: Final = _rocketmq("RocketMQ, polls each second", FAST_POLL_S)
