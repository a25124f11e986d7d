"""Ladders held against samples, counted by hand."""

from __future__ import annotations

from typing import Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from sharedroutes.client import LADDER, Ladder
from sharedroutes.pipeline.answers.ladder import (
    LADDER_SCORES,
    RECOMMENDED,
    LadderAnswer,
    Objective,
    ladder_answer,
)
from tests.pipeline.sampled import samples, sent

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
    one = ladder_answer(sends.where("client = 'e'"), Objective(least_failures=2))
    assert one.too_few == "1 failure of 1 attempt is too few to recommend one; 2 are needed"


def test_enough_failures_recommend_one(answer: LadderAnswer) -> None:
    assert not answer.too_few
    assert answer.recommended is not None


def test_the_recommended_ladder_is_the_best_of_all_and_compared(answer: LadderAnswer) -> None:
    found = answer.scores
    assert found.schema.simpleString() == LADDER_SCORES.schema.simpleString()
    # Saved 1 of 5 each: 1 - 0.1 * 1; the older one keeps the attempt at 20 s away, too: 1 - 0.1 * 3. Nothing
    # saves more, and 5 s after the failure at 1 s keep away the good attempt at 1990 too, so no ladder
    # is better than RocketMQ's.
    assert [tuple(row)[:-1] for row in found.collect()] == [
        (RECOMMENDED, 1, 0.9, 9.0, 5.0, 1.0, 1.0, 4, 10_000),
        (NEW, 2, 0.9, 9.0, 5.0, 1.0, 1.0, 4, 10_000),
        (OLD, 3, 0.7, 9.0, 5.0, 1.0, 3.0, 4, 600_000),
    ]
    assert answer.recommended == LADDER


def test_steps_are_told(answer: LadderAnswer) -> None:
    steps = {row["ladder"]: row["steps"] for row in answer.scores.collect()}
    assert steps[NEW][2] == "550: 2000"
    assert len(steps[NEW]) == len(LADDER.latency_ms)


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
    return ladder_answer(sends, objective, candidates).recommended


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
    assert done_by(NEW, samples(spark, rows)) == (3.0, 1.0, 0.0, 2)


def done_by(ladder: str, sends: DataFrame) -> tuple[float, ...]:
    """Return bad, saved and withheld attempts, and isolations."""
    (row,) = ladder_answer(sends).scores.where(f"ladder = '{ladder}'").collect()
    return tuple(row[name] for name in ("bad", "saved", "withheld", "isolations"))


def test_the_only_broker_of_a_topic_is_never_left_alone(spark: SparkSession) -> None:
    rows = [sent(0, latency_ms=1.0, outcome="failed"), sent(1_000, latency_ms=1.0, outcome="failed")]
    # Both are made, and the second one begins the ten seconds anew.
    assert done_by(NEW, samples(spark, rows)) == (2.0, 0.0, 0.0, 1)
