"""Samples in Parquet, however broken the file is."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.pipeline.errors import PipelineError
from sharedroutes.pipeline.schemas import CORRUPT_SAMPLES, SAMPLES
from sharedroutes.pipeline.sources.sample_rows import ARROW, Corrupt, of_row_group
from sharedroutes.pipeline.sources.samples import SamplesSource
from tests.pipeline.test_sample_rows import GOOD

Row = dict[str, Any]


def _read(path: Path, table: str = "samples", **options: str) -> list[Row]:
    """Return the rows of all tasks."""
    schema = (SAMPLES if table == "samples" else CORRUPT_SAMPLES).schema
    reader = SamplesSource({"path": str(path), "table": table, **options}).reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()]


def _table(*attempts: int) -> pa.Table:
    return pa.Table.from_pylist([GOOD | {"attempt": number} for number in attempts], schema=ARROW)


def _bytes(table: pa.Table, **settings: Any) -> bytes:
    written = BytesIO()
    pq.write_table(table, written, **settings)
    return written.getvalue()


FORMS: Final = [
    _bytes(_table(*range(1, 31)), row_group_size=12, **settings)
    for settings in (
        {"compression": "snappy"},
        {"compression": "none", "write_page_checksum": True},
        {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False},
    )
]
"""Files of 30 samples in three row groups."""


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it cannot be read: "),
        (b"no Parquet at all", "it cannot be read: "),
        (FORMS[0][:-100], "it cannot be read: "),
        (FORMS[0][:4], "it cannot be read: "),  # what there is while the first row group is being written
        (_bytes(pa.table({"zone": ["z"]})), "there is no client, at_ms, topic, broker, latency_ms, outcome"),
        (_bytes(_table(1).drop_columns(["share"])), "there is no share"),
        (_bytes(_table(1).append_column("at_ms", pa.array([1]))), "there are 2 called at_ms"),
        (
            _bytes(_table(1).set_column(2, "at_ms", pa.array([[1]]))),
            r"at_ms is list<element: int64>, not int64",
        ),
        (
            _bytes(_table(1).set_column(2, "at_ms", pa.array([1], pa.timestamp("us")))),
            r"at_ms is timestamp\[us\], not int64",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside_as_a_whole(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    (tmp_path / "b.parquet").write_bytes(FORMS[0])
    assert len(_read(tmp_path)) == 30
    (row,) = _read(tmp_path, "corrupt")
    assert (row["file"], row["place"], row["record"]) == (str(tmp_path / "a.parquet"), 0, "")
    with pytest.raises(PipelineError, match=rf"a\.parquet, at 0: .*{problem}"):
        _read(tmp_path, onCorrupt="fail")


def test_a_row_group_that_is_broken_is_set_aside_and_the_others_are_read(tmp_path: Path) -> None:
    content = bytearray(FORMS[1])
    column = pq.ParquetFile(BytesIO(content)).metadata.row_group(1).column(ARROW.get_field_index("attempt"))
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1  # its checksum tells
    (tmp_path / "a.parquet").write_bytes(content)
    assert [row["attempt"] for row in _read(tmp_path)] == [*range(1, 13), *range(25, 31)]
    (row,) = _read(tmp_path, "corrupt")
    assert (row["place"], row["record"]) == (12, "")
    assert row["problem"].startswith("the row group cannot be read: ")


def test_rows_that_a_broken_footer_hides_are_missed(tmp_path: Path) -> None:
    """One bit of the footer makes 8 of the 12 rows of a row group, and Arrow reads 8 without a word."""
    footer = len(FORMS[0]) - 8 - int.from_bytes(FORMS[0][-8:-4], "little")
    counts = set()
    for place in range(footer, len(FORMS[0]) - 8):
        if FORMS[0][place] == 24:  # 12 as Thrift writes it
            content = bytearray(FORMS[0])
            content[place] = 16
            (tmp_path / "a.parquet").write_bytes(content)
            rows, corrupt = _read(tmp_path), _read(tmp_path, "corrupt")
            counts.add((len(rows), bool(corrupt)))
            assert len(rows) == 30 or corrupt
    assert (0, True) in counts


def test_values_that_cannot_be_cast_cost_their_rows_and_no_others(tmp_path: Path) -> None:
    table = _table(1, 2, 3, 4, 5, 6)
    at_ms = ["10", "20", "yesterday", "40", "50", "60"]
    topic = pa.array([b"t", b"t", b"t", b"t", b"\xff", b"t"])
    share = pa.array([0.5, 0.5, 0.5, 0.5, 0.5, 2.0])
    table = table.set_column(ARROW.get_field_index("at_ms"), "at_ms", pa.array(at_ms))
    table = table.set_column(ARROW.get_field_index("topic"), "topic", topic)
    table = table.set_column(ARROW.get_field_index("share"), "share", share)
    pq.write_table(table, tmp_path / "a.parquet")
    assert [(row["attempt"], row["at_ms"]) for row in _read(tmp_path)] == [(1, 10), (2, 20), (4, 40)]
    found = _read(tmp_path, "corrupt")
    assert [(row["place"], row["problem"]) for row in found] == [
        (2, "no sample has such a value: at_ms"),
        (4, "no sample has such a value: topic"),
        (5, "no sample has such a value: share"),
    ]
    assert [json.loads(row["record"])["at_ms"] for row in found] == ["yesterday", "50", 60]
    assert json.loads(found[1]["record"])["topic"] == "�"


def test_text_that_is_no_utf_8_is_found_although_parquet_calls_it_text(tmp_path: Path) -> None:
    texts = pa.Array.from_buffers(pa.string(), 2, pa.array([b"t", b"\xff"]).buffers())
    pq.write_table(_table(1, 2).set_column(4, "topic", texts), tmp_path / "a.parquet")
    assert [row["attempt"] for row in _read(tmp_path)] == [1]
    (row,) = _read(tmp_path, "corrupt")
    assert (row["place"], row["problem"]) == (1, "no sample has such a value: topic")


def _cut(draw: Callable[..., Any], content: bytearray) -> None:
    del content[draw(st.integers(0, len(content) - 1)) :]


def _flip(draw: Callable[..., Any], content: bytearray) -> None:
    for bit in draw(st.lists(st.integers(0, len(content) * 8 - 1), min_size=1, max_size=8)):
        content[bit // 8] ^= 1 << bit % 8


def _overwrite(draw: Callable[..., Any], content: bytearray) -> None:
    place = draw(st.integers(0, len(content) - 1))
    content[place : place + 16] = draw(st.binary(max_size=32))


@given(st.sampled_from(FORMS), st.sampled_from([_cut, _flip, _overwrite]), st.data())
def test_no_broken_file_ends_a_query(
    tmp_path_factory: pytest.TempPathFactory, form: bytes, breaks: Callable[..., None], data: st.DataObject
) -> None:
    """Each row that comes out is a sample by its types and values; what does not is told."""
    content = bytearray(form)
    breaks(data.draw, content)
    folder = tmp_path_factory.mktemp("broken")
    (folder / "a.parquet").write_bytes(content)
    rows, corrupt = _read(folder), _read(folder, "corrupt")
    assert pa.Table.from_pylist(rows, schema=ARROW).to_pylist() == rows
    assert all(row["problem"] for row in corrupt)
    assert len(rows) == 30 or corrupt
    if corrupt:
        with pytest.raises(PipelineError, match=r"a\.parquet, at "):
            _read(folder, onCorrupt="fail")


def test_a_row_group_that_is_not_there_any_more_is_told(tmp_path: Path) -> None:
    """Somebody wrote another file of that name after the row groups were counted."""
    pq.write_table(_table(1), tmp_path / "a.parquet")
    (found,) = of_row_group(tmp_path / "a.parquet", 2)
    assert isinstance(found, Corrupt)
    assert found.problem.startswith("the row group cannot be read: ")
