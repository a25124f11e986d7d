"""A reader sees no row twice, and after the next start each once, wherever a kill stops a compaction."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest.swaps import NEW, Swap, drop_day, recover_swaps, staged_swap, swap_in
from tests.pipeline.ingest_disk import Disk, Killed, rows_on

DAY = "2026-11-20"
SWAP = Swap(table="changes", day=DAY, batch="compacted-0001-000000000002", replaced=frozenset({"b1", "b2"}))


def day_with(out: Path, *batches: str) -> None:
    for batch in batches:
        folder = out / "changes" / f"day={DAY}" / f"batch={batch}"
        folder.mkdir(parents=True)
        (folder / "part.rows").write_text(f"row-{batch}")


def stage(out: Path) -> str:
    staged = staged_swap(str(out))
    new = Path(staged, NEW)
    new.mkdir(parents=True)
    (new / "part.rows").write_text("row-b1\nrow-b2")
    return staged


def batches_of(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "changes" / f"day={DAY}").iterdir())


def test_one_folder_takes_the_place_of_many(tmp_path: Path) -> None:
    day_with(tmp_path, "b1", "b2")
    swap_in(Disk(), str(tmp_path), stage(tmp_path), SWAP)
    assert batches_of(tmp_path) == [f"batch={SWAP.batch}"]
    assert rows_on(tmp_path) == ["row-b1", "row-b2"]


def test_wherever_it_is_killed_no_row_is_seen_twice_and_the_next_start_has_all(tmp_path: Path) -> None:
    for steps in count():
        out = tmp_path / str(steps)
        day_with(out, "b1", "b2", "b3-came-meanwhile")
        try:
            swap_in(Disk(steps), str(out), stage(out), SWAP)
            break
        except Killed:
            seen = rows_on(out)
            assert len(seen) == len(set(seen))
        recover_swaps(Disk(), str(out))
        assert rows_on(out) == ["row-b1", "row-b2", "row-b3-came-meanwhile"]
        assert not Disk().names(f"{out}/_staging/swaps")
    assert steps > 8


def test_wherever_the_recovery_is_killed_another_one_finishes(tmp_path: Path) -> None:
    for steps in count():
        out = tmp_path / str(steps)
        day_with(out, "b1", "b2", "b3-came-meanwhile")
        with suppress(Killed):
            swap_in(Disk(4), str(out), stage(out), SWAP)
        try:
            recover_swaps(Disk(steps), str(out))
            break
        except Killed:
            recover_swaps(Disk(), str(out))
        assert rows_on(out) == ["row-b1", "row-b2", "row-b3-came-meanwhile"]
    assert steps > 3


def test_a_batch_that_comes_into_the_day_while_it_is_away_stays(tmp_path: Path) -> None:
    for steps in count():
        out = tmp_path / str(steps)
        day_with(out, "b1", "b2")
        try:
            swap_in(Disk(steps), str(out), stage(out), SWAP)
            break
        except Killed:
            day_with(out, "b3-came-late")
        recover_swaps(Disk(), str(out))
        assert rows_on(out) == ["row-b1", "row-b2", "row-b3-came-late"]


def test_what_was_not_ready_is_undone(tmp_path: Path) -> None:
    day_with(tmp_path, "b1", "b2")
    stage(tmp_path)
    recover_swaps(Disk(), str(tmp_path))
    assert batches_of(tmp_path) == ["batch=b1", "batch=b2"]
    assert not Disk().names(f"{tmp_path}/_staging/swaps")


def test_a_day_goes_in_one_step(tmp_path: Path) -> None:
    for steps in count():
        out = tmp_path / str(steps)
        day_with(out, "b1", "b2")
        try:
            drop_day(Disk(steps), str(out), "changes", DAY)
            break
        except Killed:
            assert rows_on(out) in ([], ["row-b1", "row-b2"])
    assert rows_on(out) == []


def test_a_mark_that_makes_no_sense_is_an_error_and_nothing_is_deleted(tmp_path: Path) -> None:
    staged = Path(stage(tmp_path))
    (staged / "_ready").write_text("{}")
    with pytest.raises(PipelineError, match="does not say which batches are replaced"):
        recover_swaps(Disk(), str(tmp_path))
    assert (staged / NEW).exists()
