"""A process of ours that runs until a signal ends it, and whose log is kept."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support import wait_until


class LoggedProcess:
    """`python -m MODULE`, or a program in place of it; what it says is in a file named after `name`."""

    PATIENCE_S = 60.0

    def __init__(
        self,
        folder: Path,
        name: str,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        program: str = "",
    ) -> None:
        self._name = name
        self._log_path = folder / f"{name}.log"
        how = ("-c", program) if program else ("-m", module)
        command = (sys.executable, *how, *arguments)
        with self._log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stderr=log, env={**os.environ, **environment})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """Return what it has said so far."""
        return self._log_path.read_text()

    def until_said(self, text: str) -> None:
        """Wait until it has said a text."""
        self.found(re.escape(text))

    def found(self, pattern: str) -> re.Match[str]:
        """Return the first match in what it says, as soon as there is one."""
        match = wait_until(
            lambda: re.search(pattern, self.log()),
            timeout_s=self.PATIENCE_S,
            description=f"the {self._name} says {pattern!r}",
        )
        assert match is not None
        return match

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(how)
        return self.process.wait(self.PATIENCE_S)
