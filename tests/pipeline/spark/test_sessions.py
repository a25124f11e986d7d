"""Sessions of brokers, how each ended, and what they come to, worked out by hand."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.pipeline.answers.sessions import BROKER_SESSIONS, broker_sessions
from sharedroutes.pipeline.answers.uptime import (
    BROKER_RELIABILITY,
    broker_reliability,
)
from tests.pipeline.answering import Row, changes_of, down, forgotten, gap, kv, picked, up

SHORT = ("broker", "broker_id", "begin_ms", "end_ms", "ended", "away_until_ms", "returned")
DAY_MS = 86_400_000
HOUR_MS = DAY_MS // 24

IN_A_GAP: Final = [
    up(100, "a"),
    up(100, "b"),
    up(100, "c"),
    down(150, "c"),
    kv(300, "x"),
    gap(300, after_ms=700),
    kv(700, "x"),
    down(800, "a"),
    up(850, "c", epoch=2),
    kv(900, "x"),
]

HISTORIES: Final[dict[str, list[Row]]] = {
    "ends": [
        up(100, "clean"),
        up(100, "expired"),
        up(100, "fenced"),
        up(100, "forgotten"),
        up(100, "forgotten", broker_id=1, address="forgotten:2"),
        up(100, "moved", broker_id=1),
        up(100, "open"),
        up(100, "replaced"),
        down(200, "clean", "agent stopped"),
        down(230, "expired", "expired", lease_ended_ms=220),
        up(240, "fenced", epoch=2, address="other:1"),
        forgotten(250, "forgotten"),
        # One address is one replica: what it was ends in the same step in which it becomes another.
        down(260, "moved", "has id 0 now", epoch=2, broker_id=1),
        up(260, "moved", epoch=2),
        up(270, "replaced", epoch=2),
        kv(1_000, "x"),
    ],
    "owners": [
        up(100, "b", epoch=7, address="one:1"),
        # The same owner again, with another address and another TTL: its session goes on.
        up(150, "b", epoch=7, address="two:1", lease_ttl_ms=5_000),
        up(200, "b", epoch=8, address="two:1"),
        up(300, "b", epoch=9, address="three:1"),
        down(425, "b", "expired", epoch=9, lease_ended_ms=410),
    ],
    "before": [kv(50, "x"), down(100, "b", "expired"), up(150, "b", epoch=2), down(160, "b"), kv(200, "x")],
    "gap": IN_A_GAP,
    # As of a store that was emptied: it ends with the first change behind it.
    "gap without an end": [gap(300) if row["kind"] == "gap" else row for row in IN_A_GAP],
    "at once": [up(100, "b"), down(100, "b"), up(100, "b", epoch=2)],
    "elsewhere": [down(150, "b")],
    "days": [
        up(12 * HOUR_MS, "b"),
        down(36 * HOUR_MS, "b"),
        up(42 * HOUR_MS, "b", epoch=2),
        up(12 * HOUR_MS, "s", broker_id=1),
        down(18 * HOUR_MS, "s", "has id 2 now", broker_id=1),
        kv(48 * HOUR_MS, "x"),
    ],
    "failures": [
        up(0, "b"),
        down(110_000, "b", "expired", lease_ended_ms=100_000),  # alive 100 s, away 50 s
        up(150_000, "b", epoch=2),
        down(250_000, "b", "broker gone"),  # alive 100 s, away 10 s
        up(260_000, "b", epoch=3),
        down(290_000, "b", "agent stopped"),  # alive 30 s, away 100 s
        up(390_000, "b", epoch=4),
        up(490_000, "b", epoch=5),  # alive 100 s, replaced
        down(590_000, "b", "expired"),  # alive 100 s, away 10 s and not back
        kv(600_000, "x"),
    ],
}
"""Each a registry of its own: Spark takes as long for all of them as for one."""


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> DataFrame:
    """Return the sessions of all histories, whose records come in another order than that of their ids."""
    rows = [{**row, "registry": name} for name, history in HISTORIES.items() for row in history]
    return broker_sessions(changes_of(spark, rows).orderBy("epoch", "kind")).localCheckpoint()


def of(found: DataFrame, history: str) -> DataFrame:
    return found.where(found["registry"] == history)


def test_every_way_to_end_has_its_name(found: DataFrame) -> None:
    assert picked(of(found, "ends"), *SHORT) == [
        ("clean", 0, 100, 200, "clean", 1_000, False),
        ("expired", 0, 100, 220, "expired", 1_000, False),
        ("fenced", 0, 100, 240, "fenced", 240, True),
        ("fenced", 0, 240, 1_000, "open", 1_000, False),
        ("forgotten", 0, 100, 250, "forgotten", 250, False),
        ("forgotten", 1, 100, 250, "forgotten", 250, False),
        ("moved", 0, 260, 1_000, "open", 1_000, False),
        ("moved", 1, 100, 260, "moved", 1_000, False),
        ("open", 0, 100, 1_000, "open", 1_000, False),
        ("replaced", 0, 100, 270, "replaced", 270, True),
        ("replaced", 0, 270, 1_000, "open", 1_000, False),
    ]


def test_a_session_tells_whose_it_was_and_which_records_bound_it(found: DataFrame) -> None:
    owners = of(found, "owners")
    assert picked(owners, "begin_id", "end_id", "epoch", "address", "ended", "successor", "cluster") == [
        ("100-0", "200-0", 7, "one:1", "replaced", "two:1", "c"),
        ("200-0", "300-0", 8, "two:1", "fenced", "three:1", "c"),
        ("300-0", "425-0", 9, "three:1", "expired", None, "c"),
    ]
    assert picked(owners, "begin_ms", "lease_ttl_ms", "lease_ended_ms", "told_ms", "end_ms", "alive_ms") == [
        (100, 5_000, None, 200, 200, 100),
        (200, 10_000, None, 300, 300, 100),
        (300, 10_000, 410, 425, 410, 110),
    ]
    assert found.schema.names == list(BROKER_SESSIONS.names)


def test_what_was_alive_before_the_stream_ends_a_session_that_nobody_saw_begin(found: DataFrame) -> None:
    assert picked(of(found, "before"), *SHORT) == [
        ("b", 0, 50, 100, "expired", 150, True),
        ("b", 0, 150, 160, "clean", 200, False),
    ]


@pytest.mark.parametrize("history", ["gap", "gap without an end"])
def test_a_gap_ends_what_is_known_and_nothing_is_made_up_across_it(found: DataFrame, history: str) -> None:
    assert picked(of(found, history), *SHORT) == [
        ("a", 0, 100, 300, "unknown", 300, False),
        ("a", 0, 700, 800, "clean", 900, False),  # no up between 700 and 800: it was alive at 700
        ("b", 0, 100, 300, "unknown", 300, False),  # and nothing more of it
        ("c", 0, 100, 150, "clean", 300, False),
        ("c", 0, 850, 900, "open", 900, False),
    ]


@pytest.mark.parametrize(
    ("until_ms", "known"),
    [
        (150, [("b", 0, 100, 150, "open", 150, False)]),
        (500, [("b", 0, 100, 200, "clean", 300, True), ("b", 0, 300, 500, "open", 500, False)]),
    ],
)
def test_an_observation_ends_where_it_is_told_to(
    spark: SparkSession, until_ms: int, known: list[tuple[Any, ...]]
) -> None:
    changes = changes_of(spark, [up(100, "b"), down(200, "b"), up(300, "b", epoch=2)])
    assert picked(broker_sessions(changes, until_ms), *SHORT) == known


def test_order_is_that_of_the_ids_and_registries_do_not_meet(found: DataFrame) -> None:
    met = found.where(found["registry"].isin("at once", "elsewhere"))
    assert picked(met, "registry", "begin_ms", "ended", "epoch") == [
        ("at once", 100, "clean", 1),
        ("at once", 100, "open", 2),
        ("elsewhere", 150, "clean", 1),
    ]


def test_only_what_was_missed_counts_as_away(found: DataFrame) -> None:
    reliability = broker_reliability(of(found, "days"))
    # Of 36 hours it was 6 away. Nobody misses the slave: it has another id.
    assert picked(reliability, "broker", "broker_id", "alive_ms", "away_ms", "availability") == [
        ("b", 0, 30 * HOUR_MS, 6 * HOUR_MS, pytest.approx(30 / 36)),
        ("s", 1, 6 * HOUR_MS, 0, 1.0),
    ]


def test_failures_are_what_nobody_asked_for(found: DataFrame) -> None:
    failed = of(found, "failures")
    reliability = broker_reliability(failed, short_s=60, return_s=20)
    assert reliability.schema.names == list(BROKER_RELIABILITY.names)
    (row,) = reliability.collect()
    assert (row.sessions, row.failures, row.stops, row.restarts, row.takeovers) == (5, 3, 1, 1, 0)
    assert (row.alive_ms, row.away_ms) == (430_000, 170_000)
    assert row.mtbf_s == pytest.approx(430 / 3)
    assert row.mttr_s == pytest.approx((50 + 10) / 2)
    assert row.longest_away_s == 100
    assert row.availability == pytest.approx(430 / 600)
    # The first was back within 20 s, the second one lasted less than 60.
    assert row.flaps == 2
