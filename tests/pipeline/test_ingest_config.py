"""What an ingest and a compaction can be told, what their files are called, and why they say they failed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.pipeline.errors import BadOption, ChangesLost, PipelineError, failure, store_is_away
from sharedroutes.pipeline.ingest import CompactConfig, IngestConfig, IngestFailed
from sharedroutes.pipeline.ingest.headroom import Kept
from sharedroutes.pipeline.ingest.layout import (
    BatchName,
    compacted_name,
    day_of,
)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("out", ""),
        ("trigger_s", -1),
        ("trigger_s", "1"),
        ("max_changes_per_trigger", -1),
        ("max_changes_per_trigger", 1.5),
        ("partitions", -1),
        ("partitions", True),
        ("patience_s", -1),
        ("feed_max_entries", 0),
        ("feed_min_age_s", -1),
        ("warn_at", 2),
        ("registries", "{"),
        ("namespace", "a b"),
        ("url", "http://h"),
        ("starting_position", "yesterday"),
        ("starting_position", '{"other": "0-1"}'),
        ("max_changes_per_trigger", 10_000_000_000),
        ("on_loss", "ignore"),
        ("on_corrupt", "skip"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(BadOption, match=rf"^ingest: {setting}: ") as caught:
        IngestConfig(**{"out": "/x", setting: value})
    assert (caught.value.option, str(caught.value)) == (setting, f"ingest: {setting}: {caught.value.what}")


def test_several_registries_stand_instead_of_one() -> None:
    with pytest.raises(BadOption, match="registries: stands instead of url"):
        IngestConfig(out="/x", url="redis://h", registries='[{"url": "redis://h"}]')


def test_only_what_is_set_is_told_to_the_source() -> None:
    assert IngestConfig(out="/x").source_options() == {}
    config = IngestConfig(
        out="/x", url="redis://h", starting_position="latest", partitions=3, on_loss="mark", on_corrupt="fail"
    )
    told = {"url": "redis://h", "partitions": "3", "onLoss": "mark", "onCorrupt": "fail"}
    assert config.source_options() == told | {"startingPosition": "latest"}
    assert config.source_options("{}") == told | {"startingPosition": "{}"}


def test_the_checkpoint_is_below_the_output_unless_it_is_named() -> None:
    assert IngestConfig(out="hdfs://n/x/").checkpoint_folder == "hdfs://n/x/_checkpoint"
    assert IngestConfig(out="/x", checkpoint="/y").checkpoint_folder == "/y"
    assert IngestConfig(out="/x", feed_max_entries=7, feed_min_age_s=1.5).kept == Kept(7, 1_500)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("out", ""),
        ("keep_days", -1),
        ("file_bytes", 1),
    ],
)
def test_a_compaction_refuses_what_makes_no_sense_by_name(setting: str, value: Any) -> None:
    with pytest.raises(BadOption, match=f"compact: {setting}: ") as caught:
        CompactConfig(**{"out": "/x", setting: value})
    assert caught.value.option == setting


@given(st.lists(st.builds(BatchName, st.integers(1, 9_999), st.integers(0, 10**12 - 1)), min_size=1))
def test_names_of_batches_sort_as_the_batches_came(names: list[BatchName]) -> None:
    assert [BatchName.parse(text) for text in sorted(map(str, names))] == sorted(names)


def test_a_compacted_batch_is_named_after_the_newest_in_it() -> None:
    names = ["compacted-0001-000000000007", "0001-000000000009", "0001-000000000008"]
    assert compacted_name(names) == "compacted-0001-000000000009"
    assert compacted_name(names[:1]) == "compacted-0001-000000000007"
    assert BatchName.parse(names[0]) is None


def test_days_are_utc() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of(86_399_999) == "1970-01-01"
    assert day_of(1_790_121_600_000) == "2026-09-23"
    assert day_of(2**62) == "9999-12-31"


def _traceback(last: str) -> Exception:
    return RuntimeError(
        f"[STREAM_FAILED] Query [id = 1] terminated\nTraceback ...\n{last}\n\n=== Streaming ==="
    )


def failed(last: str) -> PipelineError:
    return failure(_traceback(last), "the ingest", IngestFailed)


def test_a_failure_is_said_in_a_sentence() -> None:
    lost = failed("sharedroutes.pipeline.errors.ChangesLost: registry r: no change at 5-0")
    assert isinstance(lost, ChangesLost)
    assert str(lost) == "registry r: no change at 5-0"
    bad = failed("sharedroutes.pipeline.errors.BadOption: route_changes: option onLoss: no")
    assert isinstance(bad, BadOption)
    corrupt = failed("sharedroutes.registry.errors.CorruptData: k: entry 1-0 is no change")
    assert isinstance(corrupt, IngestFailed)
    assert str(corrupt) == "the ingest failed: k: entry 1-0 is no change"
    full = failed("java.io.IOException: No space left on device")
    assert str(full) == "the ingest could not write: No space left on device; make room and start it again"
    caused = failed("at x\nCaused by: java.lang.Oops: 1\n at y\nCaused by: a.B$C: f is no file")
    assert str(caused) == "the ingest failed: f is no file"
    bare = failed("  File x, line 1\nModuleNotFoundError: No module named 'pyarrow'")
    assert str(bare).startswith("the ingest failed: Python has no pyarrow where Spark runs it: install ")
    other = failure(_traceback("java.lang.Oops"), "the report")
    assert type(other) is PipelineError
    assert str(other) == "the report failed: [STREAM_FAILED] Query [id = 1] terminated"


def test_only_a_store_that_is_away_is_waited_for() -> None:
    assert store_is_away(_traceback("sharedroutes.registry.errors.StoreUnavailable: 127.0.0.1:1: refused"))
    assert store_is_away(_traceback("sharedroutes.registry.errors.StoreTimeout: no answer"))
    assert not store_is_away(_traceback("sharedroutes.registry.errors.StoreRefused: NOAUTH"))
    assert not store_is_away(_traceback("java.lang.Oops"))
