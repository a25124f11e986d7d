"""From the last heartbeat to the first client that avoided the broker, worked out by hand."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sharedroutes.pipeline.answers.detection import (
    AVOIDANCE,
    DETECTION,
    DETECTION_SUMMARY,
    ROCKETMQ_4,
    ROCKETMQ_5,
    NameServer,
    avoidance,
    detection,
    detection_summary,
)
from sharedroutes.pipeline.answers.sessions import broker_sessions
from tests.pipeline.answering import (
    changes_of,
    down,
    fault,
    faults_of,
    kv,
    picked,
    sample,
    samples_of,
    up,
)

END_MS: Final = 1_000_000
"""When the lease of `a` ended: 10 s after its last heartbeat."""

CHANGES: Final = [
    up(0, "a"),
    up(0, "b"),
    up(0, "c"),
    up(0, "d"),
    up(0, "s", broker_id=1),
    down(END_MS + 20, "a", "expired", lease_ended_ms=END_MS),
    down(END_MS + 30, "b", "expired"),  # of a registry that did not tell when leases ended
    down(END_MS + 40, "c", "broker gone"),
    down(END_MS + 50, "d", "agent stopped"),
    down(END_MS + 60, "s", "expired", broker_id=1, lease_ended_ms=END_MS + 55),
    up(END_MS + 60_000, "a", epoch=2),
    kv(2 * END_MS, "x"),
]
KNEW: Final = f"{END_MS + 20}-0"
SAMPLES: Final = [
    # One that fails over, learns of the end, and stays away.
    sample(END_MS - 20_000, "quick", "a"),
    sample(END_MS - 9_000, "quick", "b"),
    sample(END_MS - 5_000, "quick", "a"),
    sample(END_MS - 1_000, "quick", "a", outcome="failed", share=0.5, error_ms=3.0),
    sample(END_MS - 990, "quick", "b", attempt=2),
    sample(END_MS + 25, "quick", "b", position=KNEW),
    sample(END_MS + 61_000, "quick", "a"),  # it is back
    # One that was in the middle of an attempt when the broker died, and never told apart.
    sample(END_MS - 8_000, "stubborn", "a", outcome="failed", latency_ms=3_000.0),
    sample(END_MS - 2_000, "stubborn", "a", outcome="failed", error_ms=None),
    sample(END_MS + 30_000, "stubborn", "a", outcome="failed", position=f"{END_MS + 20}-1"),
    sample(END_MS, "elsewhere", "b"),
]
SINCE_MS: Final = END_MS - 10_000


class Found(NamedTuple):
    detection: DataFrame
    avoidance: DataFrame


@pytest.fixture(scope="module")
def sessions(spark: SparkSession) -> DataFrame:
    return broker_sessions(changes_of(spark, CHANGES)).localCheckpoint()


@pytest.fixture(scope="module")
def found(spark: SparkSession, sessions: DataFrame) -> Found:
    avoided = avoidance(sessions, samples_of(spark, SAMPLES), look_s=120).localCheckpoint()
    return Found(detection(sessions, avoided).localCheckpoint(), avoided)


def test_the_last_heartbeat_is_one_ttl_before_the_end_of_the_lease(found: Found) -> None:
    assert found.detection.schema.names == list(DETECTION.names)
    rows = picked(found.detection, "broker", "heartbeat_from_ms", "heartbeat_to_ms", "since_ms", "told_ms")
    assert rows == [
        ("a", END_MS - 10_000, END_MS - 10_000, END_MS - 10_000, END_MS + 20),
        ("b", None, END_MS - 9_970, END_MS - 9_970, END_MS + 30),
        ("c", None, None, END_MS + 40, END_MS + 40),
        ("s", END_MS - 9_945, END_MS - 9_945, END_MS - 9_945, END_MS + 60),
    ]
    assert picked(found.detection, "broker", "lease_after_ms", "told_after_ms", "told_late_ms") == [
        ("a", 10_000, 10_020, 20),
        ("b", None, 10_000, None),
        ("c", None, None, None),
        ("s", 10_000, 10_005, 5),
    ]


def test_a_client_has_avoided_a_broker_with_its_first_message_after_the_last_one_there(found: Found) -> None:
    assert found.avoidance.schema.names == list(AVOIDANCE.names)
    of_a = found.avoidance.where("broker = 'a'")
    assert picked(of_a, "client", "since_ms", "last_attempt_ms", "elsewhere_ms", "avoided_ms", "knew_ms") == [
        # The retry of a failed attempt goes elsewhere without anything being known.
        ("quick", SINCE_MS, END_MS - 1_000, END_MS - 9_000, END_MS + 25, END_MS + 25),
        ("stubborn", SINCE_MS, END_MS + 30_000, None, None, END_MS + 30_000),
    ]
    # Sampled at 0.5, a failure stands for two; one that had begun before the end is not misdirected.
    assert picked(of_a, "client", "misdirected", "error_ms", "avoided_after_ms") == [
        ("quick", 2.0, 3.0, 10_025),
        ("stubborn", 2.0, None, None),
    ]


def test_what_clients_of_another_registry_did_at_a_broker_of_that_name_does_not_count(
    spark: SparkSession, sessions: DataFrame
) -> None:
    """Both registries have the same brokers, and lose `a` at the same time."""
    sent = [
        sample(END_MS - 5_000, "one", "a", registry="eu", outcome="failed"),
        sample(END_MS - 4_000, "one", "b", registry="eu"),
        # A process of the same name, of the other registry: it is told apart.
        sample(END_MS - 3_000, "one", "a", registry="us", outcome="failed"),
        sample(END_MS - 2_000, "one", "b", registry="us"),
        sample(END_MS - 1_000, "one", "b", registry="mars"),
        # One that does not say of which registry it is counts for each.
        sample(END_MS - 500, "any", "a", outcome="failed"),
    ]
    both = sessions.where("broker = 'a'").withColumn("registry", F.explode(F.array(F.lit("eu"), F.lit("us"))))
    found = avoidance(both, samples_of(spark, sent), look_s=120)
    names = ("registry", "client", "last_attempt_ms", "avoided_ms", "misdirected")
    assert picked(found, *names) == [
        ("eu", "any", END_MS - 500, None, 1.0),
        ("eu", "one", END_MS - 5_000, END_MS - 4_000, 1.0),
        ("us", "any", END_MS - 500, None, 1.0),
        ("us", "one", END_MS - 3_000, END_MS - 2_000, 1.0),
    ]


def test_the_first_client_that_avoided_it_is_that_of_the_end(found: Found) -> None:
    rows = picked(
        found.detection,
        *("broker", "clients", "first_avoided_after_ms", "last_avoided_after_ms", "misdirected"),
    )
    assert rows[0] == ("a", 2, 10_025, 10_025, 4.0)
    assert rows[2] == ("c", 0, None, None, 0.0)


def test_a_fault_is_where_the_times_count_from(spark: SparkSession, sessions: DataFrame) -> None:
    faults = faults_of(
        spark,
        [
            fault(500, "a", "restarted"),
            fault(END_MS - 7_000, "a", "frozen"),
            fault(END_MS - 3, "c", "killed"),
            fault(END_MS - 5, "d", "killed"),
            fault(END_MS + 5_000, "b", "killed"),  # after its end
            fault(600, "", "store down"),
        ],
    )
    rows = picked(
        detection(sessions, faults=faults), "broker", "what", "fault_ms", "told_after_ms", "clients"
    )
    assert rows == [
        ("a", "frozen", END_MS - 7_000, 7_020, None),
        ("b", None, None, 10_000, None),
        ("c", "killed", END_MS - 3, 43, None),
        ("d", "killed", END_MS - 5, 55, None),
        ("s", None, None, 10_005, None),
    ]


def test_rocketmq_is_within_its_periods_and_misses_who_is_back_before(
    sessions: DataFrame, found: Found
) -> None:
    names = ("rocketmq_closed_after_ms", "rocketmq_told_after_ms", "rocketmq_silent_after_ms")
    of_a, *others = picked(found.detection, "broker", *names)
    # `a` was back 70 s after its last heartbeat: 120 s - 30 s is the soonest.
    assert of_a[2:] == (None, None)
    assert 0 <= of_a[1] <= 30_000
    for _, closed, told, silent in others:
        assert told + closed - 1 <= silent <= told + closed + 1
        assert 90_000 <= told <= 125_000
    assert picked(detection(sessions), "broker", *names) == [of_a, *others]
    fast = NameServer(register_ms=0, timeout_ms=10_000, scan_ms=0, poll_ms=0)
    assert {row[1:] for row in picked(detection(sessions, name_server=fast), "broker", *names)} == {
        (0, 10_000, 10_000)
    }
    assert (ROCKETMQ_5.scan_ms, ROCKETMQ_4.scan_ms) == (5_000, 10_000)


def test_the_summary_counts_who_came_so_far_and_who_did_not(found: Found) -> None:
    summary = detection_summary(found.detection, found.avoidance).localCheckpoint()
    assert summary.schema.names == list(DETECTION_SUMMARY.names)
    rows = {
        row[0]: row[1:] for row in picked(summary, "stage", "ends", "missed", "p50_ms", "p95_ms", "max_ms")
    }
    assert rows["told"] == (3, 1, 10_005.0, 10_020.0, 10_020.0)
    assert rows["told late"] == (2, 2, 5.0, 20.0, 20.0)
    assert rows["lease ended"] == (2, 2, 10_000.0, 10_000.0, 10_000.0)
    assert rows["rocketmq told"][:2] == (3, 1)
    # `b` has a client that turned away 70,970 ms later, and one that was not seen again.
    assert rows["first client avoided"] == (2, 0, 10_025.0, 70_970.0, 70_970.0)
    assert rows["client avoided"] == (2, 2, 10_025.0, 70_970.0, 70_970.0)
    assert rows["client knew"] == (2, 2, 10_025.0, 40_000.0, 40_000.0)
