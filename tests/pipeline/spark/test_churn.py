"""Changes per hour, and what becomes of topics, worked out by hand."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pytest
from pyspark.sql import SparkSession

from sharedroutes.pipeline.answers.churn import CHURN, TOPIC_LIVES, churn, topic_lives
from sharedroutes.pipeline.answers.holdings import Seen
from tests.pipeline.answering import (
    changes_of,
    deleted,
    down,
    gap,
    kv,
    picked,
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
    topics(4_000, "b", added=["hops"]),
    topics(6_000, "b", removed=["hops"]),
    topics(7_000, "a", added=["hops"]),  # for a second it was on no broker
    topics(9_000, "b", added=["again"]),
    topics(9_900, "b", added=["fresh"]),
    kv(10_000, "x"),
]

IN_A_GAP: Final = [
    topics(0, "a", added=["stays", "went", "back"]),
    topics(50, "a", removed=["came"]),
    kv(1_000, "x"),
    gap(1_000, after_ms=5_000),
    kv(5_000, "x"),
    topics(6_000, "a", added=["back"]),  # within two seconds of known time
    topics(8_000, "a", added=["went"], removed=["came"]),
    kv(10_000, "x"),
]


Lives: TypeAlias = dict[tuple[str, int], Any]


@pytest.fixture(scope="module")
def both(spark: SparkSession) -> dict[str, Lives]:
    rows = [*LIVES, *({**row, "registry": "gap"} for row in IN_A_GAP)]
    found = topic_lives(Seen(changes_of(spark, rows)), settle_s=0.5, apart_s=2)
    assert found.schema.names == list(TOPIC_LIVES.names)
    registries: dict[str, Lives] = {"r": {}, "gap": {}}
    for row in found.collect():
        registries[row.registry][row.topic, row.life] = row
    return registries


@pytest.fixture
def lives(both: dict[str, Lives]) -> dict[str, Any]:
    """Return the first lives of the history without a gap."""
    return {topic: row for (topic, life), row in both["r"].items() if life == 1}


def test_a_topic_that_was_deleted_and_made_again_has_two_lives(both: dict[str, Lives]) -> None:
    assert [key for key in both["r"] if key[1] > 1] == [("again", 2)]
    first, second = both["r"]["again", 1], both["r"]["again", 2]
    assert (first.created_ms, first.gone_ms, first.brokers, first.left) == (2_000, 3_000, ["a", "b"], [])
    assert (second.created_ms, second.gone_ms, second.brokers, second.left) == (9_000, None, ["b"], [])


def test_a_topic_moves_though_it_is_on_no_broker_for_a_moment(lives: dict[str, Any]) -> None:
    hops = lives["hops"]
    assert (hops.created_ms, hops.gone_ms, hops.brokers) == (4_000, None, ["a"])
    assert (hops.came, hops.left, hops.moved) == (["a"], ["b"], True)


def test_a_life_goes_on_across_a_gap_unless_records_say_otherwise(both: dict[str, Lives]) -> None:
    assert {key: (row.created_ms, row.gone_ms) for key, row in both["gap"].items()} == {
        ("stays", 1): (0, None),
        ("back", 1): (0, None),  # gone in the gap, and back before it is certain to have been away for long
        ("went", 1): (0, 5_000),
        ("went", 2): (8_000, None),
        ("came", 1): (None, 8_000),  # there before 50, and again in the gap, from 1,000 on at the earliest
    }


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
        "again": (2_000, 3_000, ["a", "b"]),
        "hops": (4_000, None, ["a"]),
        "fresh": (9_900, None, ["b"]),
    }


def test_a_topic_has_moved_when_brokers_came_late_and_others_left(lives: dict[str, Any]) -> None:
    assert (lives["moves"].came, lives["moves"].left, lives["moves"].moved) == (["c"], ["a"], True)
    assert (lives["used"].came, lives["used"].left, lives["used"].moved) == (["c"], [], False)
    # That of a ended within the time in which the topic settles; b has it instead.
    assert (lives["older"].came, lives["older"].left, lives["older"].moved) == ([], ["a"], False)
    assert lives["short"].left == []
