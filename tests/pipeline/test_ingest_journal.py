"""Where an ingest begins, and which checkpoint and output do not belong together."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest.batches import Batches, Stopping
from sharedroutes.pipeline.ingest.journal import (
    Entry,
    begin,
    check_registries,
    entry_path,
    newest_entry,
    positions_of,
    starting_position,
)
from sharedroutes.pipeline.ingest.layout import BatchName
from tests.pipeline.ingest_disk import Disk

NO_BATCH = cast("DataFrame", None)
"""Nobody may look at it."""


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")


def published(out: str, generation: int, number: int, positions: Mapping[str, str]) -> None:
    name = BatchName(generation, number)
    entry = Entry(name=name, positions=positions, newest_ms=1)
    Disk().write(entry_path(out, name), entry.to_json())


def positions_now(out: str) -> Mapping[str, str]:
    newest = newest_entry(Disk(), out)
    assert newest is not None
    return newest.positions


def committed(checkpoint: str, number: int) -> None:
    path = Path(checkpoint, "commits", str(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("v1")


def test_the_first_run_begins_where_the_configuration_says(out: str, checkpoint: str) -> None:
    assert begin(Disk(), out, checkpoint) == 1
    assert starting_position({}, ["r"]) is None


def test_the_next_run_is_of_the_same_generation(out: str, checkpoint: str) -> None:
    begin(Disk(), out, checkpoint)
    committed(checkpoint, 0)
    published(out, 1, 0, {"r": "5-0"})
    assert begin(Disk(), out, checkpoint) == 1


def test_a_checkpoint_that_is_gone_is_begun_anew_after_what_is_published(out: str, checkpoint: str) -> None:
    published(out, 1, 7, {"r": "5-0"})
    assert begin(Disk(), out, checkpoint) == 2
    positions = positions_now(out)
    assert positions == {"r": "5-0"}
    assert starting_position(positions, ["r", "new"]) == '{"r":"5-0"}'
    assert starting_position(positions, ["new"]) is None
    # As long as nothing is published, and then: it stays the same one.
    assert begin(Disk(), out, checkpoint) == 2
    committed(checkpoint, 0)
    published(out, 2, 0, {"r": "9-0"})
    assert begin(Disk(), out, checkpoint) == 2


def test_an_older_checkpoint_that_was_put_back_is_refused(out: str, checkpoint: str) -> None:
    begin(Disk(), out, checkpoint)
    published(out, 2, 0, {"r": "9-0"})
    with pytest.raises(PipelineError, match="is older than what is published: delete it"):
        begin(Disk(), out, checkpoint)


def test_a_checkpoint_without_its_output_is_refused(out: str, checkpoint: str) -> None:
    begin(Disk(), out, checkpoint)
    committed(checkpoint, 0)
    with pytest.raises(PipelineError, match="whose output is gone, or is another one"):
        begin(Disk(), out, checkpoint)


def test_a_folder_of_something_else_is_no_checkpoint(out: str, checkpoint: str) -> None:
    committed(checkpoint, 0)
    with pytest.raises(PipelineError, match="something else than a checkpoint of an ingest"):
        begin(Disk(), out, checkpoint)


def test_an_output_whose_journal_is_gone_is_refused(out: str, checkpoint: str) -> None:
    Path(out, "changes", "day=2026-11-21").mkdir(parents=True)
    with pytest.raises(PipelineError, match="which says how far they go, is gone"):
        begin(Disk(), out, checkpoint)


def test_a_history_of_a_newer_release_is_refused_and_left_alone(out: str, checkpoint: str) -> None:
    published(out, 1, 0, {"r": "5-0"})
    path = Path(entry_path(out, BatchName(1, 0)))
    newer = path.read_text().replace('"format":1', '"format":2')
    path.write_text(newer)
    with pytest.raises(PipelineError, match=r"of a newer sharedroutes \(format 2, known is 1\): upgrade"):
        begin(Disk(), out, checkpoint)
    assert path.read_text() == newer
    assert not Path(checkpoint).exists()
    path.write_text(newer.replace('"format":2,', ""))  # as releases before wrote it
    assert (begin(Disk(), out, checkpoint), positions_now(out)) == (2, {"r": "5-0"})


def test_the_folder_of_another_registry_is_refused(out: str) -> None:
    check_registries(Disk(), out, ["south"])
    published(out, 1, 0, {"north": "5-0"})
    with pytest.raises(
        PipelineError, match=r"keeps the history of north, and not of east, south: use another"
    ):
        check_registries(Disk(), out, ["south", "east"])
    check_registries(Disk(), out, ["north", "south"])  # one more


def test_a_mark_that_makes_no_sense_is_named(out: str, checkpoint: str) -> None:
    begin(Disk(), out, checkpoint)
    Path(checkpoint, "_sharedroutes.json").write_text("[]")
    with pytest.raises(PipelineError, match="is no mark of an ingest"):
        begin(Disk(), out, checkpoint)


def test_a_start_that_was_killed_before_its_mark_is_no_start(out: str, checkpoint: str) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the process is gone
        begin(Disk(2), out, checkpoint)
    shutil.rmtree(checkpoint)
    assert begin(Disk(), out, checkpoint) == 1


def test_what_spark_notes_of_a_batch_tells_the_positions(checkpoint: str) -> None:
    noted = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"north":"5-0","south":"7-1"}'
    Disk().write(f"{checkpoint}/offsets/8", noted)
    assert positions_of(Disk(), checkpoint, 8) == {"north": "5-0", "south": "7-1"}
    Disk().write(f"{checkpoint}/offsets/9", "v1\n{}\n-")
    with pytest.raises(PipelineError, match="which is none"):
        positions_of(Disk(), checkpoint, 9)


class TestBatches:
    def batches(self, out: str, checkpoint: str, position: str) -> tuple[Batches, list[Any]]:
        done: list[Any] = []
        for number in (2, 3):
            Disk().write(f"{checkpoint}/offsets/{number}", f'v1\n{{}}\n{{"r":"{position}"}}')
        return Batches(Disk(), out, checkpoint, 1, done.append), done

    def test_a_batch_that_was_published_is_not_written_again(self, out: str, checkpoint: str) -> None:
        published(out, 1, 3, {"r": "5-0"})
        batches, done = self.batches(out, checkpoint, "5-0")
        batches(NO_BATCH, 3)
        assert done == []

    @pytest.mark.parametrize("number", [2, 3])
    def test_another_batch_with_the_name_of_a_published_one_is_refused(
        self, out: str, checkpoint: str, number: int
    ) -> None:
        published(out, 1, 3, {"r": "5-0"})
        batches, _ = self.batches(out, checkpoint, "6-0")
        with pytest.raises(PipelineError, match="an older checkpoint was put back"):
            batches(NO_BATCH, number)

    def test_who_is_to_stop_takes_no_more_batches(self, out: str, checkpoint: str) -> None:
        batches, done = self.batches(out, checkpoint, "5-0")
        batches.stop(1)
        with pytest.raises(Stopping):
            batches(NO_BATCH, 0)
        assert done == []
