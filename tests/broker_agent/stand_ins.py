"""What stands in for a broker: something that listens, in this process or in one of its own."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import Final, Self

from tests.ports import free_port
from tests.support import wait_until

_PROGRAM: Final = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as server:
    clients = []
    while True:
        clients.append(server.accept()[0])
"""


class ListeningBroker:
    """A listener in the event loop of the test, which can also hang up as an idle broker does."""

    def __init__(self) -> None:
        self.port = free_port()
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def die(self) -> None:
        """Stop listening and close all connections, as the system does for a process that dies."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.hang_up()

    def hang_up(self) -> None:
        """Close all connections and listen on."""
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()

    async def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)


class BrokerProcess:
    """A process that listens on a port of its own."""

    def __init__(self) -> None:
        self.port = free_port()
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
