"""A batch is visible once, as a whole after the next start at the latest, wherever a kill stops it."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest import batches
from sharedroutes.pipeline.ingest.batches import publish, recover, staging_folder
from sharedroutes.pipeline.ingest.journal import Entry, newest_entry
from sharedroutes.pipeline.ingest.layout import A_DAY_MS, BatchName, batch_folder, join
from sharedroutes.pipeline.schemas import CHANGES
from tests.pipeline.ingest_disk import Disk, Killed, rows_on

ROWS = {"2026-11-20": ["a", "b"], "2026-11-21": ["c"]}


def entry(number: int) -> Entry:
    parts = [("changes", day, ["part.rows"]) for day in ROWS]
    return Entry(name=BatchName(1, number), positions={"r": f"{number}-0"}, newest_ms=number, parts=parts)


def stage(out: str, number: int, table: str = "changes") -> str:
    staged = staging_folder(out, BatchName(1, number))
    for day, rows in ROWS.items():
        folder = Path(staged, table, f"day={day}")
        folder.mkdir(parents=True)
        (folder / "part.rows").write_text("\n".join(f"{row}{number}" for row in rows))
    return staged


def all_rows(*numbers: int) -> list[str]:
    return sorted(f"{row}{number}" for number in numbers for rows in ROWS.values() for row in rows)


def test_what_is_staged_is_a_file_for_each_day_and_what_cannot_be_read_is_apart(tmp_path: Path) -> None:
    class Writes(Disk):
        def create(self, path: str, content: bytes) -> None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content)

    last_ms = 253_402_300_800_000 + A_DAY_MS  # no clock gives that: it stands in the last day there is
    rows = [
        {"change_id": f"{ms}-0", "ms": ms, "problem": problem}
        for ms, problem in ((0, None), (A_DAY_MS, None), (1, None), (2, "odd"), (last_ms, None))
    ]
    parts = batches.stage(Writes(), pa.Table.from_pylist(rows, CHANGES.arrow), str(tmp_path))
    found = {
        (table, day): pq.read_table(tmp_path / table / f"day={day}" / name, partitioning=None)[
            "ms"
        ].to_pylist()
        for table, day, (name,) in parts
    }
    assert found == {
        ("changes", "1970-01-01"): [0, 1],
        ("changes", "1970-01-02"): [A_DAY_MS],
        ("changes", "9999-12-31"): [last_ms],
        ("quarantine", "1970-01-01"): [2],
    }
    assert len(list(tmp_path.rglob("*.*"))) == len(parts)


def test_a_batch_stands_in_a_folder_of_its_own_in_each_day(tmp_path: Path) -> None:
    out, disk = str(tmp_path), Disk()
    publish(disk, out, stage(out, 3), entry(3))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.rows"))
    assert found == [f"changes/day={day}/batch=0001-000000000003/part.rows" for day in ROWS]
    assert newest_entry(disk, out) == entry(3)


def test_wherever_it_is_killed_the_next_start_has_each_row_once(tmp_path: Path) -> None:
    for steps in count():
        out = str(tmp_path / str(steps))
        publish(Disk(), out, stage(out, 0), entry(0))
        with suppress(Killed):
            publish(Disk(steps), out, stage(out, 1), entry(1))
            break
        seen = rows_on(Path(out))
        assert len(seen) == len(set(seen))
        recover(Disk(), out)
        _replay_unless_published(out)
        assert rows_on(Path(out)) == all_rows(0, 1)
        assert not Disk().names(join(out, "_staging/batches"))
    assert steps > 8


def test_wherever_the_recovery_is_killed_another_one_finishes(tmp_path: Path) -> None:
    for steps in count():
        out = str(tmp_path / str(steps))
        with suppress(Killed):
            publish(Disk(5), out, stage(out, 1), entry(1))
        try:
            recover(Disk(steps), out)
            break
        except Killed:
            recover(Disk(), out)
        _replay_unless_published(out)
        assert rows_on(Path(out)) == all_rows(1)
    assert steps > 3


def _replay_unless_published(out: str) -> None:
    newest = newest_entry(Disk(), out)
    if newest is None or newest.name < BatchName(1, 1):
        publish(Disk(), out, stage(out, 1), entry(1))


def test_what_a_killed_job_had_not_ready_is_deleted(tmp_path: Path) -> None:
    out = str(tmp_path)
    stage(out, 7)
    recover(Disk(), out)
    assert rows_on(tmp_path) == []
    assert not Disk().names(join(out, "_staging/batches"))


def test_a_batch_whose_entry_was_lost_replaces_itself(tmp_path: Path) -> None:
    out = str(tmp_path)
    for _ in range(2):
        publish(Disk(), out, stage(out, 1), entry(1))
        for path in (tmp_path / "_ingest").iterdir():
            path.unlink()
    assert rows_on(tmp_path) == all_rows(1)


def test_a_compaction_that_takes_the_day_away_is_waited_for(tmp_path: Path) -> None:
    class TakesTheDay(Disk):
        taken = False

        def rename(self, source: str, target: str) -> None:
            if "day=2026-11-21" in target and not self.taken:
                self.taken = True
                raise PipelineError("the folder of the day went")
            super().rename(source, target)

    out = str(tmp_path)
    publish(TakesTheDay(), out, stage(out, 1), entry(1))
    assert rows_on(tmp_path) == all_rows(1)


def test_only_the_newest_entry_is_kept(tmp_path: Path) -> None:
    out = str(tmp_path)
    for number in (9, 10, 11):
        publish(Disk(), out, stage(out, number), entry(number))
    assert Disk().names(join(out, "_ingest")) == ["0001-000000000011.json"]


def test_an_entry_that_is_none_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "_ingest" / "0001-000000000000.json"
    path.parent.mkdir()
    path.write_text('{"batch": "x"}')
    with pytest.raises(PipelineError, match=r"0001-000000000000\.json is no entry"):
        newest_entry(Disk(), str(tmp_path))


def test_the_folder_of_a_batch_is_named_by_day_and_batch() -> None:
    assert (
        batch_folder("s3a://b/x/", "changes", "2026-11-21", "b") == "s3a://b/x/changes/day=2026-11-21/batch=b"
    )
