"""Changes per hour, storms, and what becomes of topics, worked out by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from sharedroutes.pipeline.answers.churn import CHURN, STORMS, TOPIC_LIVES, churn, storms, topic_lives
from tests.pipeline.answering import (
    changes_of,
    deleted,
    down,
    gap,
    kv,
    picked,
    sample,
    samples_of,
    topics,
    up,
)

HOUR_MS: Final = 3_600_000


def test_changes_are_counted_by_hour_kind_and_broker(spark: SparkSession) -> None:
    rows = [
        up(10, "a"),
        down(20, "a"),
        up(30, "a", epoch=2),
        topics(40, "a", added=["t1", "t2"], removed=["t3"]),
        topics(50, "a", changed=["t1"]),
        gap(50, after_ms=HOUR_MS),
        up(HOUR_MS, "a", epoch=3),
        deleted(HOUR_MS + 1, "t1", "a"),
        kv(HOUR_MS + 2, "k"),
        {**up(HOUR_MS + 3, "a"), "problem": "no JSON"},
        up(2 * HOUR_MS, "late"),
    ]
    found = churn(changes_of(spark, rows), until_ms=2 * HOUR_MS - 1)
    assert found.schema.names == list(CHURN.names)
    assert picked(found, *CHURN.names[1:]) == [
        (0, "down", "a", 1, 0, 0, 0),
        (0, "topics", "a", 2, 2, 1, 1),
        (0, "up", "a", 2, 0, 0, 0),
        (HOUR_MS, "deleted", "", 1, 0, 0, 1),
        (HOUR_MS, "kv", "", 1, 0, 0, 0),
        (HOUR_MS, "up", "a", 1, 0, 0, 0),
    ]


def test_a_storm_lasts_as_long_as_registrations_come_too_fast(spark: SparkSession) -> None:
    rows = [
        up(1_500, "calm"),
        # 3 in the seconds 10 to 12, which is not more than 3; 4 with the one of second 13.
        *(up(10_000 + 100 * number, f"b{number}") for number in range(2)),
        topics(12_000, "b0", added=["t"]),
        up(13_999, "b3"),
        # Second 16 is hot too, and 3 after second 13: with a window of 4 seconds it is the same storm.
        *(up(16_000 + number, f"b{number}") for number in range(4)),
        # More than 4 seconds later: another one, of one broker.
        *(topics(30_000 + number, "b9", added=[f"t{number}"]) for number in range(5)),
        down(30_100, "b9"),
        up(100_000, "calm"),
        {**up(10_500, "b0"), "registry": "other"},
    ]
    found = storms(changes_of(spark, rows), more_than=3, within_s=4)
    assert found.schema.names == list(STORMS.names)
    assert picked(found, *STORMS.names) == [
        ("r", 10_000, 17_000, 7, 7, 1, 4, 4),
        ("r", 30_000, 31_000, 1, 0, 5, 1, 5),
    ]


LIVES: Final = [
    kv(0, "x"),
    topics(10, "a", added=["never", "used", "stopped", "young", "moves"]),
    topics(20, "b", added=["moves"]),
    topics(30, "a", removed=["older", "used before"]),
    topics(40, "b", added=["older"]),
    topics(50, "b", removed=["old"]),
    topics(1_000, "c", added=["moves", "used"]),
    topics(1_100, "a", removed=["moves"]),
    topics(2_000, "a", added=["short", "again"]),
    topics(2_010, "b", added=["short", "again"]),
    deleted(3_000, "short", "a", "b"),
    deleted(3_000, "again", "a", "b"),
    topics(9_000, "b", added=["again"]),
    topics(9_900, "b", added=["fresh"]),
    kv(10_000, "x"),
]


@pytest.fixture(scope="module")
def lives(spark: SparkSession) -> dict[str, Any]:
    samples = samples_of(
        spark,
        [
            sample(5, "c", "a", topic="older"),
            *(sample(at_ms, "c", "a", topic="used", share=0.25) for at_ms in (5_000, 9_500)),
            sample(500, "c", "a", topic="stopped"),
            sample(10_000, "c", "a", topic="moves"),
        ],
    )
    found = topic_lives(changes_of(spark, LIVES), samples, settle_s=0.5, quiet_s=2)
    assert found.schema.names == list(TOPIC_LIVES.names)
    return {row.topic: row for row in found.collect()}


def test_a_topic_is_created_with_its_first_broker_and_gone_with_its_last(lives: dict[str, Any]) -> None:
    assert {name: (row.created_ms, row.gone_ms, row.brokers) for name, row in lives.items()} == {
        "never": (10, None, ["a"]),
        "used": (10, None, ["a", "c"]),
        "stopped": (10, None, ["a"]),
        "young": (10, None, ["a"]),
        "moves": (10, None, ["b", "c"]),
        "older": (None, None, ["b"]),
        "used before": (None, 30, ["a"]),
        "old": (None, 50, ["b"]),
        "short": (2_000, 3_000, ["a", "b"]),
        "again": (2_000, None, ["b"]),
        "fresh": (9_900, None, ["b"]),
    }


def test_a_topic_has_moved_when_brokers_came_late_and_others_left(lives: dict[str, Any]) -> None:
    assert (lives["moves"].came, lives["moves"].left, lives["moves"].moved) == (["c"], ["a"], True)
    assert (lives["used"].came, lives["used"].left, lives["used"].moved) == (["c"], [], False)
    # That of a ended within the time in which the topic settles; b has it instead.
    assert (lives["older"].came, lives["older"].left, lives["older"].moved) == ([], ["a"], False)
    assert (lives["short"].left, lives["again"].left) == ([], ["a"])


def test_use_is_told_by_the_samples(lives: dict[str, Any]) -> None:
    assert {name: row.use for name, row in lives.items()} == {
        "never": "never used",  # created at 10, and no sample to 10,000
        "young": "never used",
        "used": "used",
        "stopped": "abandoned",
        "moves": "used",
        "older": "abandoned",
        "used before": None,
        "old": None,
        "short": None,
        "again": "never used",
        "fresh": None,  # too young to be called unused
    }
    assert (lives["used"].first_used_ms, lives["used"].last_used_ms, lives["used"].attempts) == (
        5_000,
        9_500,
        8.0,
    )


def test_without_samples_nothing_is_said_of_use(spark: SparkSession) -> None:
    rows = picked(topic_lives(changes_of(spark, LIVES)), "use", "attempts")
    assert set(rows) == {(None, None)}
