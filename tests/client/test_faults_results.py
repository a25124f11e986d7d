"""What is remembered of a broker's results: a window, in constant memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client.faults.broker import Results

WINDOW_S = 10.0  # five slots of 2 s


def test_before_the_first_result_nothing_is_claimed() -> None:
    assert Results(WINDOW_S).counts(5.0) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=40), st.integers(0, 30))
def test_the_window_holds_the_results_of_its_five_slots(steps: list[tuple[int, bool]], later: int) -> None:
    results = Results(WINDOW_S)
    steps = sorted(steps)
    for now, failed in steps:
        results.record(float(now), failed=failed)
    end = (steps[-1][0] if steps else 0) + later
    within = [failed for now, failed in steps if now // 2 > end // 2 - 5]
    assert results.counts(float(end)) == (within.count(False), within.count(True))
    results.clear()
    assert results.counts(float(end)) == (0, 0)
