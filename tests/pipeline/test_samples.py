"""The source of samples, without Spark: its options, its files, and what tasks read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from sharedroutes.pipeline.errors import BadOption, PipelineError
from sharedroutes.pipeline.schemas import SAMPLES
from sharedroutes.pipeline.sources.sample_rows import ARROW, CORRUPT_SAMPLES
from sharedroutes.pipeline.sources.samples import SamplesSource
from tests.pipeline.test_sample_rows import GOOD, line

ALL: Final = ReadAllAvailable()


def _source(path: Path | str, **options: str) -> SamplesSource:
    return SamplesSource({"path": str(path), **options})


def _attempts(
    reader: DataSourceReader | DataSourceStreamReader, parts: Sequence[InputPartition] | None = None
) -> list[int]:
    """Return the number of the attempt in each sample that is read."""
    if parts is None:
        assert isinstance(reader, DataSourceReader)
        parts = reader.partitions()
    batches = [batch for part in parts for batch in reader.read(part)]
    return [value for batch in batches for value in batch.column("attempt").to_pylist()]  # type: ignore[union-attr]


def _lines(*attempts: int) -> bytes:
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
    assert _source("/data").schema() == SAMPLES.schema
    assert _source("/data", table="corrupt").schema() == CORRUPT_SAMPLES.schema


def test_a_folder_is_read_with_all_below_and_without_what_is_hidden(tmp_path: Path) -> None:
    for number, name in enumerate(["a.jsonl", "deep/b.json", "_SUCCESS.json", ".c.jsonl", "d.txt"], start=1):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(_lines(number))
    assert _attempts(_source(tmp_path).reader(SAMPLES.schema)) == [1, 2]
    assert _attempts(_source(f"{tmp_path}/*/*.json").reader(SAMPLES.schema)) == [2]
    assert _attempts(_source(f"file:{tmp_path}/a.jsonl").reader(SAMPLES.schema)) == [1]


def test_where_there_are_no_files_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no file of \.jsonl, \.ndjson, \.json, \.parquet at"):
        _source(tmp_path).reader(SAMPLES.schema).partitions()


@pytest.mark.parametrize("split_bytes", [64, 200, 201, 10_000])
def test_a_file_that_is_cut_anywhere_is_read_once(tmp_path: Path, split_bytes: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(_lines(*range(1, 30)).removesuffix(b"\n"))
    reader = _source(tmp_path, splitBytes=str(split_bytes)).reader(SAMPLES.schema)
    assert _attempts(reader) == list(range(1, 30))


def test_what_is_corrupt_is_left_out_and_shown_on_demand(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(_lines(1) + b"{}\n" + _lines(2) + b'{"client"')
    assert _attempts(_source(tmp_path).reader(SAMPLES.schema)) == [1, 2]
    reader = _source(tmp_path, table="corrupt").reader(CORRUPT_SAMPLES.schema)
    (batch,) = (batch for part in reader.partitions() for batch in reader.read(part))
    assert isinstance(batch, pa.RecordBatch)
    assert [(row["file"], row["place"], row["record"]) for row in batch.to_pylist()] == [
        (str(file), len(_lines(1)), "{}"),
        (str(file), len(_lines(1)) + 3 + len(_lines(2)), '{"client"'),
    ]


def test_what_is_corrupt_ends_the_query_if_asked_to(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(_lines(1) + b"{}\n")
    reader = _source(tmp_path, onCorrupt="fail").reader(SAMPLES.schema)
    with pytest.raises(PipelineError, match=r"a\.jsonl, at \d+: no sample has such a value: client"):
        _attempts(reader)


def test_parquet_is_read_by_row_groups(tmp_path: Path) -> None:
    rows = [GOOD | {"attempt": number} for number in (1, 2, 3, 0, 5)]
    table = pa.Table.from_pylist(rows, schema=ARROW).drop_columns(["position"])
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    reader = _source(tmp_path).reader(SAMPLES.schema)
    assert len(reader.partitions()) == 3
    assert _attempts(reader) == [1, 2, 3, 5]
    corrupt = _source(tmp_path, table="corrupt").reader(CORRUPT_SAMPLES.schema)
    found = [batch.to_pylist() for part in corrupt.partitions() for batch in corrupt.read(part)]
    assert [row["place"] for rows in found for row in rows] == [3]


def test_parquet_with_other_columns_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at_ms": ["yesterday"]}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError, match="its columns are not those of send_samples"):
        _attempts(_source(tmp_path).reader(SAMPLES.schema))


# --- as a stream --------------------------------------------------------------------------------------------


def test_a_stream_reads_what_is_appended_once_and_no_half_line(tmp_path: Path) -> None:
    reader = _source(tmp_path).streamReader(SAMPLES.schema)
    begin = reader.initialOffset()
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(_lines(1, 2) + b'{"client"')
    one = reader.latestOffset(begin, ALL)
    assert _attempts(reader, reader.partitions(begin, one)) == [1, 2]
    assert reader.latestOffset(one, ALL) == one
    assert reader.partitions(one, one) == []
    first.write_bytes(_lines(1, 2, 3))
    second.write_bytes(_lines(4))
    two = reader.latestOffset(one, ALL)
    assert _attempts(reader, reader.partitions(one, two)) == [3, 4]
    assert _attempts(reader, reader.partitions(begin, two)) == [1, 2, 3, 4]


def test_a_stream_goes_on_without_files_that_were_removed(tmp_path: Path) -> None:
    reader = _source(tmp_path).streamReader(SAMPLES.schema)
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(_lines(1))
    end = reader.latestOffset({}, ALL)
    (tmp_path / "a.jsonl").unlink()
    assert _attempts(reader, reader.partitions({}, end)) == [1]
    assert list(reader.latestOffset(end, ALL)) == [str(tmp_path / "b.jsonl")]


def test_the_end_of_the_last_whole_line_is_found_however_long_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(_lines(1) + b"x" * 200_000)
    (tmp_path / "b.jsonl").write_bytes(b"x" * 200_000)
    (tmp_path / "c.jsonl").touch()
    found = _source(tmp_path).streamReader(SAMPLES.schema).latestOffset({}, ALL)
    assert {Path(file).name: end for file, end in found.items()} == {
        "a.jsonl": len(_lines(1)),
        "b.jsonl": 0,
        "c.jsonl": 0,
    }
