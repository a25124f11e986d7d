"""`agent --check` against real files, servers and sockets."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner, Result

from sharedroutes.broker_agent.process.command import agent_command
from sharedroutes.registry import EmbeddedServer
from sharedroutes.registry.acl import Role, acl_rules
from tests.broker_agent.data_files import broker_conf
from tests.broker_agent.speaking_broker import SpeakingProcess
from tests.ports import free_port

TOPICS = '{"dataVersion":{},"topicConfigTable":{"orders":{"topicName":"orders"}}}'


@pytest.fixture
def listener() -> Iterator[int]:
    """Return the port of somebody who takes connections, and closes them at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def conf(tmp_path: Path, listener: int) -> Path:
    """Return a broker.conf with topics."""
    folder = tmp_path / "store" / "config"
    folder.mkdir(parents=True)
    (folder / "topics.json").write_text(TOPICS)
    path = tmp_path / "broker.conf"
    path.write_text(broker_conf("broker-a", listener, tmp_path / "store"))
    return path


def run(conf: Path, *arguments: str) -> Result:
    return CliRunner().invoke(agent_command, ["--broker-conf", str(conf), *arguments])


def outcomes(done: Result) -> dict[str, str]:
    return {line[:8].strip(): line[8:18].strip() for line in done.stdout.splitlines()}


def test_each_check_can_be_left_out(conf: Path) -> None:
    done = run(conf, "--check=files")
    assert (done.exit_code, outcomes(done)) == (
        0,
        {"files": "ok", "store": "left out", "broker": "left out"},
    )
    assert "1 broker: broker-a:0 (1 topic)" in done.stdout


def test_a_check_that_there_is_not_is_wrong_usage(conf: Path) -> None:
    done = run(conf, "--check=everything")
    assert done.exit_code == 2
    assert "'everything' is none of files, store, broker" in done.stderr


def a_directory(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "s a directory"  # of the system's error, or ours


def binary(path: Path) -> str:
    path.write_bytes(b"\x7fELF\0\xff")
    return "is no "


def missing(path: Path) -> str:
    path.unlink()
    return "o such file"


def a_pipe(path: Path) -> str:
    path.unlink()
    os.mkfifo(path)
    return "is no regular file"


@pytest.mark.parametrize("name", ["broker.conf", "store/config/topics.json"])
def test_a_pipe_is_named_and_not_waited_for(conf: Path, name: str) -> None:
    what = a_pipe(conf.parent / name)
    done = run(conf, "--check=files")
    assert done.exit_code == 2
    assert f"failed    {conf.parent / name}: {what}" in done.stdout


@pytest.mark.parametrize(
    "arguments", [["--broker-credentials", "{}"], ["--broker-tls", "verify-ca", "--broker-tls-ca", "{}"]]
)
def test_files_for_the_broker_are_looked_at_with_the_others(conf: Path, arguments: list[str]) -> None:
    absent = str(conf.parent / "absent")
    done = run(conf, "--check=files", *(word.format(absent) for word in arguments))
    assert done.exit_code == 2
    assert outcomes(done) == {"files": "failed", "store": "left out", "broker": "left out"}
    assert absent in done.stdout


def test_topics_that_are_not_there_yet_are_said_with_their_path(conf: Path) -> None:
    absent = conf.parent / "tpoics.json"
    done = run(conf, "--check=files", "--topics", str(absent))
    assert done.exit_code == 0
    assert f"no {absent} yet" in done.stdout


@pytest.mark.parametrize("damage", [a_directory, binary, missing])
@pytest.mark.parametrize("name", ["broker.conf", "topics.json", "agent.toml"])
def test_a_file_that_is_none_is_named_and_ends_with_2(
    conf: Path, name: str, damage: Callable[[Path], str]
) -> None:
    toml = conf.parent / "agent.toml"
    toml.write_text('[[broker]]\nbroker_conf = "broker.conf"\ntopics_from = "files"\n')
    path = {"topics.json": conf.parent / "store/config/topics.json"}.get(name, conf.parent / name)
    what = damage(path)
    done = CliRunner().invoke(agent_command, ["--config", str(toml), "--check=files"])
    assert done.exit_code == 2
    assert f"failed    {path}: " in done.stdout
    assert what in done.stdout.replace("Is a", "is a")


def test_a_store_and_a_broker_that_are_away_fail(conf: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    done = run(conf, "--check", "--redis", f"redis://:secret@{nowhere}/0", "--probe", nowhere)
    assert (done.exit_code, outcomes(done)) == (2, {"files": "ok", "store": "failed", "broker": "failed"})
    assert f"redis://:***@{nowhere}/0: the store cannot be reached" in done.stdout
    assert "Connection refused" in done.stdout


def test_a_store_that_is_there_and_a_broker_that_only_takes_connections_are_right(
    conf: Path, redis_url: str, admin: redis.Redis
) -> None:
    done = run(conf, "--check", "--redis", redis_url)
    assert (done.exit_code, outcomes(done)) == (0, {"files": "ok", "store": "ok", "broker": "ok"})
    assert admin.keys() == []


def test_a_broker_that_has_to_answer_and_does_not_fails(conf: Path) -> None:
    done = run(conf, "--check=broker", "--topics-from", "broker")
    assert (done.exit_code, outcomes(done)["broker"]) == (2, "failed")
    assert "which is needed for its topics" in done.stdout


def test_a_broker_that_speaks_the_protocol_is_right(conf: Path) -> None:
    with SpeakingProcess() as broker:
        address = f"127.0.0.1:{broker.port}"
        done = run(conf, "--check=broker", "--topics-from", "broker", "--probe", address)
    assert done.exit_code == 0, done.output
    assert f"broker-a:0 at {address} takes connections, and answers" in done.stdout


@pytest.mark.parametrize(("role", "code"), [(Role.READER, 2), (Role.AGENT, 0)])
def test_a_user_of_the_store_has_to_be_an_agent(
    own_server: EmbeddedServer, conf: Path, role: Role, code: int
) -> None:
    with redis.Redis.from_url(own_server.url) as admin:
        admin.execute_command(*acl_rules("sharedroutes", role, user="u", password=f">{role}").split(" "))
        done = run(conf, "--check=store", "--redis", f"redis://u:{role}@127.0.0.1:{own_server.port}/0")
        assert admin.keys() == []
    assert done.exit_code == code, done.output
    if code:
        assert "NOPERM" in done.stdout
        assert "`sharedroutes acl agent --namespace sharedroutes` prints the line" in done.stdout
