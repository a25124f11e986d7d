"""Compaction on a real Spark: the same rows in fewer files, and the oldest days gone when that is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.ingest import CompactConfig, compact, quarantined, stored_changes
from sharedroutes.pipeline.ingest.batches import stage, staging_folder, written_columns
from sharedroutes.pipeline.ingest.files import HadoopFiles
from sharedroutes.pipeline.ingest.journal import Entry, entry_path
from sharedroutes.pipeline.ingest.layout import READY, BatchName, batch_folder, day_of
from sharedroutes.pipeline.ingest.swaps import Swap, staged_swap
from sharedroutes.pipeline.schemas import CHANGES, QUARANTINE, STORED_CHANGES
from sharedroutes.pipeline.tables import Table
from tests.pipeline.ingest_disk import Disk
from tests.pipeline.ingest_history import ids_on

A_DAY_MS = 86_400_000
FIRST_MS = 20_000 * A_DAY_MS
FIRST, SECOND, THIRD = (day_of(FIRST_MS + number * A_DAY_MS) for number in range(3))
TABLES = {"changes": STORED_CHANGES, "quarantine": QUARANTINE}


def publish(out: str, number: int, times_ms: Iterable[int], table: str = "changes") -> None:
    """Publish a batch as an ingest does, with a change at each of some times, in days of one."""
    times_ms = list(times_ms)
    name = BatchName(1, number)
    folder = Path(batch_folder(out, table, day_of(times_ms[0]), str(name)))
    folder.mkdir(parents=True)
    schema = schema_of(TABLES[table])
    rows = [row(schema, ms) for ms in times_ms]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "part-0.parquet")
    entry = Entry(name=name, positions={"r": f"{times_ms[-1]}-0"}, newest_ms=times_ms[-1])
    Disk().write(entry_path(out, name), entry.to_json())


def schema_of(table: Table) -> pa.Schema:
    return to_arrow_schema(
        StructType([table.schema[name] for name in written_columns(table)]), timezone="UTC"
    )


def row(schema: pa.Schema, ms: int) -> dict[str, object]:
    filled = {"registry": "r", "change_id": f"{ms}-0", "ms": ms, "seq": 0, "at": ms * 1_000, "kind": "topics"}
    return {name: filled.get(name) for name in schema.names}


@pytest.fixture
def out(tmp_path: Path) -> str:
    """Return an output with three days: of two batches, of one, and of the newest."""
    out = str(tmp_path)
    publish(out, 0, range(FIRST_MS + 100, FIRST_MS + 200))
    publish(out, 1, range(FIRST_MS + 200, FIRST_MS + 250))
    publish(out, 2, [FIRST_MS + 300], "quarantine")
    publish(out, 3, [FIRST_MS + A_DAY_MS])
    publish(out, 4, [FIRST_MS + 2 * A_DAY_MS])
    publish(out, 5, [FIRST_MS + 2 * A_DAY_MS + 1])
    return out


def batches(out: str, table: str = "changes") -> dict[str, list[str]]:
    return {
        day.name.removeprefix("day="): sorted(path.name.removeprefix("batch=") for path in day.iterdir())
        for day in sorted(Path(out, table).iterdir())
    }


def test_days_that_are_over_become_one_folder_each_with_the_same_rows_in_order(
    spark: SparkSession, out: str
) -> None:
    before = ids_on(Path(out))
    done = compact(spark, CompactConfig(out=out))

    assert [(day.table, day.day, day.rows, day.folders) for day in done.compacted] == [
        ("changes", FIRST, 150, 2),
        ("changes", SECOND, 1, 1),
        ("quarantine", FIRST, 1, 1),
    ]
    assert batches(out) == {
        FIRST: ["compacted-0001-000000000001"],
        SECOND: ["compacted-0001-000000000003"],
        THIRD: ["0001-000000000004", "0001-000000000005"],
    }
    assert ids_on(Path(out)) == before
    assert stored_changes(spark, out).count() == 153
    assert quarantined(spark, out).count() == 1
    (file,) = Path(out, "changes", f"day={FIRST}").rglob("*.parquet")
    ms = ds.dataset(str(file)).to_table(columns=["ms"]).column("ms").to_pylist()
    assert ms == sorted(ms)
    assert compact(spark, CompactConfig(out=out)).compacted == []


def test_files_of_the_ingest_and_compacted_ones_have_the_same_columns(spark: SparkSession, out: str) -> None:
    compact(spark, CompactConfig(out=out))
    compacted = [file for file in Path(out, "changes").rglob("*.parquet") if "compacted" in str(file)]
    rows = pa.Table.from_pylist([row(CHANGES.arrow, FIRST_MS)], schema=CHANGES.arrow)
    files, staged = HadoopFiles(spark, out), staging_folder(out, BatchName(1, 9))
    ((table, day, (name,)),) = stage(files, rows, staged)
    of_ingest = columns_of(Path(staged, table, f"day={day}", name))
    assert of_ingest
    assert [columns_of(file) for file in compacted] == [of_ingest] * 2


def columns_of(file: Path) -> list[tuple[str, str, str, int]]:
    schema = pq.ParquetFile(file).schema
    columns = (schema.column(number) for number in range(len(schema)))
    return [(one.path, one.physical_type, str(one.logical_type), one.max_definition_level) for one in columns]


def test_what_comes_late_stands_beside_and_is_merged_once(spark: SparkSession, out: str) -> None:
    before = ids_on(Path(out))
    compact(spark, CompactConfig(out=out))
    publish(out, 6, range(FIRST_MS + 190, FIRST_MS + 260))  # 60 of them stand there already
    journal = entry_path(out, BatchName(1, 6))
    newest = Entry(name=BatchName(1, 6), positions={}, newest_ms=FIRST_MS + 2 * A_DAY_MS + 1)
    Path(journal).write_text(newest.to_json())

    (first,) = compact(spark, CompactConfig(out=out)).compacted
    assert (first.rows, first.duplicates, first.folders) == (160, 60, 2)
    assert batches(out)[FIRST] == ["compacted-0001-000000000006"]
    assert ids_on(Path(out)) - before == {f"{FIRST_MS + number}-0": 1 for number in range(250, 260)}


def test_a_batch_that_is_not_in_the_journal_yet_is_left_alone(spark: SparkSession, out: str) -> None:
    publish(out, 6, [FIRST_MS + 400])
    Path(entry_path(out, BatchName(1, 6))).unlink()
    compact(spark, CompactConfig(out=out))
    assert batches(out)[FIRST] == ["0001-000000000006", "compacted-0001-000000000001"]


@pytest.mark.parametrize(("content", "problem"), [(b"", "is empty, so what"), (b"PAR1", "part-0.parquet")])
def test_a_file_that_cannot_be_read_stops_the_compaction_and_nothing_is_changed(
    spark: SparkSession, out: str, content: bytes, problem: str
) -> None:
    (file,) = Path(batch_folder(out, "changes", FIRST, "0001-000000000001")).iterdir()
    file.write_bytes(content)
    before = batches(out)
    with pytest.raises(PipelineError, match=problem):
        compact(spark, CompactConfig(out=out))
    assert batches(out) == before
    assert not Disk().names(f"{out}/_staging/swaps")


def test_the_days_to_keep_are_counted_from_the_newest_change(spark: SparkSession, out: str) -> None:
    done = compact(spark, CompactConfig(out=out, keep_days=2))
    assert done.dropped == [f"changes/{FIRST}", f"quarantine/{FIRST}"]
    assert list(batches(out)) == [SECOND, THIRD]
    assert batches(out, "quarantine") == {}


def test_a_folder_that_is_of_no_day_stays_however_old_its_name_looks(spark: SparkSession, out: str) -> None:
    file = Path(out, "changes", "day=0000-copy", "notes")
    file.parent.mkdir()
    file.write_text("somebody's")
    done = compact(spark, CompactConfig(out=out, keep_days=2))
    assert done.dropped == [f"changes/{FIRST}", f"quarantine/{FIRST}"]
    assert file.read_text() == "somebody's"


def test_a_folder_that_is_no_output_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="holds nothing that was ingested"):
        compact(spark, CompactConfig(out=str(tmp_path)))
    with pytest.raises(PipelineError, match="holds nothing that was ingested"):
        stored_changes(spark, str(tmp_path))


def test_who_reads_is_told_once_of_a_day_that_a_killed_compaction_left_out(
    spark: SparkSession, out: str, caplog: pytest.LogCaptureFixture
) -> None:
    staged = staged_swap(out)
    swap = Swap(table="changes", day=FIRST, batch="compacted-0001-000000000001", replaced=frozenset())
    Disk().write(f"{staged}/{READY}", swap.to_json())
    stored_changes(spark, out)
    quarantined(spark, out)
    (said,) = caplog.messages
    assert said.startswith(f"{FIRST} may be missing in changes below {out}: a compaction works on it")
    compact(spark, CompactConfig(out=out))
    caplog.clear()
    stored_changes(spark, out)
    assert caplog.messages == []
