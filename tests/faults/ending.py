"""A broker with its agent, both real processes, that are told to end in some order; and a client."""

from __future__ import annotations

import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from sharedroutes.client import NoRoute, RouteClient
from sharedroutes.registry import Change, RouteStore
from tests.broker_agent.agent_site import AgentProcess
from tests.broker_agent.data_files import put, topics_json
from tests.ports import free_port
from tests.support import wait_until

TOPIC: Final = "orders"
_WITHIN_S: Final = 30.0
_BROKER: Final = """
import os, signal, socket, sys, threading
def end(*_):
    timer = threading.Timer(float(sys.argv[2]), os._exit, (0,))
    timer.daemon = True
    timer.start()
signal.signal(signal.SIGTERM, end)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    clients = []
    while True:
        clients.append(server.accept()[0])
"""
_CONF: Final = """\
brokerName=broker-a
brokerIP1=127.0.0.1
listenPort={port}
storePathRootDir={store}
"""

Told = Callable[["Pod"], None]


class Lookups:
    """A client that looks up the topic again and again, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self.count = 0
        self.last_served_s = self.last_missed_s = 0.0
        self.missed = 0
        self._client = RouteClient.from_url(url)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, name="lookups")

    def __enter__(self) -> Self:
        self._client.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._client.__exit__(None, None, None)

    def _look(self) -> None:
        while not self._ends.wait(0.001):
            try:
                self._client.route(TOPIC)
                self.last_served_s = time.monotonic()
            except NoRoute:
                self.missed += 1
                self.last_missed_s = time.monotonic()
            self.count += 1

    def until_missed(self, since_s: float) -> None:
        """Wait until a lookup has found nobody since then."""
        description = "the broker is out of lookups"
        wait_until(lambda: self.last_missed_s > since_s, timeout_s=10.0, description=description)

    def until_served(self, since_s: float) -> None:
        """Wait until a lookup has found the broker since then."""
        description = "the broker is in lookups"
        wait_until(lambda: self.last_served_s > since_s, timeout_s=_WITHIN_S, description=description)


class Pod:
    """A broker, which takes `ends_in_s` to end, and its agent; the usual lease of 15 s."""

    def __init__(
        self, folder: Path, url: str, *, ends_in_s: float = 0.0, stop_watch_s: float = 0.0, http: str = "off"
    ) -> None:
        self.folder, self.url, self._ends_in_s, self._stop_watch_s = folder, url, ends_in_s, stop_watch_s
        self._port, self._http = free_port(), http
        self._conf = folder / "broker.conf"
        self._conf.write_text(_CONF.format(port=self._port, store=folder / "store"))
        put(folder / "store" / "config" / "topics.json", topics_json(TOPIC))
        self._number = 0
        self.broker = self.start_broker()
        self.agent = self.start_agent()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self.broker, self.agent.process):
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def start_broker(self) -> subprocess.Popen[bytes]:
        command = (sys.executable, "-S", "-c", _BROKER, str(self._port), str(self._ends_in_s))
        return subprocess.Popen(command)

    def start_agent(self) -> AgentProcess:
        self._number += 1
        folder = self.folder / str(self._number)
        folder.mkdir()
        where = ("--broker-conf", str(self._conf), "--redis", self.url, "--http", self._http)
        return AgentProcess(folder, *where, "--stop-watch", str(self._stop_watch_s), "--stop-deadline", "10")

    def until_registered(self) -> None:
        self.agent.until_said("broker-a:0: registered")

    def restart_agent(self) -> None:
        """End the agent and start the next one after that, as `systemctl restart` does."""
        assert self.agent.end() == 0
        self.agent = self.start_agent()
        self.until_registered()

    def replace_agent(self) -> None:
        """Start the next agent while the one that was told to end watches the broker."""
        former, self.agent = self.agent, self.start_agent()
        self.until_registered()
        former.process.send_signal(signal.SIGTERM)
        assert former.process.wait(_WITHIN_S) == 0

    def end_broker(self) -> float:
        """Wait for the end of the broker, which was told to; return when it was, by the steady clock."""
        self.broker.wait(_WITHIN_S)
        return time.monotonic()

    def out_after_s(self, told: Told, lookups: Lookups) -> float:
        """Tell both to end; return how long after the end of the broker it was found last."""
        told(self)
        ended_s = self.end_broker()
        lookups.until_missed(lookups.last_served_s)
        assert self.agent.process.wait(_WITHIN_S) == 0, self.agent.log()
        return max(0.0, lookups.last_served_s - ended_s)

    def start(self) -> None:
        """Start both again."""
        self.broker, self.agent = self.start_broker(), self.start_agent()
        self.until_registered()

    def changes(self) -> tuple[Change, ...]:
        with RouteStore.from_url(self.url) as store:
            return tuple(store.changes_since().changes)


def figures(name: str, delays_s: Sequence[float]) -> str:
    """Return the times as a line, for a person."""
    p50, longest = statistics.median(delays_s), max(delays_s)
    return f"{name}: {len(delays_s)} rounds, p50 {p50 * 1000:.0f} ms, max {longest * 1000:.0f} ms"
