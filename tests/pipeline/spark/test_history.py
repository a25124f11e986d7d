"""What a report is made from belongs together: the same registries, the same time."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sharedroutes.pipeline.errors import BadOption
from sharedroutes.pipeline.report import ANSWERS, History, asked
from sharedroutes.pipeline.report.catalogue import Working
from tests.pipeline.answering import (
    changes_of,
    down,
    kept,
    kv,
    picked,
    route,
    routes_of,
    sample,
    samples_of,
    topics,
    up,
)


def test_routes_of_other_registries_are_refused(spark: SparkSession) -> None:
    changes = changes_of(spark, [up(0, "a")])
    assert History(changes=changes, routes=routes_of(spark, [route("a", "t")])).observed(9).until_ms == 9
    for routes, theirs in (([route("a", "t", registry="other")], "other"), ([], "no registry")):
        history = History(changes=changes, routes=routes_of(spark, routes))
        with pytest.raises(BadOption, match=f"routes: they are of {theirs}, and the changes of r"):
            history.observed(9)


def test_samples_outside_of_the_observation_are_left_out(spark: SparkSession) -> None:
    samples = samples_of(spark, [sample(ms, "c", "a") for ms in (3, 4, 5, 6)])
    history = History(changes=changes_of(spark, [up(0, "a")]), samples=samples, from_ms=4, until_ms=5)
    assert history.observed_samples is not None
    assert picked(history.observed_samples, "at_ms") == [(4,), (5,)]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"until_ms": 9}, "until_ms: 9 is before the first change, which came at 10"),
        ({"from_ms": 99}, "from_ms: 99 is not before the end, 99"),
        ({"from_ms": 15, "until_ms": 15}, "from_ms: 15 is not before the end, 15"),
        ({"slo": 100.0}, "slo: 100 is not between 0 and 100, such as 99.9"),
    ],
)
def test_an_observation_without_changes_is_refused(
    spark: SparkSession, wrong: dict[str, float], problem: str
) -> None:
    history = History(changes=changes_of(spark, [up(10, "a"), down(20, "a")]), **wrong)  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=problem):
        history.observed(99)


@pytest.mark.parametrize(("now_ms", "until_ms"), [(99, 99), (15, 20)])
def test_an_observation_ends_now_or_with_a_change_that_is_newer_by_the_clock_of_the_store(
    spark: SparkSession, now_ms: int, until_ms: int
) -> None:
    changes = changes_of(spark, [up(10, "a"), down(20, "a")])
    assert History(changes=changes).observed(now_ms).until_ms == until_ms
    quiet = History(changes=changes, from_ms=30, until_ms=40).observed(now_ms)
    assert picked(ANSWERS["broker_reliability"].query(Working(quiet)), "alive_ms", "away_ms") == [(0, 10)]


def test_only_what_there_is_something_for_is_answered(spark: SparkSession) -> None:
    changes, samples = changes_of(spark, [up(0, "a")]), samples_of(spark, [])
    routes = routes_of(spark, [])
    assert len(asked(History(changes=changes, samples=samples, routes=routes, slo=99.0))) == len(ANSWERS)
    assert {answer.needs for answer in asked(History(changes=changes, routes=routes))} == {"", "routes"}
    assert {answer.needs for answer in asked(History(changes=changes))} == {""}


def test_outages_are_times_with_fewer_brokers_than_was_asked_for(spark: SparkSession) -> None:
    both = [row for broker in "ab" for row in (topics(0, broker, added=["t"]), up(1, broker))]
    changes = changes_of(spark, [*both, down(100, "a"), kv(200, "x")])
    work = Working(History(changes=changes, fewer_than=2), kept)
    assert picked(work.outages, "topic", "from_ms", "to_ms", "fewest") == [("t", 100, 200, 1)]


def test_what_was_before_the_observation_is_known_and_does_not_count(spark: SparkSession) -> None:
    """Broker a fails before it and is back, b is away as it begins, c fails in it, d has stopped for good."""
    rows = [
        *(row for broker in "abcd" for row in (topics(0, broker, added=[f"of-{broker}"]), up(0, broker))),
        *(down(1_000, "a", "broker gone"), up(2_000, "a", 2)),
        *(down(3_000, "b", "broker gone"), up(12_000, "b", 2)),
        *(down(14_000, "c", "broker gone"), up(15_000, "c", 2)),
        *(down(4_000, "d", "agent stopped"), kv(20_000, "end")),
    ]
    history = History(changes=changes_of(spark, sorted(rows, key=lambda row: row["ms"])), from_ms=10_000)
    work = Working(history, kept)
    found = ANSWERS["broker_reliability"].query(work)
    assert picked(found, "broker", "failures", "stops", "alive_ms", "away_ms") == [
        ("a", 0, 0, 10_000, 0),
        ("b", 0, 0, 8_000, 2_000),
        ("c", 1, 0, 9_000, 1_000),
        ("d", 0, 0, 0, 10_000),
    ]
    assert picked(work.topics, "topic", "held_ms", "outages", "lost_min") == [
        ("of-a", 10_000, 0, 0.0),
        ("of-b", 10_000, 1, 2_000 / 60_000),
        ("of-c", 10_000, 1, 1_000 / 60_000),
        ("of-d", 10_000, 1, 10_000 / 60_000),
    ]
    assert picked(work.ends, "broker", "told_ms") == [("c", 14_000)]
    sums = ANSWERS["churn"].query(work)
    assert sum(row["changes"] for row in sums.collect()) == 4
