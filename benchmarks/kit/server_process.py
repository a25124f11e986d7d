"""Servers of others, as processes on loopback ports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from .processes import await_until, bound

_END_S: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"


class ServerProcess:
    """A server that listens on a loopback port; what it says goes to a file in `folder`."""

    def __init__(self, what: str, command: Sequence[str], folder: Path, port: int) -> None:
        self.host = _LOOPBACK
        self.port = port
        self._what = what
        self._command = command
        self._log = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process; raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError(f"the {self._what} does not run")
        return self._process.pid

    def start(self) -> None:
        """Start it; it listens a few seconds later."""
        with self._log.open("ab") as said:
            # In a session of its own: of an orphaned group, a stopped process gets SIGHUP.
            self._process = subprocess.Popen(
                bound(*self._command), stdout=said, stderr=said, start_new_session=True
            )

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, for example SIGSTOP."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_END_S)
            self._process = None

    def check(self) -> None:
        """Raise RuntimeError with its last words when it has ended."""
        if self._process is None or self._process.poll() is not None:
            words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RuntimeError(
                f"the {self._what} does not run: {' | '.join(words[-5:]) or 'it said nothing'}"
            )


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens at."""
    with socket.create_server((_LOOPBACK, 0)) as bound:
        return int(bound.getsockname()[1])


def await_listening(port: int, alive: Any) -> None:
    """Wait until a server takes connections; raises TimeoutError and what `alive.check` does."""

    def listens() -> bool:
        alive.check()
        with suppress(OSError), socket.create_connection((_LOOPBACK, port), timeout=1.0):
            return True
        return False

    await_until(listens, f"a server listens at {port}")
