"""The sender's connections to brokers."""

from __future__ import annotations

import select
import socket
from io import BufferedReader


class Connections:
    """One connection for each address, kept open as long as it works; for one thread."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._open: dict[str, tuple[socket.socket, BufferedReader]] = {}

    def send(self, address: str, message_id: int, body: str) -> None:
        """Send a message and wait for its acknowledgement; raises OSError or EOFError, and hangs up then."""
        try:
            connection, answers = self._connection(address)
            connection.sendall(b"%d %s\n" % (message_id, body.encode()))
            _check(answers.readline(), message_id)
        except (OSError, EOFError):
            self._hang_up(address)
            raise

    def close(self) -> None:
        """Hang up everywhere."""
        for address in tuple(self._open):
            self._hang_up(address)

    def _connection(self, address: str) -> tuple[socket.socket, BufferedReader]:
        found = self._open.get(address)
        if found is not None and not _is_dropped(found[0]):
            return found
        # A broker that was started again has the old address: the connection to its former life must not be
        # taken for a failure of the new one, which would then be left alone for a while.
        self._hang_up(address)
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=self._timeout_s)
        self._open[address] = connection, connection.makefile("rb")
        return self._open[address]

    def _hang_up(self, address: str) -> None:
        connection, answers = self._open.pop(address, (None, None))
        if answers is not None:
            answers.close()
        if connection is not None:
            connection.close()


def _is_dropped(idle: socket.socket) -> bool:
    """Whether the other end has closed a connection on which nothing is awaited."""
    readable, _, _ = select.select([idle], [], [], 0)
    return bool(readable)


def _check(answer: bytes, message_id: int) -> None:
    if answer != b"%d\n" % message_id:
        raise EOFError(f"{answer!r} is no acknowledgement of message {message_id}")
