"""The processes of the demo: the stand-in broker, and waiting for conditions."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Final

import pytest

from demo.processes import Interrupted, Patience
from tests.ports import free_port
from tests.support import wait_until

SCRIPT: Final = Path(__file__).parents[2] / "demo" / "stand_in_broker.py"


def command(port: int, journal: Path) -> list[str]:
    return [sys.executable, str(SCRIPT), str(port), "broker-a", str(journal)]


@contextmanager
def broker(port: int, journal: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command(port, journal)) as process:
        try:
            yield process
        finally:
            process.kill()


def connected(port: int) -> socket.socket:
    def connect() -> socket.socket | None:
        with suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        return None

    connection = wait_until(connect, timeout_s=20, description="the broker listens")
    assert connection is not None
    return connection


def test_every_message_is_acknowledged_by_its_id_however_it_is_cut(tmp_path: Path) -> None:
    port = free_port()
    with (
        broker(port, tmp_path / "journal"),
        connected(port) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(b"1 orders queue 0\n2 or")
        assert answers.readline() == b"1\n"
        connection.sendall(b"ders queue 1\n3 orders queue 2\n4")
        assert [answers.readline(), answers.readline()] == [b"2\n", b"3\n"]
        connection.sendall(b"\n")
        assert answers.readline() == b"4\n"


def test_what_was_acknowledged_outlives_kills(tmp_path: Path) -> None:
    port, journal = free_port(), tmp_path / "journal"
    for message_id in (b"1", b"2"):
        with broker(port, journal) as process, connected(port) as connection:
            with connection.makefile("rb") as answers:
                connection.sendall(message_id + b" orders\n")
                assert answers.readline() == message_id + b"\n"
            process.kill()
            process.wait()
    assert journal.read_bytes() == b"1\n2\n"


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = command(port, tmp_path / "journal")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: broker-a cannot serve at port {port}: ")
    assert done.stderr.count("\n") == 1


def test_the_time_at_which_a_condition_was_met_is_returned() -> None:
    answers = iter([False, False, True])
    began_s = monotonic()
    at_s = Patience().until(lambda: next(answers), 60.0)
    assert at_s is not None
    assert began_s <= at_s <= monotonic()


def test_a_condition_that_is_not_met_in_time_is_none() -> None:
    assert Patience().until(lambda: False, 0.01) is None


def test_a_condition_is_looked_at_once_even_without_any_time() -> None:
    assert Patience().until(lambda: True, 0.0) is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_waiting_and_is_remembered(number: signal.Signals) -> None:
    patience = Patience()
    before = signal.getsignal(number)
    with patience.signals():
        os.kill(os.getpid(), number)
        for _ in range(2):
            with pytest.raises(Interrupted) as caught:
                patience.until(lambda: True, 60.0)
            assert caught.value.number == number
    assert signal.getsignal(number) == before
