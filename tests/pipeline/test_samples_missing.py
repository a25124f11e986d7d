"""Samples that are gone when they are to be read, and those that may not be read."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import InputPartition

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.schemas import SAMPLES
from sharedroutes.pipeline.sources import samples
from sharedroutes.pipeline.sources.sample_rows import ARROW
from tests.pipeline.test_sample_rows import GOOD
from tests.pipeline.test_samples import attempts_in, corrupt_in, lines_of, source_of


@pytest.fixture
def shared() -> Iterator[Path]:
    """Return a folder that every user can look into, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for closed in folder.iterdir():
            closed.chmod(0o755)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Be a user to whom permissions apply, as they do not to root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_what_is_removed_before_its_turn_is_not_read_and_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.jsonl", "b.jsonl", "sub/c.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(lines_of(1))
    for name in ("d.parquet", "sub/e.parquet"):
        pq.write_table(pa.Table.from_pylist([GOOD | {"attempt": 2}], schema=ARROW), tmp_path / name)
    reader = source_of(tmp_path, onCorrupt="fail").reader(SAMPLES.schema)
    parts = reader.partitions()
    (tmp_path / "a.jsonl").unlink()
    (tmp_path / "d.parquet").unlink()
    shutil.rmtree(tmp_path / "sub")
    with caplog.at_level(logging.WARNING, "sharedroutes.pipeline"):
        assert attempts_in(reader, parts) == [1]
    told = [record.getMessage() for record in caplog.records]
    names = ("a.jsonl", "d.parquet", "sub/c.jsonl", "sub/e.parquet")
    assert told == [
        f"send_samples: not read, for it was removed meanwhile: {tmp_path / name}" for name in names
    ]


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_what_is_removed_while_files_are_looked_at_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).touch()
    (tmp_path / "b.jsonl").write_bytes(lines_of(1))
    listed = samples.listed

    def listed_before(path: str) -> tuple[list[Path], dict[Path, str]]:
        found = listed(path)
        (tmp_path / name).unlink()
        return found

    monkeypatch.setattr(samples, "listed", listed_before)
    assert attempts_in(source_of(tmp_path).reader(SAMPLES.schema)) == [1]


def test_a_folder_of_nothing_but_empty_files_has_no_samples(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    pq.write_table(ARROW.empty_table(), tmp_path / "b.parquet")
    reader = source_of(tmp_path).reader(SAMPLES.schema)
    assert attempts_in(reader) == []
    assert attempts_in(reader, [InputPartition(None)]) == []  # what Spark makes of no task at all


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_a_file_that_may_not_be_read_is_set_aside(shared: Path, name: str) -> None:
    closed = shared / name
    closed.write_bytes(lines_of(1))
    closed.chmod(0)
    (shared / "b.jsonl").write_bytes(lines_of(2))
    with _as_nobody():
        assert attempts_in(source_of(shared).reader(SAMPLES.schema)) == [2]
        (row,) = corrupt_in(shared)
        with pytest.raises(PipelineError, match=rf"{name}, at 0: it cannot be read: .*Permission denied"):
            attempts_in(source_of(shared, onCorrupt="fail").reader(SAMPLES.schema))
    assert (row["file"], row["place"], row["record"]) == (str(closed), 0, "")
    assert "Permission denied" in row["problem"]


def test_a_folder_that_may_not_be_looked_into_is_set_aside_unless_it_is_all_there_is(shared: Path) -> None:
    closed = shared / "closed"
    closed.mkdir()
    (closed / "a.jsonl").write_bytes(lines_of(1))
    closed.chmod(0)
    with _as_nobody(), pytest.raises(PipelineError, match=r"no file of .*/closed: Permission denied"):
        source_of(shared).reader(SAMPLES.schema).partitions()
    (shared / "b.jsonl").write_bytes(lines_of(2))
    with _as_nobody():
        assert attempts_in(source_of(shared).reader(SAMPLES.schema)) == [2]
        (row,) = corrupt_in(shared)
        with pytest.raises(PipelineError, match="closed, at 0: the folder cannot be read: Permission denied"):
            attempts_in(source_of(shared, onCorrupt="fail").reader(SAMPLES.schema))
    assert (row["file"], row["problem"]) == (str(closed), "the folder cannot be read: Permission denied")


def test_files_whose_names_are_no_utf_8_are_read_and_told(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    path.write_bytes(lines_of(1) + b"{}\n")
    assert attempts_in(source_of(tmp_path).reader(SAMPLES.schema)) == [1]
    assert [row["file"] for row in corrupt_in(tmp_path)] == [f"{tmp_path}/\ufffd.jsonl"]
