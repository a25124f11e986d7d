"""Where renaming a folder is no one step, a kill in its middle loses nothing and doubles nothing."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest.batches import publish, recover, staging_folder
from sharedroutes.pipeline.ingest.journal import Entry, newest_entry
from sharedroutes.pipeline.ingest.layout import BatchName, join
from sharedroutes.pipeline.ingest.swaps import NEW, Swap, recover_swaps, staged_swap, swap_in
from tests.pipeline.ingest_disk import Disk, Killed, rows_on

DAYS = ("2026-11-20", "2026-11-21")
PARTS = ("a", "b", "c")
NAME = BatchName(1, 7)
STAGED = [("changes", day, [f"{part}.rows" for part in PARTS]) for day in DAYS]
ENTRY = Entry(name=NAME, positions={"r": "7-0"}, newest_ms=7, parts=STAGED)


class ObjectStore(Disk):
    """Renames as S3A does, and Hadoop from one local disk to another: file by file, a copy and a delete.

    A kill leaves a part on either side, and half a file where the tables are on another disk than the rest.
    """

    def names(self, folder: str) -> list[str]:
        return [name for name in super().names(folder) if self.exists(join(folder, name))]

    def exists(self, path: str) -> bool:
        where = Path(path)
        return where.is_file() or any(below.is_file() for below in where.rglob("*"))

    def rename(self, source: str, target: str) -> None:
        if self.exists(target):
            raise PipelineError(f"{target} exists already")
        if not self.exists(source):
            raise PipelineError(f"{source} is not there")
        origin = Path(source)
        for file in sorted(origin.rglob("*")) if origin.is_dir() else [origin]:
            if file.is_file():
                copy = Path(target, *file.relative_to(origin).parts)
                self._step()
                copy.parent.mkdir(parents=True, exist_ok=True)
                if _is_table(source) != _is_table(target):
                    copy.write_bytes(file.read_bytes()[:5])
                    self._step()
                shutil.copyfile(file, copy)
                self._step()
                file.unlink()


def _is_table(path: str) -> bool:
    return "_staging" not in path and "/changes/" in path


def stage(out: Path) -> str:
    staged = staging_folder(str(out), NAME)
    for day in DAYS:
        folder = Path(staged, "changes", f"day={day}")
        folder.mkdir(parents=True)
        for part in PARTS:
            (folder / f"{part}.rows").write_text(f"{day}-{part}")
    return staged


ALL = sorted(f"{day}-{part}" for day in DAYS for part in PARTS)


def test_a_batch_is_published_once_wherever_two_kills_stop_it(tmp_path: Path) -> None:
    for steps in count():
        out = tmp_path / str(steps)
        try:
            publish(ObjectStore(steps), str(out), stage(out), ENTRY)
            break
        except Killed:
            seen = rows_on(out)
            assert len(seen) == len(set(seen))
        with suppress(Killed):
            recover(ObjectStore(steps // 2), str(out))
        recover(ObjectStore(), str(out))
        if newest_entry(ObjectStore(), str(out)) is None:  # then Spark calls the batch again
            assert rows_on(out) == []
            publish(ObjectStore(), str(out), stage(out), ENTRY)
        assert rows_on(out) == ALL
        assert newest_entry(ObjectStore(), str(out)) == ENTRY
        assert not ObjectStore().names(f"{out}/_staging/batches")
    assert steps > 16


def day_with(out: Path, *batches: str) -> None:
    for batch in batches:
        folder = out / "changes" / f"day={DAYS[0]}" / f"batch={batch}"
        folder.mkdir(parents=True)
        for part in PARTS:
            (folder / f"{part}.rows").write_text(f"{batch}-{part}")


@pytest.mark.parametrize("name", ["compacted-2", "b2"], ids=["a-new-name", "one-that-it-replaces"])
def test_a_day_is_compacted_once_wherever_two_kills_stop_it(tmp_path: Path, name: str) -> None:
    swap = Swap(table="changes", day=DAYS[0], batch=name, replaced=frozenset({"b1", "b2"}))
    wanted = sorted(f"{batch}-{part}" for batch in ("b1", "b2", "b3-came-meanwhile") for part in PARTS)
    for steps in count():
        out = tmp_path / str(steps)
        day_with(out, "b1", "b2", "b3-came-meanwhile")
        staged = staged_swap(str(out))
        Path(staged, NEW).mkdir(parents=True)
        for batch in ("b1", "b2"):
            Path(staged, NEW, f"{batch}.rows").write_text("\n".join(f"{batch}-{part}" for part in PARTS))
        try:
            swap_in(ObjectStore(steps), str(out), staged, swap)
            break
        except Killed:
            seen = rows_on(out)
            assert len(seen) == len(set(seen))
        with suppress(Killed):
            recover_swaps(ObjectStore(steps // 2), str(out))
        recover_swaps(ObjectStore(), str(out))
        assert rows_on(out) == wanted
        assert not ObjectStore().names(f"{out}/_staging/swaps")
    assert steps > 16
