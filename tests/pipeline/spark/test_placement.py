"""Placement, counted by hand."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.answers.placement import (
    BROKER_LOAD,
    CLUSTER_SKEW,
    SINGLE_BROKER_TOPICS,
    broker_load,
    cluster_skew,
    single_broker_topics,
)
from sharedroutes.pipeline.schemas import ROUTES


def _entry(
    broker: str,
    topic: str,
    write: int,
    *,
    perm: int = 6,
    wiped: bool = False,
    alive: bool = True,
    **more: str,
) -> tuple[object, ...]:
    """Return a row of ROUTES."""
    row = dict.fromkeys(ROUTES.names) | {
        "registry": "r",
        "broker": broker,
        "cluster": "c",
        "topic": topic,
        "read_queue_nums": 4,
        "write_queue_nums": write,
        "perm": perm,
        "wiped": wiped,
        "master_address": "10.0.0.1:10911" if alive else None,
    }
    return tuple((row | more).values())


@pytest.fixture(scope="module")
def routes(spark: SparkSession) -> DataFrame:
    """Return a cluster of brokers with 8, 4, 0 and 4 write queues: the third is new, the last is dead."""
    rows = [
        _entry("a", "orders", 4),
        _entry("a", "bills", 4),
        _entry("a", "closed", 8, perm=4),
        _entry("b", "orders", 4),
        _entry("b", "SELF_TEST_TOPIC", 1),
        _entry("new", "new", 1),
        _entry("dead", "mails", 4, alive=False),
        _entry("a", "unreadable", 16, problem="no JSON"),
        _entry("w", "orders", 2, wiped=True, cluster="d"),
        _entry("w", "bills", 4, wiped=True, cluster="d"),
    ]
    return spark.createDataFrame(rows, ROUTES.schema)


def test_queues_are_counted_by_broker(routes: DataFrame) -> None:
    found = broker_load(routes)
    assert tuple(found.columns) == BROKER_LOAD.names
    assert found.schema.simpleString() == BROKER_LOAD.schema.simpleString()
    # The mean of cluster c is (8 + 4 + 0 + 4) / 4 = 4. The emptiest that takes queues is `new`.
    assert [tuple(row)[1:] for row in found.collect()] == [
        ("c", "a", True, False, 3, 12, 8, 2.0, 3, 0),
        ("c", "b", True, False, 1, 4, 4, 1.0, 2, 4),
        ("c", "dead", False, False, 1, 4, 4, 1.0, None, None),
        ("c", "new", True, False, 0, 0, 0, 0.0, 1, 8),
        ("d", "w", True, True, 2, 8, 6, 1.0, None, None),
    ]


def test_skew_is_that_of_the_write_queues_of_all_brokers(routes: DataFrame) -> None:
    found = cluster_skew(routes)
    assert found.schema.simpleString() == CLUSTER_SKEW.schema.simpleString()
    # Single: bills, since `w` is wiped, and mails; nobody writes to `closed`. Room: 4 on b, 8 on new.
    assert [tuple(row)[1:] for row in found.collect()] == [
        ("c", 4, 3, 4, 16, 4.0, 8, 2.0, 2, 12),
        ("d", 1, 0, 2, 6, 6.0, 6, 1.0, 0, 0),
    ]


def test_topics_with_one_broker_are_told_with_it(routes: DataFrame) -> None:
    found = single_broker_topics(routes)
    assert found.schema.simpleString() == SINGLE_BROKER_TOPICS.schema.simpleString()
    assert [tuple(row)[2:] for row in found.collect()] == [
        ("bills", "a", True, 4),
        ("mails", "dead", False, 4),
    ]
