"""What stands in for a broker: something that listens, in this process or in one of its own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from tests.broker_agent.speaking_broker import SpeakingBroker
from tests.ports import free_port
from tests.support import wait_until

_PROGRAM: Final = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    clients = []
    while True:
        clients.append(server.accept()[0])
"""


class ListeningBroker(SpeakingBroker):
    """A listener in the event loop of the test, which takes connections and answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.hang()


@asynccontextmanager
async def deaf_port(host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Return a port at which connections are neither taken nor refused: its queue is full."""
    with socket.create_server((host, 0), backlog=0) as deaf, socket.socket() as queued:
        port = deaf.getsockname()[1]
        queued.settimeout(0)
        await asyncio.get_running_loop().sock_connect(queued, (host, port))
        yield port


class BrokerProcess:
    """A process that listens on a port of its own."""

    def __init__(self, port: int = 0) -> None:
        """`port`: 0 = any that is free."""
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        self._process = subprocess.Popen((sys.executable, "-S", "-c", _PROGRAM, str(self.port)))
        wait_until(self._listens, timeout_s=30, description="the stand-in broker listens")

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
