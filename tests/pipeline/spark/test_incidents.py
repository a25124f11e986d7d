"""Incidents and error budgets, worked out by hand."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sharedroutes.pipeline.answers.availability import TOPIC_AVAILABILITY, TOPIC_OUTAGES
from sharedroutes.pipeline.answers.detection import DETECTION
from sharedroutes.pipeline.answers.incidents import incidents, topic_budgets
from sharedroutes.pipeline.tables import Table
from tests.pipeline.answering import picked

HOUR_MS: Final = 3_600_000
END_MS: Final = 100 * HOUR_MS


def frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    data = [tuple({"registry": "r", **row}.get(name) for name in table.names) for row in rows]
    return spark.createDataFrame(data, table.schema)


def span(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("r", END_MS)], "registry string, until_ms bigint")


def outage(topic: str, from_ms: int, to_ms: int, *brokers: str, **more: Any) -> dict[str, Any]:
    row = {"topic": topic, "from_ms": from_ms, "to_ms": to_ms, "lost_ms": to_ms - from_ms, "over": True}
    return {**row, "caused_by": [*brokers], "causes": ["expired"], "system": False, **more}


def end(broker: str, told_ms: int, back_ms: int | None, **more: Any) -> dict[str, Any]:
    row = {"broker": broker, "broker_id": 0, "end_id": f"{told_ms}-0", "ended": "clean"}
    return {**row, "told_ms": told_ms, "back_ms": back_ms, **more}


def test_what_begins_within_a_minute_is_one_incident(spark: SparkSession) -> None:
    ends = [
        end("b", 60_000, 200_000, misdirected=3.0),
        end("a", 119_000, 130_000, ended="expired", misdirected=4.0),
        end("a", 190_000, None),
    ]
    outages = [
        outage("t", 119_000, 125_000, "a", "b", silent=["b clean", "c wiped"]),
        outage("u", 119_500, 149_500, "a"),
        outage("SELF_TEST_TOPIC", 119_000, 900_000, "a", system=True),
        outage("v", 500_000, 501_000),
    ]
    found = incidents(frame(spark, DETECTION, ends), frame(spark, TOPIC_OUTAGES, outages), span(spark))
    names = (
        "from_ms",
        "to_ms",
        "over",
        "brokers",
        "broker_count",
        "failures",
        "outages",
        "lost_min",
        "causes",
    )
    assert picked(found, *names) == [
        (60_000, 200_000, True, ["a", "b"], 2, 2, 2, 0.6, ["clean", "expired"]),
        (190_000, END_MS, False, ["a"], 1, 1, 0, 0.0, ["clean"]),
        (500_000, 501_000, True, [], 0, 0, 1, 1 / 60, ["expired"]),
    ]
    assert picked(found, "misdirected") == [(None,), (None,), (7.0,)]
    assert picked(found, "from_ms", "silent")[0] == (60_000, ["c wiped"])  # b fell in it


def test_only_the_first_brokers_of_a_large_incident_are_named(spark: SparkSession) -> None:
    ends = [end(f"b{number:02d}", 1_000, 2_000) for number in range(30)]
    found = incidents(frame(spark, DETECTION, ends), frame(spark, TOPIC_OUTAGES, []), span(spark))
    ((names, count),) = picked(found, "brokers", "broker_count")
    assert (names, count) == ([f"b{number:02d}" for number in range(20)], 30)


def test_a_budget_is_what_the_objective_leaves_of_the_time_that_a_topic_was_held(spark: SparkSession) -> None:
    held = {"held_ms": END_MS, "unknown_ms": 0, "system": False}
    lost = {"missed": 7.0, "burning": 3.0, "met": 3.0, "never out": 0.0, "out": 0.0001}
    topics = [
        {"topic": topic, "lost_min": minutes, "availability": 1 - minutes / 6_000, **held}
        for topic, minutes in lost.items()
    ]
    topics.append({"topic": "never held", **held, "held_ms": 0})
    outages = [
        outage("missed", 0, 7 * 60_000),
        outage("met", 60_000, 4 * 60_000),
        outage("burning", END_MS - HOUR_MS - 60_000, END_MS - HOUR_MS + 60_000),
        outage("burning", END_MS - 60_000, END_MS),
        outage("out", END_MS - 6, END_MS, over=False),
    ]
    found = topic_budgets(
        frame(spark, TOPIC_AVAILABILITY, topics),
        frame(spark, TOPIC_OUTAGES, outages),
        span(spark),
        objective=0.999,
    ).withColumns(
        {name: F.round(name, 6) for name in ("budget_min", "left_min", "spent", "burn_1h", "burn_6h")}
    )
    assert picked(found, "topic", "verdict", "budget_min", "left_min", "spent", "burn_1h", "burn_6h") == [
        ("burning", "burning", 6.0, 3.0, 0.5, round(2 / 60 / 0.001, 6), round(3 / 360 / 0.001, 6)),
        ("met", "met", 6.0, 3.0, 0.5, 0.0, 0.0),
        ("missed", "missed", 6.0, -1.0, round(7 / 6, 6), 0.0, 0.0),
        ("never out", "met", 6.0, 6.0, 0.0, 0.0, 0.0),
        ("out", "burning", 6.0, 5.9999, 0.000017, 0.001667, 0.000278),
    ]
