"""`verify`, `rebuild` and `forget` on a real server."""

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

from sharedroutes.registry import Broker, RouteStore, TopicConfig
from tests.cli.terminal import run

SOURCE: Final = Path(__file__).parents[2] / "src"


@pytest.fixture
def store(redis_url: str) -> Iterator[RouteStore]:
    """Return a store with a live broker and one that left."""
    with RouteStore.from_url(redis_url) as store:
        store.register(Broker("broker-a", "10.0.0.1:10911"), [TopicConfig("orders"), TopicConfig("audit")])
        store.unregister(store.register(Broker("broker-b", "10.0.0.2:10911"), [TopicConfig("orders")]))
        yield store


def documents(done: Result) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.usefixtures("store")
def test_a_registry_in_order_has_no_differences(redis_url: str) -> None:
    done = run(redis_url, "verify")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "no differences\n", "")
    done = run(redis_url, "verify", "--output", "json")
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
    found = {one["kind"]: one for one in documents(run(redis_url, "verify", "--output", "json"))}
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
    (left,) = documents(run(redis_url, "rebuild", "--output", "json"))
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
        assert len([json.loads(line) for line in done.stdout.splitlines()]) == 7
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
