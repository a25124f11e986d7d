"""`verify`, `rebuild`, `forget`, `export` and `import` on a real server; `health` has a file of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from click.testing import Result

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.cli.terminal import rows, run

SOURCE: Final = Path(__file__).parents[2] / "src"


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    """Return a store with a live broker, one that left, and a key with a value."""
    with RouteStore.from_url(redis_url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")])
        store.unregister(store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders")]))
        store.kv.put("ns", "key", "value")
        yield store


def documents(done: Result) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.usefixtures("store")
def test_a_registry_in_order_has_no_differences(redis_url: str) -> None:
    done = run(redis_url, "verify")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "no differences\n", "")
    done = run(redis_url, "verify", "--output", "ndjson")
    assert (done.exit_code, done.stdout) == (0, "")
    done = run(redis_url, "rebuild")
    assert (done.exit_code, done.stdout) == (0, "0 mended, 0 left\n")


def test_differences_are_shown_and_mended_and_what_is_left_is_told(
    store: RouteStore, redis_url: str, admin: redis.Redis, foreign_keys: list[str]
) -> None:
    key, foreign = store.keys.topic("audit"), f"{store.keys.prefix}:colour"
    foreign_keys.append(foreign)
    admin.set(key, "broker-a 9 9 6 0")
    admin.set(foreign, "blue")
    done = run(redis_url, "verify")
    assert done.exit_code == 1
    assert {line.partition(": ")[0] for line in done.stdout.splitlines()[:2]} == {"row-stale", "unknown-key"}
    assert f"row-stale: {key}: has the row b'broker-a 9 9 6 0'" in done.stdout
    assert done.stdout.endswith("\n2 differences\n")
    found = {one["kind"]: one for one in documents(run(redis_url, "verify", "--output", "ndjson"))}
    assert found["row-stale"].pop("text").startswith("has the row")
    assert found["row-stale"] == {
        "kind": "row-stale",
        "key": key,
        "mendable": True,
        "brokerName": "broker-a",
        "brokerId": None,
        "topic": "audit",
    }
    assert found["unknown-key"]["mendable"] is False

    done = run(redis_url, "rebuild")
    assert done.exit_code == 1
    assert f"mended row-stale: {key}: " in done.stdout
    assert f"left unknown-key: {foreign}: " in done.stdout
    assert done.stdout.endswith("\n1 mended, 1 left\n")
    (left,) = documents(run(redis_url, "rebuild", "--output", "ndjson"))
    assert (left["kind"], left["mended"]) == ("unknown-key", False)


@pytest.mark.parametrize("command", ["verify", "export"])
def test_the_progress_is_shown_on_a_terminal_and_stays_out_of_the_output(
    store: RouteStore, redis_url: str, admin: redis.Redis, command: str
) -> None:
    admin.srem(store.keys.topics, "orders")
    master, terminal = os.openpty()
    arguments = [sys.executable, "-m", "sharedroutes.cli", command, "--redis", redis_url]
    environment = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        arguments, stdout=subprocess.PIPE, stderr=terminal, env=environment, text=True, check=False
    )
    os.close(terminal)
    shown = os.read(master, 65_536).decode()
    os.close(master)
    assert command in shown
    assert "\x1b[" in shown
    if command == "verify":
        assert done.stdout.startswith("topic-unlisted: ")
        assert done.stdout.endswith("\n1 difference\n")
    else:
        assert len([json.loads(line) for line in done.stdout.splitlines()]) == 8
    list(store.admin.rebuild())


def test_brokers_are_forgotten_and_live_ones_are_not(store: RouteStore, redis_url: str) -> None:
    done = run(redis_url, "forget", "broker-a", "broker-b", "no-such")
    assert done.exit_code == 1
    assert [line.split() for line in done.stdout.splitlines()] == [["broker", "topics"], ["broker-b", "1"]]
    assert "broker-a:0 is held by 10.0.0.1:10911" in done.stderr
    assert "no-such: no broker of this name" in done.stderr
    assert list(store.routes(["orders"])) == ["orders"]
    done = run(redis_url, "forget", "broker-b")
    assert done.exit_code == 1


def test_a_file_brings_the_registry_back(
    store: RouteStore, redis_url: str, admin: redis.Redis, tmp_path: Path
) -> None:
    file = tmp_path / "registry.ndjson"
    done = run(redis_url, "export", str(file))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    assert len(file.read_bytes().splitlines()) == 8
    admin.flushall()
    expected = [
        ["brokers", "2", "0", "0"],
        ["topics", "3", "0", "0"],
        ["kv", "1", "0", "0"],
    ]
    done = run(redis_url, "import", str(file), "--dry-run")
    assert rows(done) == expected
    assert done.stdout.splitlines()[0].split() == ["written", "unchanged", "refused"]
    assert admin.dbsize() == 0
    done = run(redis_url, "import", str(file))
    assert rows(done) == expected
    assert store.kv.get("ns", "key") == "value"
    assert list(store.admin.verify()) == []


@pytest.mark.usefixtures("store")
def test_a_pipe_brings_the_registry_back(redis_url: str, admin: redis.Redis) -> None:
    done = run(redis_url, "export")
    assert done.exit_code == 0
    admin.flushall()
    done = run(redis_url, "import", "-", "--output", "json", given=done.stdout_bytes)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {
        "brokers": {"written": 2, "unchanged": 0, "refused": 0},
        "topics": {"written": 3, "unchanged": 0, "refused": 0},
        "kv": {"written": 1, "unchanged": 0, "refused": 0},
        "notImported": [],
    }


@pytest.mark.parametrize("way", ["file", "pipe"])
def test_a_truncated_export_is_one_line_and_nothing_is_written(
    store: RouteStore, redis_url: str, admin: redis.Redis, tmp_path: Path, way: str
) -> None:
    content = b"".join(list(store.admin.export())[:-1])
    file = tmp_path / "cut"
    file.write_bytes(content)
    admin.flushall()
    name = str(file) if way == "file" else "-"
    done = run(redis_url, "import", name, given=content)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {name}: line 7: the export is truncated")
    assert done.stderr.endswith("; nothing was written\n")
    assert admin.dbsize() == 0


def test_a_live_broker_is_named_and_replaced_only_when_told(
    store: RouteStore, redis_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "registry.ndjson"
    run(redis_url, "export", str(file))
    store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("audit")])
    done = run(redis_url, "import", str(file))
    assert done.exit_code == 1
    assert "broker broker-a" in done.stdout
    assert "broker-a:0 is held by 10.0.0.1:10911" in done.stdout
    assert store.topics() == ["audit"]
    done = run(redis_url, "import", str(file), "--replace-live")
    assert done.exit_code == 0, done.output
    assert store.topics() == ["audit", "orders"]


@pytest.mark.parametrize("arguments", [("import", "no-such-file"), ("export", "no-such-folder/file")])
def test_a_file_that_cannot_be_used_is_one_line(redis_url: str, arguments: tuple[str, str]) -> None:
    done = run(redis_url, *arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {arguments[1]}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("store")
def test_an_export_that_fails_leaves_the_old_file(own_server: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "registry.ndjson"
    file.write_bytes(b"old")
    own_server.stop()
    assert run(own_server.url, "export", str(file)).exit_code == 1
    assert file.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
