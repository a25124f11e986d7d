"""The source of samples, without Spark: its options, its files, and what tasks read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition

from sharedroutes.pipeline.errors import BadOption, PipelineError
from sharedroutes.pipeline.schemas import CORRUPT_SAMPLES, SAMPLES
from sharedroutes.pipeline.sources.sample_rows import ARROW
from sharedroutes.pipeline.sources.samples import SamplesSource
from tests.pipeline.test_sample_rows import GOOD, line


def source_of(path: Path | str, **options: str) -> SamplesSource:
    return SamplesSource({"path": str(path), **options})


def attempts_in(reader: DataSourceReader, parts: Sequence[InputPartition] | None = None) -> list[int]:
    """Return the number of the attempt in each sample that is read."""
    if parts is None:
        assert isinstance(reader, DataSourceReader)
        parts = reader.partitions()
    return _column(reader, parts, "attempt")


def _column(reader: DataSourceReader, parts: Sequence[InputPartition], name: str) -> list[Any]:
    batches = [batch for part in parts for batch in reader.read(part)]
    return [value for batch in batches for value in batch.column(name).to_pylist()]  # type: ignore[union-attr]


def corrupt_in(path: Path, **options: str) -> list[dict[str, Any]]:
    reader = source_of(path, table="corrupt", **options).reader(CORRUPT_SAMPLES.schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def lines_of(*attempts: int) -> bytes:
    return b"".join(line(attempt=number) for number in attempts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "path"),
        ({"path": "s3a://bucket/samples"}, "no path of files"),
        ({"path": "/data", "table": "all"}, "none of samples, corrupt"),
        ({"path": "/data", "onCorrupt": "ignore"}, "none of skip, fail"),
        ({"path": "/data", "splitBytes": "1"}, "not within"),
        ({"path": "/data", "colour": "red"}, "no option 'colour'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(BadOption, match=message):
        SamplesSource(options).schema()


def test_the_schema_is_that_of_the_table() -> None:
    assert source_of("/data").schema() == SAMPLES.schema
    assert source_of("/data", table="corrupt").schema() == CORRUPT_SAMPLES.schema


def test_a_folder_is_read_with_all_below_and_without_what_is_hidden(tmp_path: Path) -> None:
    hidden = ("_SUCCESS.json", ".c.jsonl", "d.txt", "_temporary/0/e.jsonl", "deep/.staged/f.jsonl")
    for number, name in enumerate(["a.jsonl", "deep/b.json", *hidden], start=1):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(lines_of(number))
    assert attempts_in(source_of(tmp_path).reader(SAMPLES.schema)) == [1, 2]
    assert attempts_in(source_of(f"{tmp_path}/*/*.json").reader(SAMPLES.schema)) == [2]
    assert attempts_in(source_of(f"file:{tmp_path}/a.jsonl").reader(SAMPLES.schema)) == [1]


def test_where_there_are_no_files_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no file of \.jsonl, \.ndjson, \.json, \.parquet at"):
        source_of(tmp_path).reader(SAMPLES.schema).partitions()


@pytest.mark.parametrize("split_bytes", [64, 200, 201, 10_000])
def test_a_file_that_is_cut_anywhere_is_read_once(tmp_path: Path, split_bytes: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines_of(*range(1, 30)).removesuffix(b"\n"))
    reader = source_of(tmp_path, splitBytes=str(split_bytes)).reader(SAMPLES.schema)
    assert attempts_in(reader) == list(range(1, 30))


def test_what_is_corrupt_is_left_out_and_shown_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines_of(1) + b"{}\n" + lines_of(2) + b'{"client"')
    assert attempts_in(source_of(tmp_path).reader(SAMPLES.schema)) == [1, 2]
    reader = source_of(tmp_path, table="corrupt").reader(CORRUPT_SAMPLES.schema)
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert isinstance(batch, pa.RecordBatch)
    assert [(row["file"], row["place"], row["record"]) for row in batch.to_pylist()] == [
        (str(file), len(lines_of(1)), "{}"),
        (str(file), len(lines_of(1)) + 3 + len(lines_of(2)), '{"client"'),
    ]


def test_what_is_corrupt_ends_the_query_if_asked_to(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines_of(1) + b"{}\n")
    reader = source_of(tmp_path, onCorrupt="fail").reader(SAMPLES.schema)
    with pytest.raises(PipelineError, match=r"a\.jsonl, at \d+: no sample has such a value: client"):
        attempts_in(reader)


def test_parquet_is_read_by_row_groups(tmp_path: Path) -> None:
    rows = [GOOD | {"attempt": number} for number in (1, 2, 3, 0, 5)]
    table = pa.Table.from_pylist(rows, schema=ARROW).drop_columns(["position"])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    reader = source_of(tmp_path).reader(SAMPLES.schema)
    assert len(reader.partitions()) == 3
    assert attempts_in(reader) == [1, 2, 3, 5]
    corrupt = source_of(tmp_path, table="corrupt").reader(CORRUPT_SAMPLES.schema)
    found = [batch.to_pylist() for part in corrupt.partitions() for batch in corrupt.read(part)]
    assert [row["place"] for rows in found for row in rows] == [3]


def test_samples_that_name_no_registry_belong_to_the_one_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line() + line(registry=None))
    pq.write_table(
        pa.Table.from_pylist([GOOD], schema=ARROW).drop_columns(["registry"]), tmp_path / "b.parquet"
    )
    for options, expected in (({}, ["eu", None, None]), ({"registry": "us"}, ["eu", "us", "us"])):
        reader = source_of(tmp_path, **options).reader(SAMPLES.schema)
        assert _column(reader, reader.partitions(), "registry") == expected
