"""The file that keeps the last known routes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.snapshot import Snapshot, SnapshotError, decode, encode, write
from sharedroutes.registry import BrokerData, QueueData
from sharedroutes.registry.model import in_order
from tests.registry.builders import broker_names, names

NAMESPACE: Final = "sharedroutes"
ROWS: Final = {"t": (QueueData("broker-a", 4, 8, 6, 1), QueueData("broker-b", 1, 1, 4))}
ALIVE: Final = {"broker-a": BrokerData("c", "broker-a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})}
CONTENT: Final = encode(NAMESPACE, Snapshot(ROWS, ALIVE, "1700000000000-1"))


def queue_datas() -> st.SearchStrategy[QueueData]:
    queues = st.integers(0, 65_536)
    return st.builds(QueueData, broker_names(), queues, queues, st.integers(0, 7), st.integers(0, 2**31 - 1))


def alive_brokers() -> st.SearchStrategy[dict[str, BrokerData]]:
    addresses = st.dictionaries(st.integers(0, 2**63 - 1), st.just("10.0.0.1:10911"), max_size=3)
    found = st.builds(BrokerData, names(), broker_names(), addresses)
    return st.lists(found, max_size=3).map(lambda brokers: {broker.broker_name: broker for broker in brokers})


@given(
    rows=st.dictionaries(names(), st.lists(queue_datas(), max_size=3).map(in_order), max_size=3),
    alive=alive_brokers(),
    position=st.sampled_from([None, "0-0", "1700000000000-1"]),
)
def test_what_was_written_is_read(
    rows: dict[str, tuple[QueueData, ...]], alive: dict[str, BrokerData], position: str | None
) -> None:
    known = Snapshot(rows, alive, position)
    assert decode(NAMESPACE, encode(NAMESPACE, known)) == known


def test_a_snapshot_that_was_cut_off_anywhere_is_refused() -> None:
    for length in range(len(CONTENT)):
        with pytest.raises(SnapshotError):
            decode(NAMESPACE, CONTENT[:length])


@pytest.mark.parametrize(
    ("name", "value"),
    [("format", "sharedroutes-snapshot-0"), ("namespace", "another")],
)
def test_a_snapshot_of_something_else_is_refused_by_name(name: str, value: str) -> None:
    document = orjson.loads(CONTENT)
    with pytest.raises(SnapshotError, match=value):
        decode(NAMESPACE, orjson.dumps({**document, name: value}))


def anything() -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=5)
    return st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=10,
    )


@given(st.binary(max_size=50) | anything().map(orjson.dumps))
def test_a_file_that_is_no_snapshot_is_refused(content: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode(NAMESPACE, content)


@given(part=st.sampled_from(["topics", "brokers", "position"]), value=anything())
def test_a_snapshot_with_a_damaged_part_is_refused_or_of_the_right_shape(part: str, value: Any) -> None:
    try:
        known = decode(NAMESPACE, orjson.dumps({**orjson.loads(CONTENT), part: value}))
    except SnapshotError:
        return
    assert all(isinstance(row, QueueData) for found in known.rows.values() for row in found)
    assert all(isinstance(broker, BrokerData) for broker in known.alive.values())


@pytest.mark.parametrize(
    "position", ["", "-", "1", "1-", "x-1", "1-1 ", "+", "99999999999999999999-0", 1, []]
)
def test_a_snapshot_with_a_position_that_redis_would_refuse_is_refused(position: object) -> None:
    with pytest.raises(SnapshotError):
        decode(NAMESPACE, orjson.dumps({**orjson.loads(CONTENT), "position": position}))


@pytest.mark.parametrize("numbers", [[10**12, 1, 6, 0], [1, 10**12, 6, 0], [-1, 1, 6, 0], [1, 1, 8, 0]])
def test_a_snapshot_with_impossible_numbers_is_refused(numbers: list[int]) -> None:
    document = {**orjson.loads(CONTENT), "topics": {"t": [["broker-a", *numbers]]}}
    with pytest.raises(SnapshotError):
        decode(NAMESPACE, orjson.dumps(document))


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    for content in (b"old", b"new"):
        write(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"routes\.json"):
        write(path, b"content")
    assert list(tmp_path.iterdir()) == [path]


WRITER: Final = """
import sys
from pathlib import Path
from sharedroutes.client.snapshot import write

path, contents = Path(sys.argv[1]), [b"a" * 100_000, b"b" * 200_000]
while True:
    for content in contents:
        write(path, content)
    print(flush=True)
"""


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that writes two contents in turns, and kill it at the end, whatever it is doing."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_reader_sees_the_old_or_the_new_file_even_if_the_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    whole = {b"a" * 100_000, b"b" * 200_000}
    for _ in range(3):
        with writer(path) as process:
            assert process.stdout is not None
            with closing(process.stdout):
                process.stdout.readline()
                assert all(path.read_bytes() in whole for _ in range(100))
        assert path.read_bytes() in whole
