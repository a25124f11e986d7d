"""A terminal of 80x24 with `sharedroutes watch` in it, for tests and for the recording."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
from typing import Final

import pyte

from tests.cli.terminal import COMMAND, environment
from tests.support import wait_until

SIZE: Final = (80, 24)
_READ_S: Final = 0.05


class Terminal:
    """A terminal with the command in it, as somebody sees it who sits there."""

    def __init__(self, url: str, **variables: str) -> None:
        self.screen = pyte.Screen(*SIZE)
        self.sent = b""
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self._theirs = theirs
        self._ends = [theirs, self._ours]
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [*COMMAND, "watch", "--redis", url],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**variables),
            start_new_session=True,
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.vanish()

    def vanish(self) -> None:
        """Let the terminal go away, as a window that is closed does."""
        while self._ends:
            os.close(self._ends.pop())

    def press(self, keys: bytes) -> None:
        """Press one key after the other, as a person does: what comes at once is taken for a paste."""
        for key in keys:
            os.write(self._ours, bytes([key]))
            self.read()

    def read(self) -> str:
        """Take in what was sent to the terminal; return what is to be seen."""
        while select.select([self._ours], [], [], _READ_S)[0]:
            part = os.read(self._ours, 65_536)
            self.sent += part
            self._stream.feed(part)
        return "\n".join(self.screen.display)

    def until(self, text: str) -> None:
        wait_until(lambda: text in self.read(), timeout_s=60.0, description=f"{text!r} is to be seen")

    def ended(self) -> int:
        """Wait for its end; return the exit status. The terminal has to be as it was before."""

        def is_over() -> bool:
            self.read()
            return self.process.poll() is not None

        wait_until(is_over, timeout_s=60.0, description="it has ended")
        self.read()
        at = self.sent.rfind
        assert at(b"\x1b[?1049l") > at(b"\x1b[?1049h") > -1, "the screen of before is back"
        assert at(b"\x1b[?25h") > at(b"\x1b[?25l") > -1, "the cursor is back"
        assert termios.tcgetattr(self._theirs) == self.before, "keys are read as before"
        return self.process.returncode
