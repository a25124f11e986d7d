"""Spark reads what a client's recorder wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sharedroutes.client.observers.events import AttemptEnded, ClockRead
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.pipeline.schemas import CORRUPT_SAMPLES, SAMPLES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with three attempts in two files, a torn line, and Parquet that is being written."""
    folder = tmp_path_factory.mktemp("samples")
    with SampleRecorder(folder, client="c", registry="eu", share=1.0, file_bytes=1) as recorder:
        recorder.on_event(ClockRead(1_700_000_000.0, 0.0, 0.001))
        for number in (1, 2):
            recorder.on_event(AttemptEnded("t", "a", 0.25, "ok", number, "7-0"))
        recorder.flush()
        recorder.on_event(AttemptEnded("t", "a", 0.25, "failed", 3, isolated=True))
    with (folder / "samples-c-000002.jsonl").open("wb") as torn:
        torn.write(b'{"client":"c","at_ms":17')
    (folder / "samples-c-000003.parquet").write_bytes(b"PAR1")
    return folder


def test_the_source_reads_what_the_recorder_wrote(spark: SparkSession, folder: Path) -> None:
    found = spark.read.format("send_samples").load(str(folder))
    assert found.schema == SAMPLES.schema
    rows = [row.asDict() for row in found.orderBy("attempt").collect()]
    assert [row["attempt"] for row in rows] == [1, 2, 3]
    assert rows[2].items() >= {
        "registry": "eu", "client": "c", "topic": "t", "broker": "a", "latency_ms": 250.0,
        "outcome": "failed", "isolated": True, "position": "", "share": 1.0,
    }.items()  # fmt: skip


def test_what_is_set_aside_is_shown_and_fatal_on_demand(spark: SparkSession, folder: Path) -> None:
    source = spark.read.format("send_samples")
    rows = source.option("table", "corrupt").load(str(folder)).orderBy("file").collect()
    assert tuple(rows[0].asDict()) == CORRUPT_SAMPLES.names
    assert [(Path(row["file"]).name, row["place"], row["record"]) for row in rows] == [
        ("samples-c-000002.jsonl", 0, '{"client":"c","at_ms":17'),
        ("samples-c-000003.parquet", 0, ""),
    ]
    with pytest.raises(PySparkException, match=r"samples-c-00000\d\.\w+, at 0: it cannot be read"):
        spark.read.format("send_samples").option("onCorrupt", "fail").load(str(folder)).collect()


def test_a_folder_of_empty_files_is_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()  # a recorder opened it, and has not written yet
    assert spark.read.format("send_samples").load(str(tmp_path)).collect() == []
