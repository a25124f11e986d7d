"""`sharedroutes watch` as a process at a real terminal of 80x24: what it shows, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from typing import Final

import pyte
import pytest
import redis

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.acl import Role, acl_rules
from tests.cli.terminal import COMMAND, environment, run
from tests.support import run_python, wait_until

SIZE: Final = (80, 24)
_READ_S: Final = 0.05
RULE: Final = ">secret"


class Terminal:
    """A terminal with the command in it, as somebody sees it who sits there."""

    def __init__(self, url: str) -> None:
        self.screen = pyte.Screen(*SIZE)
        self.sent = b""
        self._stream = pyte.ByteStream(self.screen)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self._theirs = theirs
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [*COMMAND, "watch", "--redis", url],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(),
            start_new_session=True,
        )

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)

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


@pytest.fixture
def terminal(own_server: EmbeddedServer) -> Iterator[Terminal]:
    """Return a terminal at which somebody watches a registry with one broker."""
    with RouteStore.from_url(own_server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    made = Terminal(own_server.url)
    yield made
    made.close()


def test_somebody_looks_searches_sees_the_store_go_and_come_and_quits(
    terminal: Terminal, own_server: EmbeddedServer
) -> None:
    terminal.until("broker-a:0")
    terminal.until("1 live, 0 dead, 0 out")
    assert "4 faults  / search  f filter  q quit" in terminal.read().splitlines()[-1]
    with RouteStore.from_url(own_server.url) as store:
        store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("audit")])
    terminal.until("broker-b:0")
    terminal.press(b"2")
    terminal.until("live brokers")
    terminal.press(b"/aud\r")
    terminal.until("only with 'aud'")
    own_server.kill()
    terminal.until("the store is away for ")
    own_server.start()
    terminal.until("the store answers")
    terminal.press(b"q")
    assert terminal.ended() == 0


def test_control_c_ends_it_with_130(terminal: Terminal) -> None:
    terminal.until("broker-a:0")
    terminal.press(b"\x03")
    assert terminal.ended() == 130


@pytest.mark.parametrize(("how", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(
    terminal: Terminal, how: signal.Signals, status: int
) -> None:
    terminal.until("broker-a:0")
    terminal.process.send_signal(how)
    assert terminal.ended() == status


def test_a_reader_may_watch(own_server: EmbeddedServer) -> None:
    with redis.Redis.from_url(own_server.url) as admin, RouteStore.from_url(own_server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        admin.execute_command(*acl_rules("sharedroutes", Role.READER, user="r", password=RULE).split(" "))
    made = Terminal(f"redis://r:secret@127.0.0.1:{own_server.port}/0")
    try:
        made.until("broker-a:0")
        made.until("1 topics")
        made.press(b"q")
        assert made.ended() == 0
    finally:
        made.close()


def test_a_store_that_refuses_is_said_after_the_end(own_server: EmbeddedServer) -> None:
    with redis.Redis.from_url(own_server.url) as admin:
        admin.acl_setuser("nobody", enabled=True, passwords=["+secret"], commands=["+ping"])
    made = Terminal(f"redis://nobody:secret@127.0.0.1:{own_server.port}/0")
    try:
        assert made.ended() == 1
        assert "needs a user of Redis with the role reader" in made.read().replace("\n", " ")
    finally:
        made.close()


def test_a_pipe_is_told_what_to_use(redis_url: str) -> None:
    done = run(redis_url, "watch")
    assert done.exit_code == 2
    assert "watch needs a terminal; `sharedroutes changes --follow` tells the same to a pipe" in done.stderr


def test_who_lacks_the_extra_is_told_its_name() -> None:
    program = "import sys; sys.modules['textual'] = None; from sharedroutes.cli.main import main; main()"
    done = run_python(program, "watch")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: `watch` needs textual: run `")
    assert done.stderr.endswith("[watch]'`\n")
