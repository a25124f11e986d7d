"""The snapshot of a client is looked at as long as a run lasts."""

from __future__ import annotations

from pathlib import Path

from sharedroutes.client.snapshot import Snapshot, encode
from tests.faults.checker.history import Saved, Writer, read_file
from tests.faults.matrix.stores import NAMESPACE
from tests.faults.matrix.watchers import SnapshotWatch


def test_a_snapshot_is_whole_or_it_is_said_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "routes.json"
    first, second = (encode(NAMESPACE, Snapshot({}, {}, f"{number}-0")) for number in (1, 2))
    with Writer(tmp_path, "driver") as history:
        watch = SnapshotWatch("client", path, history)
        watch.look()
        for content in (first, first, second, second[:-1], b""):
            path.write_bytes(content)
            watch.look()
        path.unlink()
        watch.look()
    problems = [saved.problem for saved in read_file(tmp_path / "driver.jsonl") if isinstance(saved, Saved)]
    assert problems[:2] == ["", ""]
    assert [problem.partition(":")[0] for problem in problems[2:]] == [
        "it is no snapshot",
        "it is no snapshot",
        "it is gone",
    ]
