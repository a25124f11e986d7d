"""What a report is made from belongs together: the same registries, the same time."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sharedroutes.pipeline.answers.availability import TOPIC_OUTAGES
from sharedroutes.pipeline.errors import BadOption
from sharedroutes.pipeline.report import ANSWERS, History
from sharedroutes.pipeline.report.gathering import answers
from tests.pipeline.answering import (
    changes_of,
    down,
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
    History(changes=changes, routes=routes_of(spark, [route("a", "t")])).check()
    for routes, theirs in (([route("a", "t", registry="other")], "other"), ([], "no registry")):
        history = History(changes=changes, routes=routes_of(spark, routes))
        with pytest.raises(BadOption, match=f"routes: they are of {theirs}, and the changes of r"):
            history.check()


def test_samples_after_the_end_of_the_observation_are_left_out(spark: SparkSession) -> None:
    samples = samples_of(spark, [sample(5, "c", "a"), sample(6, "c", "a")])
    history = History(changes=changes_of(spark, [up(0, "a")]), samples=samples, until_ms=5)
    assert history.observed_samples is not None
    assert picked(history.observed_samples, "at_ms") == [(5,)]


def test_steps_are_counted_by_what_there_is(spark: SparkSession) -> None:
    changes, samples = changes_of(spark, [up(0, "a")]), samples_of(spark, [])
    routes = routes_of(spark, [])
    assert History(changes=changes, samples=samples, routes=routes).steps == len(ANSWERS) + 1
    assert History(changes=changes, routes=routes).steps == 18
    assert History(changes=changes).steps == 14


def test_outages_are_times_with_fewer_brokers_than_was_asked_for(spark: SparkSession) -> None:
    both = [row for broker in "ab" for row in (topics(0, broker, added=["t"]), up(1, broker))]
    changes = changes_of(spark, [*both, down(100, "a"), kv(200, "x")])
    history = History(changes=changes, fewer_than=2)
    outages = next(found for table, found in answers(history) if table is TOPIC_OUTAGES)
    assert picked(outages, "topic", "from_ms", "to_ms", "fewest") == [("t", 100, 200, 1)]
