"""Files of samples: bounded in size and number, and never in the way of each other."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from sharedroutes.client.observers.samples import SampleFiles


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_next_file_begins_when_one_is_full(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path / "new", "c", file_bytes=10, files=9)
    for line in (b"12345\n", b"6789\n", b"next\n"):
        files.append(line)
    files.close()
    assert [path.read_bytes() for path in sorted((tmp_path / "new").iterdir())] == [
        b"12345\n6789\n",
        b"next\n",
    ]
    assert _names(tmp_path / "new") == ["samples-c-000001.jsonl", "samples-c-000002.jsonl"]


def test_of_too_many_files_the_oldest_go_whoever_wrote_them(tmp_path: Path) -> None:
    for age, name in enumerate(["samples-other-000007.jsonl", "samples-a-000001.jsonl", "no-samples.jsonl"]):
        (tmp_path / name).write_bytes(b"{}\n")
        os.utime(tmp_path / name, (1_000 - age, 1_000 - age))
    files = SampleFiles(tmp_path, "c", file_bytes=1, files=2)
    files.append(b"1\n")
    assert _names(tmp_path) == ["no-samples.jsonl", "samples-c-000001.jsonl", "samples-other-000007.jsonl"]
    files.append(b"2\n")
    files.close()
    assert _names(tmp_path) == ["no-samples.jsonl", "samples-c-000001.jsonl", "samples-c-000002.jsonl"]


def test_files_that_cannot_be_removed_are_said_once_and_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a folder of several users, in which each may remove only what is theirs."""
    for number in (1, 2):
        (tmp_path / f"samples-other-{number:06d}.jsonl").write_bytes(b"{}\n")
        os.utime(tmp_path / f"samples-other-{number:06d}.jsonl", (1_000, 1_000))
    unlink = Path.unlink

    def unlink_own(path: Path, *, missing_ok: bool = False) -> None:
        if "other" in path.name:
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_own)
    files = SampleFiles(tmp_path, "c", file_bytes=1, files=1)
    with caplog.at_level(logging.WARNING, "sharedroutes.client"):
        for line in (b"1\n", b"2\n"):
            files.append(line)
    files.close()
    assert (tmp_path / "samples-c-000002.jsonl").read_bytes() == b"2\n"
    (record,) = caplog.records
    assert "more files than allowed" in record.getMessage()


def test_a_file_that_somebody_removed_is_followed_by_the_next(tmp_path: Path) -> None:
    files = SampleFiles(tmp_path, "c", file_bytes=100, files=9)
    files.append(b"1\n")
    (tmp_path / "samples-c-000001.jsonl").unlink()
    files.append(b"2\n")
    files.close()
    assert (tmp_path / "samples-c-000002.jsonl").read_bytes() == b"2\n"


def test_a_line_that_was_torn_stands_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SampleFiles(tmp_path, "c", file_bytes=100, files=9)
    files.append(b"first\n")
    write = os.write
    room = [3]

    def write_until_full(fd: int, data: bytes) -> int:
        if not room:
            raise OSError(28, "no space left on device")
        return write(fd, data[: room.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_until_full)
        with pytest.raises(OSError, match="no space left"):
            files.append(b"second\n")
    files.append(b"third\n")
    files.append(b"fourth\n")
    files.close()
    assert (tmp_path / "samples-c-000001.jsonl").read_bytes() == b"first\nsec\nthird\nfourth\n"


def test_a_file_that_was_removed_after_its_line_was_torn_is_followed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads by names and lengths would wait for its old length for ever."""
    files = SampleFiles(tmp_path, "c", file_bytes=100, files=9)
    files.append(b"first\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda _fd, _data: (_ for _ in ()).throw(OSError(28, "no space left")))
        with pytest.raises(OSError, match="no space left"):
            files.append(b"second\n")
    (tmp_path / "samples-c-000001.jsonl").unlink()
    files.append(b"third\n")
    files.close()
    assert _names(tmp_path) == ["samples-c-000002.jsonl"]
    assert (tmp_path / "samples-c-000002.jsonl").read_bytes() == b"third\n"


def test_what_is_written_bit_by_bit_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:2]))
    files = SampleFiles(tmp_path, "c", file_bytes=100, files=9)
    files.append(b"first\nsecond\n")
    files.close()
    assert (tmp_path / "samples-c-000001.jsonl").read_bytes() == b"first\nsecond\n"
