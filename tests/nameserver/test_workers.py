"""Several processes of one front at one port."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sharedroutes.registry import EmbeddedServer
from sharedroutes.remoting import RequestCode, ResponseCode
from tests.nameserver.running import FrontRun
from tests.support import process_state, wait_until

pytestmark = pytest.mark.long


@pytest.fixture
def front(tmp_path: Path, own_server: EmbeddedServer) -> Iterator[FrontRun]:
    """Return a front of two workers that is ready."""
    with FrontRun(tmp_path, "--redis", own_server.url, "--workers", "2") as front:
        front.until_ready()
        yield front


def pids(front: FrontRun) -> list[int]:
    """Return the processes of the workers that run."""
    return [worker["pid"] for worker in front.state()["workers"] if "pid" in worker]


def until_whole(front: FrontRun, *but: int) -> None:
    """Wait until two workers run, and none of those processes."""

    def is_whole() -> bool:
        found = pids(front)
        return len(found) == 2 and not {*found} & {*but} and front.get("/readyz")[0] == 200

    wait_until(is_whole, timeout_s=60.0, description="two workers are ready")


def counted(front: FrontRun, name: str) -> float:
    """Return the sum of a metric."""
    families = text_string_to_metric_families(front.get("/metrics")[1])
    prefixed = f"sharedroutes_nameserver_{name}"
    return sum(sample.value for family in families for sample in family.samples if sample.name == prefixed)


def has_ended(pid: int) -> bool:
    return process_state(pid) in ("", "Z")


def test_they_share_the_port_and_end_together(front: FrontRun) -> None:
    asked = 40
    for _ in range(asked):
        with front.peer() as peer:
            assert peer.ask(4_711).code == 3
    assert counted(front, "requests_total") == asked
    assert counted(front, "workers") == 2
    with front.peer() as peer:
        assert peer.ask(4_711).code == 3
        workers = pids(front)
        assert front.end() == 0
        assert peer.receive() is None
    assert all(map(has_ended, workers))
    assert "Traceback" not in front.log()


def test_one_that_is_killed_is_replaced_and_what_it_has_counted_stays(front: FrontRun) -> None:
    for _ in range(20):
        with front.peer() as peer:
            peer.ask(4_711)
    assert counted(front, "requests_total") == 20
    first, second = pids(front)
    os.kill(first, signal.SIGKILL)
    until_whole(front, first)
    assert second in pids(front)
    front.until_said(f"worker 1: process {first} has ended with signal 9")
    assert counted(front, "requests_total") == 20
    assert counted(front, "worker_restarts_total") == 1
    with front.peer() as peer:
        assert peer.ask(4_711).code == 3
    assert front.end() == 0


def test_it_is_ready_when_all_of_them_are(front: FrontRun, own_server: EmbeddedServer) -> None:
    victim = pids(front)[1]
    own_server.pause()  # the one that takes its place is not ready before the store answers
    os.kill(victim, signal.SIGKILL)

    def is_missing() -> bool:
        status, text = front.get("/readyz")
        return status == 503 and text.startswith("worker 2: ")

    wait_until(is_missing, description="it is said that one is missing")
    own_server.resume()
    until_whole(front, victim)


def test_one_that_hangs_is_replaced(tmp_path: Path, own_server: EmbeddedServer) -> None:
    # Patient while workers start, which takes seconds on a busy machine.
    program = (
        "import signal\n"
        "from sharedroutes.nameserver import command, workers\n"
        "signal.signal(signal.SIGUSR1, lambda *_: setattr(workers, '_SILENT_S', 3.0))\n"
        "signal.signal(signal.SIGUSR2, lambda *_: setattr(workers, '_SILENT_S', 60.0))\n"
        "command.nameserver_command()"
    )
    arguments = ("--redis", own_server.url, "--workers", "2")
    with FrontRun(tmp_path, *arguments, program=program) as front:
        front.until_ready()
        victim = pids(front)[0]
        front.process.send_signal(signal.SIGUSR1)
        os.kill(victim, signal.SIGSTOP)
        front.until_said("worker 1: has not answered for 3 s: killing it")
        front.process.send_signal(signal.SIGUSR2)
        until_whole(front, victim)
        assert front.end() == 0


def test_what_an_operator_changes_is_changed_in_all_of_them(
    tmp_path: Path, own_server: EmbeddedServer
) -> None:
    updatable = ("--redis", own_server.url, "--workers", "2", "--update-config")
    with FrontRun(tmp_path, *updatable) as front:

        def are_changed() -> bool:
            found = [worker.get("front", {}).get("switches", {}) for worker in front.state()["workers"]]
            return [its.get("supportActingMaster") for its in found] == ["true", "true"]

        front.until_ready()
        with front.peer() as peer:
            answer = peer.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"supportActingMaster=true")
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        wait_until(are_changed, timeout_s=60.0, description="all of them have changed")
        victim = pids(front)[0]
        os.kill(victim, signal.SIGKILL)
        until_whole(front, victim)
        wait_until(are_changed, timeout_s=60.0, description="the new one has changed, too")
        assert front.end() == 0


def test_workers_whose_parent_is_killed_end(front: FrontRun) -> None:
    workers = pids(front)
    front.end(signal.SIGKILL)
    wait_until(lambda: all(map(has_ended, workers)), timeout_s=60.0, description="they end")


def test_a_second_signal_ends_all_of_them_at_once(tmp_path: Path, own_server: EmbeddedServer) -> None:
    slow = ("--drain-wait", "600")
    with FrontRun(tmp_path, "--redis", own_server.url, "--workers", "2", *slow) as front:
        front.until_ready()
        workers = pids(front)
        front.process.send_signal(signal.SIGTERM)
        front.until_said("draining")
        assert front.get("/readyz") == (503, "it is about to end\n")
        assert front.end() == 0
    wait_until(lambda: all(map(has_ended, workers)), description="they have ended")


def test_a_worker_that_cannot_start_ends_the_front(tmp_path: Path, own_server: EmbeddedServer) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text("workers=2\n")
    with FrontRun(tmp_path, "--redis", own_server.url, "-c", str(config)) as front:
        front.until_ready()
        config.write_text("readOnly=perhaps\n")
        os.kill(pids(front)[0], signal.SIGKILL)
        assert front.process.wait(60.0) == 2
    assert "namesrv.conf:1: readOnly: expected true or false, got 'perhaps'" in front.log()


def test_a_port_that_others_have_is_not_shared_with_them(front: FrontRun, tmp_path: Path) -> None:
    host, port = front.address()
    folder = tmp_path / "second"
    folder.mkdir()
    with FrontRun(folder, "--workers", "2", "--listen", f"{host}:{port}") as second:
        assert second.process.wait(60.0) == 3
        assert f"cannot listen at {host}:{port}: Address already in use" in second.log()
