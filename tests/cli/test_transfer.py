"""`export` and `import` on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sharedroutes.registry import Broker, EmbeddedServer, RouteStore, TopicConfig
from tests.cli.terminal import rows, run


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    with RouteStore.from_url(redis_url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")])
        store.unregister(store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders")]))
        store.kv.put("ns", "key", "value")
        yield store


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
