"""What is remembered of a broker's results: a window, in constant memory."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.faults.broker import LATENCY_BOUNDS_S, Results

WINDOW_S = 10.0  # five slots of 2 s
SHORTEST_S, LONGEST_S = LATENCY_BOUNDS_S[0], LATENCY_BOUNDS_S[-1]

latencies = st.floats(SHORTEST_S, LONGEST_S)


def _results(answers: Iterable[tuple[float, float]] = ()) -> Results:
    results = Results(WINDOW_S, ewma_alpha=0.5)
    for latency_s, now in answers:
        results.record(latency_s, now, failed=False)
    return results


def test_before_the_first_result_nothing_is_claimed() -> None:
    results = _results()
    assert results.counts(5.0) == (0, 0)
    assert results.ewma_latency_s is None
    assert results.percentiles_s(5.0, (0.5, 0.99)) == (None, None)


@given(st.lists(latencies, min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_percentile_is_at_most_one_bucket_too_high(answers: list[float], share: float) -> None:
    results = _results((latency_s, 1.0) for latency_s in answers)
    true = sorted(answers)[math.ceil(share * len(answers)) - 1]
    (estimate,) = results.percentiles_s(1.0, (share,))
    assert estimate is not None
    assert true <= estimate <= max(true * math.sqrt(2) * 1.000001, SHORTEST_S)


@pytest.mark.parametrize(("latency_s", "shown_s"), [(0.0, SHORTEST_S), (1e6, LONGEST_S)])
def test_a_latency_beyond_the_buckets_counts_in_the_outermost(latency_s: float, shown_s: float) -> None:
    assert _results([(latency_s, 0.0)]).percentiles_s(0.0, (0.5,)) == (shown_s,)


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=40), st.integers(0, 30))
def test_the_window_holds_the_results_of_its_five_slots(steps: list[tuple[int, bool]], later: int) -> None:
    results = _results()
    steps = sorted(steps)
    for now, failed in steps:
        results.record(0.01, float(now), failed=failed)
    end = (steps[-1][0] if steps else 0) + later
    within = [failed for now, failed in steps if now // 2 > end // 2 - 5]
    assert results.counts(float(end)) == (within.count(False), within.count(True))


def test_failures_do_not_touch_the_latencies() -> None:
    results = _results([(0.1, 0.0)])
    results.record(0.0, 0.0, failed=True)
    results.record(30.0, 0.0, failed=True)
    assert results.ewma_latency_s == 0.1
    assert results.percentiles_s(0.0, (0.01,)) == results.percentiles_s(0.0, (1.0,))


def test_the_moving_average_leans_to_the_newest() -> None:
    assert _results([(0.1, 0.0), (0.3, 0.0)]).ewma_latency_s == pytest.approx(0.2)
    assert _results([(0.1, 0.0), (0.3, 0.0), (0.3, 0.0)]).ewma_latency_s == pytest.approx(0.25)


def test_a_cleared_window_keeps_the_moving_average() -> None:
    results = _results([(0.1, 0.0)])
    results.clear_counts()
    assert results.counts(0.0) == (0, 0)
    assert results.ewma_latency_s == 0.1
