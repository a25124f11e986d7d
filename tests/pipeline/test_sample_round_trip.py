"""What a client records is what the source reads, whatever became of the files in between."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from sharedroutes.client.observers.events import AttemptEnded, ClockRead
from sharedroutes.client.observers.samples import SampleRecorder
from sharedroutes.pipeline.schemas import SAMPLES
from sharedroutes.pipeline.sources.samples import SamplesReader, SamplesSource

STORE_S: Final = 1_700_000_000.0

Row = dict[str, Any]

_names: Final = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
_events: Final = st.builds(
    AttemptEnded,
    _names,
    _names,
    st.floats(0, 1e6),
    st.sampled_from(["ok", "failed", "error"]),
    st.integers(1, 2**31 - 1),
    st.sampled_from(["", "7-0", f"{2**63}-{2**63}"]),
    isolated=st.booleans(),
)
_flushes: Final = st.lists(st.lists(_events, max_size=5), max_size=5)
"""What is recorded before each writing."""


def _record(
    folder: Path, flushes: Sequence[Sequence[AttemptEnded]], file_bytes: int, **settings: Any
) -> None:
    with SampleRecorder(
        folder, client="c", share=1.0, file_bytes=file_bytes, files=100, **settings
    ) as recorder:
        recorder.on_event(ClockRead(STORE_S, 0.0, 0.001))
        for events in flushes:
            for event in events:
                recorder.on_event(event)
            recorder.flush()
        assert recorder.dropped == 0


def _read(reader: SamplesReader, parts: Sequence[InputPartition]) -> list[Row]:
    batches = [batch for part in parts for batch in reader.read(part)]
    return [row for batch in batches if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()]


def _source(folder: Path, **options: str) -> SamplesSource:
    return SamplesSource({"path": str(folder), **options})


def _recorded(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return what is told of the attempts themselves, in no order: files have names by chance."""
    names = ("topic", "broker", "latency_ms", "outcome", "attempt", "position", "isolated", "share")
    return sorted(tuple(row[name] for name in names) for row in rows)


def _told(events: Sequence[AttemptEnded]) -> list[tuple[Any, ...]]:
    return sorted(
        (
            one.topic,
            one.broker_name,
            round(one.latency_s * 1000, 3),
            one.outcome,
            one.number,
            one.position,
            one.isolated,
            1.0,
        )
        for one in events
    )


@given(
    _flushes,
    st.integers(1, 600),
    st.integers(64, 2_000),
    st.sampled_from(["", "eu"]),
    st.sampled_from(["", "us"]),
)
def test_all_that_was_recorded_is_read_once(
    tmp_path_factory: pytest.TempPathFactory,
    flushes: list[list[AttemptEnded]],
    file_bytes: int,
    split_bytes: int,
    registry: str,
    option: str,
) -> None:
    folder = tmp_path_factory.mktemp("samples")
    _record(folder, [*flushes, [AttemptEnded("t", "a", 0.1, "ok")]], file_bytes, registry=registry)
    reader = _source(folder, splitBytes=str(split_bytes), registry=option, onCorrupt="fail").reader(
        SAMPLES.schema
    )
    rows = _read(reader, reader.partitions())
    events = [event for events in flushes for event in events]
    assert _recorded(rows) == _told([*events, AttemptEnded("t", "a", 0.1, "ok")])
    assert {row["registry"] for row in rows} == {registry or option or None}
    assert {row["client"] for row in rows} == {"c"}


@given(st.lists(_events, min_size=1, max_size=10), st.integers(0, 2**32))
def test_what_a_crash_tears_costs_the_torn_line_only(
    tmp_path_factory: pytest.TempPathFactory, events: list[AttemptEnded], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    _record(folder, [events], 2**30)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    cut = random.Random(seed).randrange(len(content) + 1)
    file.write_bytes(content[:cut])
    whole = content[:cut].count(b"\n") + (content[cut : cut + 1] == b"\n")  # the end of a line may be missing
    reader = _source(folder).reader(SAMPLES.schema)
    assert len(_read(reader, reader.partitions())) == whole
    assert _recorded(_read(reader, reader.partitions())) == _told(events[:whole])


@given(_flushes)
def test_a_registry_that_is_not_named_is_left_out_of_the_files(
    tmp_path_factory: pytest.TempPathFactory, flushes: list[list[AttemptEnded]]
) -> None:
    folder = tmp_path_factory.mktemp("plain")
    _record(folder, flushes, 2**30)
    lines = [line for file in folder.iterdir() for line in file.read_bytes().splitlines()]
    assert all("registry" not in json.loads(line) for line in lines)
