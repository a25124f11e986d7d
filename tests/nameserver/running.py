"""A process of the name server front, and what it says, answers and shows."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, Self

from sharedroutes.remoting import FrameReader, RemotingCommand, RequestCode, encode, request
from tests.logged import LoggedProcess
from tests.support import wait_until

_STRICT: Final = {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"}
"""Every warning is an error, in workers, too."""


class FrontRun(LoggedProcess):
    """`python -m sharedroutes.nameserver` at free ports, with every warning an error."""

    def __init__(self, folder: Path, *arguments: str, program: str = "", **environment: str) -> None:
        at_free_ports = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        super().__init__(
            folder,
            "front",
            "sharedroutes.nameserver",
            (*at_free_ports, *arguments),
            {**_STRICT, **environment},
            program=program,
        )

    def address(self) -> tuple[str, int]:
        """Return where it listens, as soon as it does."""
        return self._place(r"name server at (\S+):(\d+)")

    def peer(self) -> Peer:
        """Return a new connection to it."""
        return Peer(self.address())

    def http(self) -> tuple[str, int]:
        """Return where it serves HTTP."""
        return self._place(r"HTTP at (\S+):(\d+)")

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        """Return status and body of a page."""
        host, port = self.http()
        connection = HTTPConnection(host, port, timeout=10.0)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def state(self) -> dict[str, Any]:
        """Return what /status shows."""
        return dict(json.loads(self.get("/status")[1]))

    def until_ready(self) -> None:
        wait_until(lambda: self.get("/readyz")[0] == 200, timeout_s=60.0, description="it is ready")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit code. It must not have said anything of an error of its own."""
        code = super().end(how)
        assert "Traceback" not in self.log(), self.log()
        return code

    def _place(self, pattern: str) -> tuple[str, int]:
        match = self.found(pattern)
        return match[1], int(match[2])


class Peer:
    """A client of a name server."""

    def __init__(self, address: tuple[str, int], timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self._frames = FrameReader()
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self._opaque += 1
        self.socket.sendall(encode(request(code, fields, body=body, opaque=self._opaque)))

    def receive(self) -> RemotingCommand | None:
        """Return the next frame; None = the connection was closed."""
        while True:
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            for frame in self._frames.feed(data):
                return frame

    def ask(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
        """Return the answer to a request."""
        self.send(code, fields, body)
        answer = self.receive()
        assert answer is not None, "the connection was closed"
        return answer

    def cluster(self) -> RemotingCommand:
        """Ask for the brokers, which every front answers."""
        return self.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
