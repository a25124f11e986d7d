"""Percentiles, counted by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sharedroutes.pipeline.answers.latency import LATENCY, latency
from sharedroutes.pipeline.errors import BadOption
from tests.pipeline.sampled import HOUR_MS, START_MS, samples, sent


def test_percentiles_are_of_the_attempts_that_samples_stand_for(spark: SparkSession) -> None:
    quick = [sent(number, latency_ms=10.0, share=0.5) for number in range(45)]  # they stand for 90
    slow = [sent(100 + number, latency_ms=100.0 + number) for number in range(9)]  # 9 of 100: 100 to 108
    found = latency(samples(spark, [*quick, *slow, sent(999, latency_ms=5_000.0)]), by=())
    assert found.schema.simpleString() == LATENCY.schema.simpleString()
    (row,) = found.collect()
    assert (row["samples"], row["attempts"]) == (55, 100.0)
    # The 90th of 100 is a quick one, and the 99th the slowest of the slow ones.
    assert (row["p50_ms"], row["p90_ms"], row["p99_ms"], row["max_ms"]) == (10.0, 10.0, 108.0, 5_000.0)


def test_failures_are_counted_and_have_no_latency(spark: SparkSession) -> None:
    rows = [
        sent(1, latency_ms=10.0),
        sent(2, latency_ms=20.0, outcome="error", share=0.5),
        sent(3, latency_ms=3_000.0, outcome="failed"),
        sent(4, latency_ms=3_000.0, outcome="failed", broker="dead"),
        sent(9, latency_ms=3_000.0, outcome="failed", broker="dead"),
        sent(10, broker="well"),
    ]
    a, dead, well = latency(samples(spark, rows), by=("broker",)).collect()
    assert (a["broker"], a["attempts"], a["failures"], a["errors"]) == ("a", 4.0, 1.0, 2.0)
    assert (a["failure_share"], a["p50_ms"], a["max_ms"]) == (0.25, 20.0, 20.0)
    assert (dead["failure_share"], dead["p50_ms"], dead["max_ms"]) == (1.0, None, None)
    assert (dead["failed_from_ms"] - START_MS, dead["failed_until_ms"] - START_MS) == (4, 9)
    assert (well["failed_from_ms"], well["failed_until_ms"]) == (None, None)


def test_each_hour_broker_and_topic_stands_alone(spark: SparkSession) -> None:
    rows = [sent(0), sent(HOUR_MS - 1), sent(HOUR_MS), sent(0, broker="b"), sent(0, topic="u")]
    found = latency(samples(spark, rows)).select("hour", "broker", "topic", "samples").collect()
    hours = sorted({row["hour"] for row in found})
    assert [(hours.index(row["hour"]), *row[1:]) for row in found] == [
        (0, "a", "t", 2),
        (0, "a", "u", 1),
        (0, "b", "t", 1),
        (1, "a", "t", 1),
    ]


def test_brokers_and_topics_of_two_registries_are_not_mixed(spark: SparkSession) -> None:
    rows = [
        sent(0, registry="eu", latency_ms=10.0),
        sent(1, registry="us", latency_ms=30.0),
        sent(2, registry="us", latency_ms=40.0, outcome="failed"),
        sent(3, latency_ms=50.0),  # it does not say of which
    ]
    of_both = samples(spark, rows)
    expected = [(None, 1, 0.0, 50.0), ("eu", 1, 0.0, 10.0), ("us", 2, 1.0, 30.0)]
    for by in (("broker",), ("topic",)):
        found = latency(of_both, by=by).select("registry", "samples", "failures", "max_ms")
        assert [tuple(row) for row in found.collect()] == expected, by
    (row,) = latency(of_both, by=("hour",)).collect()
    assert (row["registry"], row["samples"]) == (None, 4)


def test_samples_from_before_they_named_a_registry_are_read(spark: SparkSession) -> None:
    (row,) = latency(samples(spark, [sent(0)]).drop("registry"), by=("broker",)).collect()
    assert (row["registry"], row["broker"], row["samples"]) == (None, "a", 1)


def test_what_there_is_not_cannot_be_grouped_by() -> None:
    with pytest.raises(BadOption, match="cannot group by 'client', only by registry, hour, broker, topic"):
        latency(None, by=("client",))  # type: ignore[arg-type]  # it does not come to that
