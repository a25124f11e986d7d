"""The settings of fault tolerance, and how long one slow or failed answer keeps a broker out."""

from __future__ import annotations

from typing import Any

import pytest

from sharedroutes.client.faults.config import LADDER, LADDER_4, FaultConfig, Ladder
from sharedroutes.registry import InvalidInput

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consecutive_failures", -1),
        ("consecutive_failures", 2.5),
        ("min_success_rate", 1.1),
        ("min_success_rate", NAN),
        ("min_success_rate", "0.1"),
        ("max_isolated_share", 2),
        ("rules", "rocketmq"),
        ("enabled", 1),
        ("base_isolation_s", 0),
        ("max_isolated_share", True),
        ("base_isolation_s", NAN),
        ("max_isolation_s", 9.9),
        ("slow_start_s", -1),
        ("detect_interval_s", 0),
        ("detect_timeout_s", float("inf")),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(name: str, value: object) -> None:
    settings: dict[str, Any] = {name: value}
    with pytest.raises(InvalidInput, match=f"^{name}: .*{value}"):
        FaultConfig(**settings)


@pytest.mark.parametrize(
    "name", ["consecutive_failures", "min_success_rate", "slow_start_s", "max_isolated_share"]
)
def test_what_can_be_turned_off_is_turned_off_by_nothing(name: str) -> None:
    settings: dict[str, Any] = {name: 0}
    assert getattr(FaultConfig(**settings), name) == 0


# --- ladders ------------------------------------------------------------------------------------------------

# (milliseconds, seconds of isolation), on both sides of every step.
STEPS = [
    *[(0, 0), (49, 0), (50, 0), (99, 0), (100, 0), (549, 0)],
    *[(550, 2), (1_799, 2), (1_800, 5), (2_999, 5), (3_000, 6), (4_999, 6)],
    *[(5_000, 10), (14_999, 10), (15_000, 30), (3_600_000, 30)],
]
STEPS_4 = [
    *[(0, 0), (49, 0), (50, 0), (99, 0), (100, 0), (549, 0)],
    *[(550, 30), (999, 30), (1_000, 60), (1_999, 60), (2_000, 120), (2_999, 120)],
    *[(3_000, 180), (14_999, 180), (15_000, 600), (3_600_000, 600)],
]


@pytest.mark.parametrize(
    ("ladder", "latency_ms", "isolation_s"),
    [*((LADDER, *step) for step in STEPS), *((LADDER_4, *step) for step in STEPS_4)],
)
def test_the_ladders_are_those_of_rocketmq_5_1_4_and_before(
    ladder: Ladder, latency_ms: int, isolation_s: int
) -> None:
    assert ladder.isolation_s(latency_ms / 1000, failed=False) == isolation_s


@pytest.mark.parametrize(("ladder", "isolation_s"), [(LADDER, 10), (LADDER_4, 600)])
@pytest.mark.parametrize("latency_ms", [0, 50, 3_000, 60_000])
def test_a_failure_counts_the_same_however_quickly_it_came(
    ladder: Ladder, isolation_s: int, latency_ms: int
) -> None:
    assert ladder.isolation_s(latency_ms / 1000, failed=True) == isolation_s


def test_a_ladder_of_ones_own_is_used() -> None:
    ladder = Ladder(latency_ms=(10,), isolation_ms=(700,), failure_latency_ms=5)
    assert ladder.isolation_s(0.010, failed=False) == 0.7
    assert ladder.isolation_s(0.009, failed=False) == 0
    assert ladder.isolation_s(1, failed=True) == 0


@pytest.mark.parametrize(
    ("latency_ms", "isolation_ms", "named"),
    [
        ((), (), "0 steps"),
        ((1, 2), (0,), "2 steps"),
        ((2, 1), (0, 0), r"latency_ms: \(2, 1\)"),
        ((1, 2), (0, -1), "isolation_ms: -1"),
        ((-1, 2), (0, 1), "latency_ms: -1"),
        ((1, 2), (0, 1.5), "isolation_ms: .*1.5"),
    ],
    ids=["empty", "lengths differ", "not ascending", "negative", "negative latency", "not whole"],
)
def test_a_ladder_that_makes_no_sense_is_refused_by_name(
    latency_ms: tuple[int, ...], isolation_ms: tuple[int, ...], named: str
) -> None:
    with pytest.raises(InvalidInput, match=f"ladder: .*{named}"):
        Ladder(latency_ms=latency_ms, isolation_ms=isolation_ms)


def test_a_failure_cannot_count_as_less_than_nothing() -> None:
    with pytest.raises(InvalidInput, match="failure_latency_ms: -1"):
        Ladder(failure_latency_ms=-1)
