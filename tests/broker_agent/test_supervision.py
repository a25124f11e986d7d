"""What supervisors see of the process: notifications to systemd, and whether agents still work."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from sharedroutes.broker_agent.planner.status import AgentStatus, Phase
from sharedroutes.broker_agent.process.supervision import Progress
from sharedroutes.daemon.notifier import Notifier
from tests.broker_agent.sidecar_host import Systemd


def test_systemd_hears_of_the_start_of_a_reload_and_of_the_end(systemd: Systemd) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": systemd.path})
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
    notifier = Notifier({"NOTIFY_SOCKET": systemd.path})
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
    notifier = Notifier({"NOTIFY_SOCKET": systemd.path, **environment})
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
        "NOTIFY_SOCKET: cannot send READY to systemd: [Errno 2] No such file or directory"
    ]


def test_a_socket_that_is_none_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    Notifier({"NOTIFY_SOCKET": "vsock:2:1"}).ready()
    assert "NOTIFY_SOCKET: 'vsock:2:1' is neither a path nor an abstract socket" in caplog.text


def test_a_systemd_that_does_not_read_does_not_stop_the_agent(systemd: Systemd) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": systemd.path})
    for number in range(10_000):
        notifier.status(str(number))
    assert systemd.heard()[0] == "STATUS=0"


def status(phase: Phase = Phase.SERVING, **counts: Any) -> list[tuple[AgentStatus, float]]:
    return [(AgentStatus(name="broker-a:0", broker=None, phase=phase, phase_s=0.0, **counts), 1.0)]


def test_an_agent_that_stops_calling_the_store_is_stuck_until_it_calls_again() -> None:
    progress = Progress(patience_s=3.0)
    for now in range(8):
        progress.look(status(heartbeats=7), float(now))
        assert bool(progress.any_stuck) is (now > 6)  # six times the longest call, and longer than 3 s
    assert progress.stuck("broker-a:0") == "broker-a:0: serving, and has not called the store for 7 s"
    progress.look(status(heartbeats=8), 8.0)
    assert not progress.any_stuck
    assert progress.stuck("broker-a:0") == ""


@pytest.mark.parametrize("count", ["heartbeats", "registrations", "failures", "fenced"])
def test_any_call_is_progress_also_one_that_fails(count: str) -> None:
    progress = Progress()
    for now in range(100):
        progress.look(status(Phase.REGISTERING, **{count: now}), float(now))
        assert not progress.any_stuck


WORKING = {Phase.SERVING, Phase.HANDING_OVER, Phase.REGISTERING}


@pytest.mark.parametrize("phase", sorted(set(Phase) - WORKING))
def test_an_agent_that_has_nothing_to_call_is_not_stuck(phase: Phase) -> None:
    progress = Progress()
    for now in range(100):
        progress.look(status(phase), float(now))
    assert not progress.any_stuck


def test_a_registration_of_many_topics_is_given_a_minute() -> None:
    progress = Progress()
    for now in range(61):
        progress.look(status(Phase.REGISTERING), float(now))
        assert not progress.any_stuck
    progress.look(status(Phase.REGISTERING), 61.0)
    assert progress.any_stuck


def test_a_process_that_was_stopped_is_given_time_to_go_on() -> None:
    progress = Progress(longest_s=2.0, patience_s=1.0)
    progress.look(status(heartbeats=7), 0.0)
    progress.look(status(heartbeats=7), 1_000_000.0)
    assert not progress.any_stuck
