"""The name server front as operators run it: a process, a real server, real sockets."""

from __future__ import annotations

from pathlib import Path

from sharedroutes.registry import EmbeddedServer
from tests.nameserver.running import FrontRun


def test_it_is_ready_answers_and_drains(tmp_path: Path, own_server: EmbeddedServer) -> None:
    with FrontRun(tmp_path, "--redis", own_server.url) as front:
        front.until_ready()
        with front.peer() as peer:
            unknown = peer.ask(4_711)
            assert (unknown.code, unknown.remark) == (3, " request type 4711 not supported")
            assert front.end() == 0
            assert peer.receive() is None
    assert "drained" in front.log()
    assert "Traceback" not in front.log()


def test_without_a_store_it_has_one_of_its_own_and_says_so(tmp_path: Path) -> None:
    with FrontRun(tmp_path, SHAREDROUTES_REDIS_URL="") as front:
        front.until_ready()
        assert "ALL ITS DATA END WITH THIS PROCESS" in front.log()
        assert front.end() == 0
