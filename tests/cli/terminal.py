"""Runs the command line: in this process, at a terminal of some width, as a process that gets signals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from click.testing import CliRunner, Result

from sharedroutes.cli.root import sharedroutes

COMMAND: Final = (sys.executable, "-m", "sharedroutes")
_ROWS: Final = 50
_ENDED: Final = "--- the command has ended ---"
_EACH: Final = f"""
import contextlib, json, sys
from sharedroutes.cli.root import sharedroutes
for words in json.loads(sys.argv[1]):
    with contextlib.suppress(SystemExit):
        sharedroutes(words)
    print({_ENDED!r}, flush=True)
"""
_STYLE: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def run(url: str, *arguments: str, given: bytes | None = None, **environment: str) -> Result:
    """Run a command on the store at a URL, in this process."""
    return CliRunner().invoke(sharedroutes, [*arguments, "--redis", url], input=given, env=environment)


def document(url: str, *arguments: str) -> Any:
    """Run a command that succeeds; return its JSON."""
    done = run(url, *arguments, "--output", "json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(done: Result) -> list[list[str]]:
    """Return the words of the table that a command has printed, without its head."""
    assert done.exit_code == 0, done.output
    return [line.split() for line in done.stdout.splitlines()[1:]]


class Shown(NamedTuple):
    """What a terminal was sent, without its styles, and how the command ended."""

    text: str
    exit_code: int

    @property
    def lines(self) -> list[str]:
        """What stands in each line, if the terminal were wide enough."""
        return self.text.splitlines()


def environment(**more: str) -> dict[str, str]:
    usual = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**usual, "TERM": "xterm", "TZ": "Europe/Berlin", **more}


def at_terminal(columns: int, *arguments: str) -> Shown:
    """Run the command at a terminal with so many columns."""
    return _at_terminal(columns, [*COMMAND, *arguments])


def each_at_terminal(columns: int, commands: Sequence[Sequence[str]]) -> list[str]:
    """Run one command after the other in one process at a terminal; return what each has printed."""
    shown = _at_terminal(columns, [sys.executable, "-c", _EACH, json.dumps(commands)])
    *printed, _ = shown.text.split(_ENDED)
    return printed


def _at_terminal(columns: int, command: Sequence[str]) -> Shown:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment()) as process:
        os.close(theirs)
        parts = []
        while part := _read(ours):
            parts.append(part)
        os.close(ours)
    return Shown(_STYLE.sub("", b"".join(parts).decode().replace("\r\n", "\n")), process.returncode)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # nobody has the other end any more
        return b""


def started(*arguments: str) -> subprocess.Popen[str]:
    """Start the command with pipes."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
