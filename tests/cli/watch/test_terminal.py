"""`sharedroutes watch` as a process at a real terminal of 80x24: what it shows, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest
import redis

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from sharedroutes.registry.acl import Role, acl_rules
from tests.cli.terminal import run
from tests.cli.watch.at_terminal import Terminal
from tests.support import run_python

RULE: Final = ">secret"


@pytest.fixture
def terminal(own_server: EmbeddedServer) -> Iterator[Terminal]:
    """Return a terminal at which somebody watches a registry with one broker."""
    with RouteStore.from_url(own_server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
    with closing(Terminal(own_server.url)) as made:
        yield made


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


def test_it_ends_when_its_terminal_is_gone(terminal: Terminal) -> None:
    terminal.until("broker-a:0")
    terminal.vanish()
    assert terminal.process.wait(timeout=60) == 128 + signal.SIGHUP


def test_a_reader_may_watch(own_server: EmbeddedServer) -> None:
    with redis.Redis.from_url(own_server.url) as admin, RouteStore.from_url(own_server.url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders")])
        admin.execute_command(*acl_rules("sharedroutes", Role.READER, user="r", password=RULE).split(" "))
    with closing(Terminal(f"redis://r:secret@127.0.0.1:{own_server.port}/0")) as made:
        made.until("broker-a:0")
        made.until("1 topic")
        made.press(b"q")
        assert made.ended() == 0


def test_a_store_that_refuses_is_said_after_the_end(own_server: EmbeddedServer) -> None:
    with redis.Redis.from_url(own_server.url) as admin:
        admin.acl_setuser("nobody", enabled=True, passwords=["+secret"], commands=["+ping"])
    with closing(Terminal(f"redis://nobody:secret@127.0.0.1:{own_server.port}/0")) as made:
        assert made.ended() == 1
        assert "needs a user of Redis with the role reader" in made.read().replace("\n", " ")


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
