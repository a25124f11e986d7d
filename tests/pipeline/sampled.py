"""Samples for tests, written with as little as the test is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.schemas import SAMPLES

START_MS: Final = 1_700_000_000_000 // 3_600_000 * 3_600_000
HOUR_MS: Final = 3_600_000

Sample: TypeAlias = dict[str, object]


def sent(at_ms: int, **columns: object) -> Sample:
    """Return an attempt that ended so long after START_MS: a quick one of client c at broker a."""
    values: Sample = {
        "registry": None,
        "client": "c",
        "at_ms": START_MS + at_ms,
        "error_ms": 1.0,
        "topic": "t",
        "broker": "a",
        "latency_ms": 2.0,
        "outcome": "ok",
        "isolated": False,
        "attempt": 1,
        "position": "",
        "share": 1.0,
    }
    assert values.keys() >= columns.keys()
    return values | columns


def samples(spark: SparkSession, rows: Iterable[Sample]) -> DataFrame:
    """Return SAMPLES of these rows."""
    return spark.createDataFrame([tuple(row.values()) for row in rows], SAMPLES.schema)
