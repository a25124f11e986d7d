"""What systemd is told, on a real datagram socket."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharedroutes.broker_agent.process.supervision import Notifier


class Systemd:
    """The socket that systemd reads; `heard` returns the messages that have come since."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)  # noqa: FBT003 - as it is called

    def heard(self) -> list[str]:
        """Return the messages: a datagram is there as soon as it was sent."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4_096).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    systemd = Systemd(str(tmp_path / "notify"))
    yield systemd
    systemd.socket.close()


def path_of(systemd: Systemd) -> str:
    name: str = systemd.socket.getsockname()
    return name


def test_systemd_hears_of_the_start_of_a_reload_and_of_the_end(systemd: Systemd) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": path_of(systemd)})
    notifier.ready()
    notifier.reloading()
    notifier.ready()
    notifier.stopping(21.7)
    ready, reloading, again, stopping = systemd.heard()
    assert ready == again == "READY=1"
    assert stopping == "STOPPING=1\nEXTEND_TIMEOUT_USEC=21700000"
    first, second = reloading.split("\n")
    assert first == "RELOADING=1"
    name, _, moment = second.partition("=")
    assert name == "MONOTONIC_USEC"
    assert int(moment) > 0


def test_a_status_is_one_line_and_is_sent_when_it_changes(systemd: Systemd) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": path_of(systemd)})
    for text in ("a\nREADY=1", "a READY=1", "b"):
        notifier.status(text)
    assert systemd.heard() == ["STATUS=a READY=1", "STATUS=b"]


@pytest.mark.parametrize(
    ("environment", "interval_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_progress_is_told_when_systemd_watches_this_process(
    systemd: Systemd, environment: dict[str, str], interval_s: float | None
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": path_of(systemd), **environment})
    assert notifier.watchdog_s == interval_s
    notifier.progress()
    assert systemd.heard() == ([] if interval_s is None else ["WATCHDOG=1"])


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="abstract sockets are Linux's")
def test_an_abstract_socket_is_meant_by_an_at_sign() -> None:
    name = f"sharedroutes-test-{os.getpid()}"
    systemd = Systemd(f"\0{name}")
    Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
    assert systemd.heard() == ["READY=1"]
    systemd.socket.close()


def test_without_systemd_nothing_is_told_and_nothing_goes_wrong(caplog: pytest.LogCaptureFixture) -> None:
    notifier = Notifier({"WATCHDOG_USEC": "3000000"})
    notifier.ready()
    notifier.progress()
    assert notifier.watchdog_s is None
    assert caplog.records == []


def test_a_socket_that_is_not_there_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "nowhere")})
    with caplog.at_level(logging.WARNING):
        notifier.ready()
        notifier.stopping(1.0)
    assert [record.getMessage() for record in caplog.records] == [
        "NOTIFY_SOCKET: systemd cannot be told READY: [Errno 2] No such file or directory"
    ]


def test_a_socket_that_is_none_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": "vsock:2:1"}).ready()
    assert "NOTIFY_SOCKET: 'vsock:2:1' is neither a path nor an abstract socket" in caplog.text


def test_a_systemd_that_does_not_read_does_not_stop_the_agent(systemd: Systemd) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": path_of(systemd)})
    for number in range(10_000):
        notifier.status(str(number))
    assert systemd.heard()[0] == "STATUS=0"
