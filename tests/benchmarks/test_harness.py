"""Statistics, targets and the order of the rounds."""

from __future__ import annotations

import pytest

from benchmarks.kit.figures import (
    Figure,
    Outcome,
    Target,
    at_least,
    at_most,
    interleave,
    percentile,
    ratio,
    seconds,
)


def test_a_figure_is_its_median_with_the_range_of_its_rounds() -> None:
    figure = Figure("first time", "ms", (5.0, 1.0, 2.0))
    assert (figure.median, figure.low, figure.high) == (2.0, 1.0, 5.0)


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (at_most(40), 40.0, True),
        (at_most(40), 40.1, False),
        (at_least(0.6), 0.6, True),
        (at_least(0.6), 0.59, False),
    ],
)
def test_a_target_is_held_against_the_median(target: Target, value: float, *, met: bool) -> None:
    assert Figure("x", "ms", (0.0, value, 100.0), target).met is met


def test_a_figure_without_a_target_is_neither_met_nor_missed() -> None:
    figure = Figure("x", "ms", (1.0,))
    assert figure.met is None
    assert Outcome([figure]).met


def test_an_outcome_is_missed_when_one_target_is() -> None:
    good, bad = Figure("a", "ms", (1.0,), at_most(2)), Figure("b", "ms", (3.0,), at_most(2))
    assert not Outcome([good, bad]).met


def test_a_ratio_is_taken_round_by_round() -> None:
    slow, fast = Figure("slow", "ms", (10.0, 40.0, 90.0)), Figure("fast", "ms", (5.0, 10.0, 30.0))
    figure = ratio(slow, fast, at_most(2.5))
    assert (figure.name, figure.unit, list(figure.rounds)) == ("slow / fast", "x", [2.0, 4.0, 3.0])
    assert figure.met is False


def test_figures_of_different_rounds_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio(Figure("a", "ms", (1.0, 2.0)), Figure("b", "ms", (1.0,)))


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_contestants_take_turns_and_the_first_round_does_not_count() -> None:
    log: list[str] = []

    def contestant(name: str) -> float:
        log.append(name)
        return float(len(log))

    values = interleave(2, {"a": lambda: contestant("a"), "b": lambda: contestant("b")})
    assert log == ["a", "b", "a", "b", "a", "b"]
    assert values == {"a": [3.0, 5.0], "b": [4.0, 6.0]}


def test_seconds_are_those_of_one_call() -> None:
    calls: list[None] = []
    assert seconds(lambda: calls.append(None)) >= 0
    assert len(calls) == 1
