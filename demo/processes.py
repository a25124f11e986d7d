"""Processes that end with the demo, their ports, and waiting for what they do."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, Self

LOOPBACK: Final = "127.0.0.1"

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S: Final = 0.005
# Below the ports that systems give to outgoing connections: no stranger takes the port of a dead process.
_PORTS: Final = range(20_000, 30_000)
_PORT_ATTEMPTS: Final = 100
_LOG_LINES: Final = 8

# All processes are in the guard's process group. It reads a pipe whose other end only the demo holds: end of
# file = the demo is gone, in whatever way, and so is then the whole group, stopped processes too.
_GUARD: Final = ("/bin/sh", "-c", "trap '' HUP; read -r _; kill -s KILL -- -$$")


class DemoFailed(Exception):
    """The demo cannot go on."""


class Interrupted(Exception):
    """A signal asks the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


class Patience:
    """Waits for conditions in the main thread; signals end the waiting, and nothing that is half done."""

    def __init__(self) -> None:
        self._signal: int | None = None

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Handle signals for the length of a `with` block; to be called in the main thread."""
        before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def until(self, condition: Callable[[], bool], deadline_s: float) -> float | None:
        """Return when the condition became true, None if not within `deadline_s`; raises Interrupted."""
        deadline = time.monotonic() + deadline_s
        while True:
            if self._signal is not None:
                raise Interrupted(self._signal)
            if condition():
                return time.monotonic()
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._signal = number


class ProcessGroup:
    """The processes of a `with` block, which ends with all of them dead; so does the end of the demo."""

    def __init__(self) -> None:
        self._guard: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._guard = subprocess.Popen(_GUARD, stdin=subprocess.PIPE, process_group=0)  # noqa: S603 - as below
        return self

    def __exit__(self, *_: object) -> None:
        if self._guard is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._guard.pid, signal.SIGKILL)
        for process in (self._guard, *self._started):
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()

    def start(
        self, command: Sequence[str], log: Path, *, environment: Mapping[str, str] = {}, piped: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start a process that writes to a log, or with `piped` its output to us; its folder is the log's."""
        if self._guard is None:
            raise RuntimeError("processes are started outside of the `with` block")
        # Settings of the user's own agents and fronts are not for these.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SHAREDROUTES_")}
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - the command is ours, without a word from outside
                command,
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else output,
                stderr=output,
                env={**inherited, **environment},
                process_group=self._guard.pid,
            )
        self._started.append(process)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process with SIGKILL, and wait until it has ended."""
    process.kill()
    process.wait()


def listens(port: int) -> bool:
    """Whether a port of the loopback interface accepts connections."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
        return True
    return False


def last_lines(folder: Path) -> str:
    """Return the last lines of every log below a folder."""
    texts = {
        f"{file.parent.name}/{file.name}": file.read_text(errors="replace")
        for file in sorted(folder.glob("*/*.log"))
    }
    return "\n".join(
        f"  {name}: {line}" for name, text in texts.items() for line in text.splitlines()[-_LOG_LINES:]
    )


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that nobody has."""
    ports: list[int] = []
    for port in random.sample(_PORTS, _PORT_ATTEMPTS):
        with suppress(OSError), socket.socket() as probe:
            probe.bind((LOOPBACK, port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise DemoFailed(f"no {count} free ports found within {_PORTS.start}..{_PORTS.stop - 1}")
