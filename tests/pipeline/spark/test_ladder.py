"""Ladders held against samples, counted by hand."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.client import LADDER, Ladder
from sharedroutes.pipeline.answers.ladder import (
    ISOLATIONS,
    LADDER_DECISIONS,
    LADDER_SCORES,
    LADDER_STEPS,
    RECOMMENDED,
    LadderAnswer,
    Objective,
    ladder_answer,
)
from tests.pipeline.sampled import START_MS, samples, sent

NEW: Final = "RocketMQ >= 5.1.4"
OLD: Final = "RocketMQ < 5.1.4"


@pytest.fixture(scope="module")
def sends(spark: SparkSession) -> DataFrame:
    """Return what three clients had from two brokers; e does not know the store's clock."""
    rows = [
        sent(1_000, latency_ms=3_000.0, outcome="failed"),  # c leaves a alone from here on
        sent(2_000, latency_ms=10.0),
        sent(5_000, latency_ms=1_000.0, outcome="failed"),
        sent(20_000, latency_ms=10.0, share=0.5),
        sent(3_000, client="d", latency_ms=500.0, outcome="failed"),  # and d from here on
        sent(1_000_000, broker="b", latency_ms=600.0),  # c leaves b alone
        sent(1_000_500, client="d", broker="b"),
        sent(2_000_000, client="e", broker="b", latency_ms=1.0, outcome="failed", error_ms=None),
    ]
    return samples(spark, rows)


@pytest.fixture(scope="module")
def answer(sends: DataFrame) -> LadderAnswer:
    return ladder_answer(sends, Objective(least_failures=4))


def test_too_few_failures_recommend_no_ladder(sends: DataFrame) -> None:
    found = ladder_answer(sends)
    assert found.recommended is None
    assert found.too_few == "4 failures of 8 attempts are too few to recommend one; 100 are needed"
    assert {row["ladder"] for row in found.scores.collect()} == {NEW, OLD}
    assert {row["ladder"] for row in found.steps.collect()} == {NEW, OLD}
    found.isolations.unpersist()
    one = ladder_answer(sends.where("client = 'e'"), Objective(least_failures=2))
    assert one.too_few == "1 failure of 1 attempts is too few to recommend one; 2 are needed"
    one.isolations.unpersist()


def test_enough_failures_recommend_one(answer: LadderAnswer) -> None:
    assert not answer.too_few
    assert answer.recommended is not None


def test_isolations_are_those_of_each_ladder_and_judged_by_all_clients(answer: LadderAnswer) -> None:
    found = answer.isolations
    assert found.schema.simpleString() == ISOLATIONS.schema.simpleString()
    rows = found.where(found["ladder"] != RECOMMENDED).drop("registry", "cause", "latency_ms").collect()
    assert [(row[0], *row[1:3], row[3] - START_MS, row[4] - START_MS, *row[5:]) for row in rows] == [
        # 10 minutes after a failure: the attempt at 20 s, which stands for two, is kept away from a too.
        (OLD, "c", "a", 1_000, 601_000, 1.0, 3.0, 2.0, 3.0, "right"),
        (OLD, "d", "a", 3_000, 603_000, 0.0, 0.0, 1.0, 2.0, "right"),
        (OLD, "c", "b", 1_000_000, 1_030_000, 0.0, 0.0, 0.0, 1.0, "wrong"),
        (OLD, "e", "b", 2_000_000, 2_600_000, 0.0, 0.0, 0.0, 0.0, "unknown"),
        # 10 s after a failure, 2 s after 600 ms. Of a began: at 1990 a good one, at 2500 and 4000 bad ones.
        (NEW, "c", "a", 1_000, 11_000, 1.0, 1.0, 2.0, 1.0, "right"),
        (NEW, "d", "a", 3_000, 13_000, 0.0, 0.0, 1.0, 0.0, "right"),
        (NEW, "c", "b", 1_000_000, 1_002_000, 0.0, 0.0, 0.0, 1.0, "wrong"),
        (NEW, "e", "b", 2_000_000, 2_010_000, 0.0, 0.0, 0.0, 0.0, "unknown"),
    ]


def test_isolations_tell_what_began_them(answer: LadderAnswer) -> None:
    found = answer.isolations.where(f"ladder = '{NEW}'").select("cause", "latency_ms").collect()
    assert [tuple(row) for row in found] == [
        ("failure", 3_000.0),
        ("failure", 500.0),
        ("latency", 600.0),
        ("failure", 1.0),
    ]


def test_decisions_are_counted_at_each_broker_and_at_all(answer: LadderAnswer) -> None:
    found = answer.decisions
    assert found.schema.simpleString() == LADDER_DECISIONS.schema.simpleString()
    rows = [row.asDict() for row in found.where(f"ladder = '{NEW}'").collect()]
    assert [row["broker"] for row in rows] == [None, "a", "b"]
    assert rows[0] == {
        "ladder": NEW, "registry": None, "broker": None, "isolations": 4,
        "right": 2, "wrong": 1, "unknown": 1, "precision": 2 / 3, "isolated_ms": 32_000,
        "bad": 5.0, "saved": 1.0, "recall": 0.2, "healthy": 4.0, "withheld": 1.0, "withheld_share": 0.25,
    }  # fmt: skip
    assert (rows[1]["precision"], rows[1]["recall"], rows[1]["isolated_ms"]) == (1.0, 1 / 3, 20_000)
    assert (rows[2]["precision"], rows[2]["recall"], rows[2]["bad"]) == (0.0, 0.0, 2.0)


def test_the_recommended_ladder_is_the_best_of_all_and_compared(answer: LadderAnswer) -> None:
    found = answer.scores
    assert found.schema.simpleString() == LADDER_SCORES.schema.simpleString()
    # Saved 1 of 5 each: 1 - 0.1 * 1, and 1 - 0.1 * 3. Nothing saves more, and 5 s after the failure at 1 s
    # keep away the good attempt at 1990 too, so that no ladder is better than RocketMQ's.
    assert [tuple(row) for row in found.collect()] == [
        (RECOMMENDED, 1, 0.9, 9.0, 5.0, 1.0, 1.0, 4, 10_000),
        (NEW, 2, 0.9, 9.0, 5.0, 1.0, 1.0, 4, 10_000),
        (OLD, 3, 0.7, 9.0, 5.0, 1.0, 3.0, 4, 600_000),
    ]
    assert answer.recommended == LADDER


def test_steps_are_told_one_by_one(answer: LadderAnswer) -> None:
    found = answer.steps
    assert found.schema.simpleString() == LADDER_STEPS.schema.simpleString()
    rows = [tuple(row)[1:] for row in found.where(f"ladder = '{NEW}'").collect()]
    assert rows[2] == (3, 550, 2_000, False)
    assert [row[1] for row in rows if row[3]] == [5_000]  # 10 s, as which a failure counts, is in this step


def test_the_ladder_with_the_highest_score_is_recommended(spark: SparkSession) -> None:
    nobody, short, long = (Ladder((15_000,), (for_ms,), 15_000) for for_ms in (0, 1_000, 30_000))
    failing = [sent(at_ms, latency_ms=1.0, outcome="failed") for at_ms in range(0, 20_000, 500)]
    other = sent(0, broker="b")
    assert recommended(samples(spark, [*failing, other]), (nobody, short, long)) == long
    once = [sent(0, latency_ms=1.0, outcome="failed"), *(sent(at_ms) for at_ms in range(100, 20_000, 100))]
    assert recommended(samples(spark, [*once, other]), (nobody, short, long)) == nobody
    # Without a price nothing is gained by it, either: of equally good ones the first.
    assert recommended(samples(spark, [*once, other]), (short, nobody, long), withheld_weight=0.0) == short


def recommended(
    sends: DataFrame, candidates: tuple[Ladder, ...], withheld_weight: float = 0.1
) -> Ladder | None:
    objective = Objective(withheld_weight=withheld_weight, least_failures=0)
    found = ladder_answer(sends, objective, candidates=candidates)
    found.isolations.unpersist()
    return found.recommended


def test_brokers_of_two_registries_are_two_whatever_they_are_called(spark: SparkSession) -> None:
    rows = [
        # In eu the broker fails twice within 10 s, and another has the topic: the second one is saved.
        sent(0, registry="eu", latency_ms=1.0, outcome="failed"),
        sent(5_000, registry="eu", latency_ms=1.0, outcome="failed"),
        sent(6_000, registry="eu", broker="b"),
        # In us the same client finds it well; there it is the only one of the topic.
        *(sent(at_ms, registry="us") for at_ms in range(1_000, 9_000, 100)),
        # And where no registry is named, the only broker of the topic fails once.
        sent(3_000, latency_ms=1.0, outcome="failed"),
    ]
    of_all = samples(spark, rows)
    answer = ladder_answer(of_all)
    told = answer.isolations.where(f"ladder = '{NEW}'").select(
        "registry", "broker", "from_ms", "saved", "withheld", "bad", "healthy", "verdict"
    )
    assert [(*row[:2], row[2] - START_MS, *row[3:]) for row in told.collect()] == [
        ("eu", "a", 0, 1.0, 0.0, 1.0, 0.0, "right"),
        (None, "a", 3_000, 0.0, 0.0, 0.0, 0.0, "unknown"),
    ]
    made = answer.decisions.where(f"ladder = '{NEW}'")
    names = ("registry", "broker", "isolations", "right", "unknown", "bad", "saved", "healthy", "withheld")
    assert [tuple(row) for row in made.select(*names).collect()] == [
        (None, None, 2, 1, 1, 3.0, 1.0, 81.0, 0.0),
        (None, "a", 1, 0, 1, 1.0, 0.0, 0.0, 0.0),
        ("eu", "a", 1, 1, 0, 2.0, 1.0, 0.0, 0.0),
        ("eu", "b", 0, 0, 0, 0.0, 0.0, 1.0, 0.0),
        ("us", "a", 0, 0, 0, 0.0, 0.0, 80.0, 0.0),
    ]


def test_the_only_broker_of_a_topic_is_never_left_alone(spark: SparkSession) -> None:
    rows = [sent(0, latency_ms=1.0, outcome="failed"), sent(1_000, latency_ms=1.0, outcome="failed")]
    (found,) = ladder_answer(samples(spark, rows)).isolations.where(f"ladder = '{NEW}'").collect()
    # Both are made, and the second one begins the ten seconds anew.
    assert (found["to_ms"] - found["from_ms"], found["saved"], found["bad"]) == (11_000, 0.0, 1.0)
