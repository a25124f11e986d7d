"""What the fault tests break: processes that can be started, paused, resumed and killed in any order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol
from urllib.request import Request, urlopen

from sharedroutes.registry import EmbeddedServer
from tests.broker_agent.stand_ins import BrokerProcess
from tests.ports import free_port
from tests.support import wait_until

_WITHIN_S: Final = 40.0
_ANSWER_S: Final = 5.0


class Process(ABC):
    """Something that can be started, paused, resumed and killed, in every state."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paused = False

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it lives; a paused one does."""

    @abstractmethod
    def start(self) -> None:
        """Start it; it does not run."""

    @abstractmethod
    def kill(self) -> None:
        """End it with SIGKILL, paused or not."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""

    def pause(self) -> None:
        """Stop it in its tracks: its connections stay open, and nothing in it runs."""
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)
        self.paused = False


class Broker(Process):
    """The process that stands in for a broker."""

    def __init__(self, port: int) -> None:
        super().__init__("broker")
        self._broker = BrokerProcess(port)

    @property
    def address(self) -> str:
        """Where it listens."""
        return self._broker.address

    @property
    def running(self) -> bool:
        return self._broker._process is not None

    def start(self) -> None:
        self._broker.start()

    def kill(self) -> None:
        self._broker.kill()
        self.paused = False

    def signal(self, number: signal.Signals) -> None:
        assert self._broker._process is not None
        self._broker._process.send_signal(number)


class Server(Process):
    """The store; it comes back empty."""

    def __init__(self, server: EmbeddedServer) -> None:
        super().__init__("server")
        self._server = server

    @property
    def running(self) -> bool:
        return self._server.running

    def start(self) -> None:
        self._server.start()

    def kill(self) -> None:
        self._server.kill()
        self.paused = False

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._server.pid, number)


class Ended(AssertionError):
    """A process has ended by itself."""

    def __init__(self, process: str, exit_code: int, log: str) -> None:
        super().__init__(f"{process} ended by itself with {exit_code}:\n{log}")
        self.process = process
        self.exit_code = exit_code


class Launch(Protocol):
    """Starts a process that writes to a log."""

    def __call__(
        self, command: Sequence[str], log: Path, *, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start it; its environment is ours, and besides what is given."""


def _launch(command: Sequence[str], log: Path, *, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, stderr=output, env={**os.environ, **environment})


class Program(Process):
    """A program of ours; what it says is kept from one start to the next."""

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        launch: Launch = _launch,
    ) -> None:
        super().__init__(name)
        self.environment = {**environment}
        self._log_path = folder / f"{name}.log"
        self._command = (sys.executable, *arguments)
        self._launch = launch
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The number of the process; None = it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._process = self._launch(self._command, self._log_path, environment=self.environment)

    def kill(self) -> None:
        if self._process is not None:
            self.check_alive()
            self._process.kill()
            self._process.wait()
        self._process, self.paused = None, False

    def end(self) -> None:
        """Tell it to end with SIGTERM, and wait until it has."""
        self.tell_to_end()
        self.wait_for_end()

    def tell_to_end(self) -> None:
        """Send it SIGTERM; `wait_for_end` comes next."""
        self.check_alive()
        self.signal(signal.SIGTERM)

    def wait_for_end(self) -> None:
        """Wait until it has ended."""
        assert self._process is not None
        self._process.wait(_WITHIN_S)
        self._process = None

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def log(self) -> str:
        """Return what it has said so far."""
        return self._log_path.read_text() if self._log_path.exists() else ""

    def until_said(self, text: str) -> None:
        """Wait until it has said a text."""

        def said() -> bool:
            self.check_alive()
            return text in self.log()

        try:
            wait_until(said, timeout_s=_WITHIN_S, description=f"{self.name} says {text!r}")
        except AssertionError as error:
            error.add_note(f"it said:\n{self.log()}")
            raise

    def check(self) -> None:
        """Check that it has neither ended by itself nor met what it did not expect."""
        self.check_alive()
        assert "Traceback" not in self.log(), f"{self.name} said:\n{self.log()}"

    def check_alive(self) -> None:
        """Raise Ended if it has ended by itself."""
        exit_code = None if self._process is None else self._process.poll()
        if exit_code is not None:
            raise Ended(self.name, exit_code, self.log())


class AgentProcess(Program):
    """`python -m sharedroutes.broker_agent`."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        launch: Launch = _launch,
        http_port: int = 0,
    ) -> None:
        """`http_port`: 0 = any that is free."""
        self.http = f"127.0.0.1:{http_port or free_port()}"
        """Where it serves HTTP."""

        words = ("-m", "sharedroutes.broker_agent", *arguments)
        super().__init__(name, folder, words, {"SHAREDROUTES_HTTP": self.http, **environment}, launch)

    def status(self, timeout_s: float = _ANSWER_S) -> dict[str, Any]:
        """Return what it says of itself when it is asked; raises OSError while it does not answer."""
        try:
            with urlopen(f"http://{self.http}/status", timeout=timeout_s) as answer:
                (broker,) = json.load(answer)["brokers"]
        except HTTPException as error:  # killed in the middle of an answer
            raise ConnectionResetError(f"{self.name} has not answered whole") from error
        return dict(broker)

    def says(self, name: str) -> Any:
        """Return one thing of its status; None while it does not answer."""
        with suppress(OSError, ValueError):
            return self.status()[name]

    def order(self, what: str) -> None:
        """Send it a control: drain, pause, resume, reload; raises OSError while it does not answer."""
        with urlopen(Request(f"http://{self.http}/{what}", method="POST"), timeout=_ANSWER_S):
            pass

    def until_said(self, text: str) -> None:
        try:
            super().until_said(text)
        except AssertionError as error:
            with suppress(OSError):
                error.add_note(f"it is {self.status()}")
            raise
