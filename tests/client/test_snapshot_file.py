"""When the snapshot file is read and written, and what is told when it cannot be used."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from sharedroutes.client import ClientConfig
from sharedroutes.client.observers.events import Event, SnapshotSaved, SnapshotUnusable
from sharedroutes.client.snapshot import Snapshot, SnapshotFile
from sharedroutes.registry import BrokerData, QueueData

NAMESPACE: Final = "sharedroutes"
MAX_AGE_S: Final = 100.0
KNOWN: Final = Snapshot(
    {"t": (QueueData("a", 4, 4, 6, 0),)}, {"a": BrokerData("c", "a", {0: "10.0.0.1:10911"})}, "1-0"
)


class Stage:
    """A file and what it told."""

    def __init__(self, path: Path | None, max_age_s: float = MAX_AGE_S, namespace: str = NAMESPACE) -> None:
        self.told: list[Event] = []
        config = ClientConfig(snapshot_path=path)
        self.file = SnapshotFile(config, namespace, self.told.append, max_age_s)

    def unusable(self) -> SnapshotUnusable:
        """Return the only event, which must be of this kind."""
        (event,) = self.told
        assert isinstance(event, SnapshotUnusable)
        return event


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "routes.json"


@pytest.fixture
def written(path: Path) -> Path:
    """Return a file that was written just now."""
    Stage(path).file.save(KNOWN)
    return path


def make_old(path: Path, age_s: float) -> None:
    """Let a file have been written so long ago by the clock of its file system."""
    written_at = path.stat().st_mtime - age_s
    os.utime(path, (written_at, written_at))


# --- reading ------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_and_nothing_is_told(written: Path) -> None:
    stage = Stage(written)
    assert stage.file.load() == KNOWN
    assert stage.told == []


def test_an_old_file_is_not_used_and_that_is_told_once_with_its_age(written: Path) -> None:
    make_old(written, MAX_AGE_S + 50)
    content = written.read_bytes()
    stage = Stage(written)
    assert stage.file.load() is None
    event = stage.unusable()
    assert (event.path, event.use) == (str(written), "read")
    age_s, max_age_s = (int(word) for word in event.reason.split() if word.isdecimal())
    assert MAX_AGE_S + 50 <= age_s < MAX_AGE_S + 110
    assert max_age_s == MAX_AGE_S
    assert written.read_bytes() == content


def test_a_file_that_is_not_that_old_is_used(written: Path) -> None:
    make_old(written, MAX_AGE_S - 60)
    assert Stage(written).file.load() == KNOWN


def test_the_age_is_by_the_clock_of_the_file_system_whatever_ours_says(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in (0.0, 1e12):
        monkeypatch.setattr("time.time", lambda wrong=wrong: wrong)
        assert Stage(written).file.load() == KNOWN


def test_a_file_that_was_written_later_than_now_is_used(written: Path) -> None:
    make_old(written, -3_600.0)
    assert Stage(written, max_age_s=0.0).file.load() == KNOWN


def test_with_no_age_allowed_no_file_of_an_earlier_moment_is_used(written: Path) -> None:
    make_old(written, 1.0)
    stage = Stage(written, max_age_s=0.0)
    assert stage.file.load() is None
    assert "more than 0 s" in stage.unusable().reason


def test_where_nobody_may_write_the_age_is_not_known_and_the_file_is_used(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: Any, **_options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    make_old(written, MAX_AGE_S + 50)
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # root may write anywhere, so no mode would do
    stage = Stage(written)
    assert stage.file.load() == KNOWN
    assert stage.told == []


def test_looking_at_the_age_leaves_no_other_file(written: Path) -> None:
    Stage(written).file.load()
    assert [*written.parent.iterdir()] == [written]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_file_is_told_once_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    stage = Stage(path)
    assert stage.file.load() is None
    assert stage.unusable().use == "read"
    assert path.read_bytes() == content


def test_a_file_of_another_registry_is_told_once(written: Path) -> None:
    stage = Stage(written, namespace="other")
    assert stage.file.load() is None
    assert "'sharedroutes'" in stage.unusable().reason


def test_no_file_is_nothing_to_tell(path: Path) -> None:
    stage = Stage(path)
    assert stage.file.load() is None
    assert stage.told == []


# --- writing ------------------------------------------------------------------------------------------------


def test_a_write_is_told_with_what_it_holds(path: Path) -> None:
    stage = Stage(path)
    stage.file.save(KNOWN)
    assert stage.told == [SnapshotSaved(1)]
    assert [*path.parent.iterdir()] == [path]


def test_a_write_that_fails_is_told_and_leaves_the_old_file(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    content = written.read_bytes()
    monkeypatch.setattr(Path, "replace", refuse)
    stage = Stage(written)
    stage.file.save(Snapshot({}, {}, None))
    event = stage.unusable()
    assert (event.path, event.use) == (str(written), "write")
    assert "No space left" in event.reason
    assert written.read_bytes() == content
    assert [*written.parent.iterdir()] == [written]


def test_what_could_not_be_written_is_not_tried_again_by_itself(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "no such folder" / "routes.json")
    stage.file.something_new()
    stage.file.taken(0.0)
    stage.file.save(KNOWN)
    assert not stage.file.due(100.0)
    assert stage.unusable().use == "write"
    stage.file.something_new()
    assert stage.file.due(100.0)


def test_writes_that_go_on_failing_are_told_once_until_one_succeeds(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    stage = Stage(folder / "routes.json")
    for _ in range(3):
        stage.file.save(KNOWN)
    assert stage.unusable().use == "write"
    folder.mkdir()
    stage.file.save(KNOWN)
    assert stage.told[1:] == [SnapshotSaved(1)]
    (folder / "routes.json").unlink()
    folder.rmdir()
    for _ in range(2):
        stage.file.save(KNOWN)
    assert [type(event) for event in stage.told] == [SnapshotUnusable, SnapshotSaved, SnapshotUnusable]


def test_what_changes_while_the_file_is_written_is_written_next(path: Path) -> None:
    file = Stage(path).file
    file.something_new()
    file.taken(0.0)
    file.something_new()
    file.save(KNOWN)
    assert file.due(1.0)


def test_without_a_path_nothing_is_read_written_or_told() -> None:
    stage = Stage(None)
    stage.file.something_new()
    assert not stage.file.due(0.0)
    assert stage.file.load() is None
    stage.file.save(KNOWN)
    assert stage.told == []
