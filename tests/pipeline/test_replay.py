"""The replay of a ladder does what the client's fault memory does."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from sharedroutes.client import LADDER, LADDER_4, FaultConfig, Ladder
from sharedroutes.client.faults.broker import Result
from sharedroutes.client.faults.memory import FaultMemory
from sharedroutes.pipeline.answers.replay import (
    CANDIDATES,
    Attempt,
    Isolation,
    Ladders,
    Stretch,
    isolation_ms,
)

EIGHTH_MS = 125
"""Seconds in eighths are exact in binary, so that both sides compute the same."""


def _attempt(end_ms: int, latency_ms: float = 10.0, *, failed: bool = False, forced: bool = False) -> Attempt:
    bad = failed or latency_ms >= LADDER.latency_ms[2]
    return Attempt(end_ms, latency_ms, failed=failed, bad=bad, forced=forced, weight=1.0)


def _replay(ladder: Ladder, *attempts: Attempt) -> list[tuple[int, int, float, float]]:
    """Return from_ms, to_ms, saved and withheld of each isolation."""
    found = _isolations(ladder, attempts, Ladders([ladder]).least_ms)
    return [(each.from_ms, each.to_ms, each.saved, each.withheld) for each in found]


def _isolations(ladder: Ladder, attempts: Iterable[Attempt], least_ms: float) -> list[Isolation]:
    stretch = Stretch(attempts, least_ms)
    told, _ = Ladders([ladder]).answers(stretch.triggers)
    return [one for answers in told for one in stretch.replay(answers)]


_attempts = st.lists(
    st.builds(
        lambda end, latency, failed, forced: _attempt(
            end * EIGHTH_MS, latency * EIGHTH_MS, failed=failed, forced=forced
        ),
        st.integers(0, 800),
        st.integers(1, 140) | st.integers(1, 6),
        st.booleans(),
        st.integers(0, 9).map(lambda drawn: drawn == 0),
    ),
    max_size=30,
    unique_by=lambda attempt: attempt.end_ms,
).map(sorted)


# --- by hand ------------------------------------------------------------------------------------------------


def test_a_slow_answer_isolates_and_what_began_meanwhile_goes_elsewhere() -> None:
    attempts = (
        _attempt(1_000, 600.0),  # isolates for 2 s: from 1000 to 3000
        _attempt(1_500),  # began at 1490: withheld
        _attempt(2_700, 700.0),  # began at 2000: saved, and so isolates nobody
        _attempt(3_005),  # began at 2995: withheld
        _attempt(3_010),  # began at 3000: made
    )
    assert _replay(LADDER, *attempts) == [(1_000, 3_000, 1.0, 2.0)]


def test_what_begins_as_an_isolation_does_goes_elsewhere_and_what_begins_as_it_ends_does_not() -> None:
    first, at_the_begin, at_the_end = (
        _attempt(1_000, 600.0),
        _attempt(2_000, 1_000.0),
        _attempt(4_000, 1_000.0),
    )
    assert _replay(LADDER, first, at_the_begin) == [(1_000, 3_000, 1.0, 0.0)]
    assert _replay(LADDER, first, at_the_end) == [(1_000, 3_000, 0.0, 0.0), (4_000, 6_000, 0.0, 0.0)]


def test_what_was_under_way_when_the_isolation_began_is_not_saved_and_extends_it() -> None:
    attempts = (
        _attempt(1_000, 600.0),  # from 1000 to 3000
        _attempt(2_000, 1_900.0),  # began at 100: it goes on, and isolates for 5 s from 2000 on
        _attempt(6_900),  # withheld
    )
    assert _replay(LADDER, *attempts) == [(1_000, 7_000, 0.0, 1.0)]


def test_an_isolation_is_never_made_shorter() -> None:
    attempts = (_attempt(1_000, 16_000.0), _attempt(2_000, 1_100.0))  # 30 s, then 2 s for one that had begun
    assert _replay(LADDER, *attempts) == [(1_000, 31_000, 0.0, 0.0)]


def test_what_had_nobody_better_is_made_and_counts_for_the_ladder() -> None:
    attempts = (_attempt(1_000, failed=True), _attempt(5_000, failed=True, forced=True))  # 10 s each
    assert _replay(LADDER, *attempts) == [(1_000, 15_000, 0.0, 0.0)]


def test_an_attempt_that_took_no_time_is_not_saved_by_its_own_end() -> None:
    assert _replay(LADDER, _attempt(1_000, 0.0, failed=True)) == [(1_000, 11_000, 0.0, 0.0)]


def test_attempts_weigh_as_many_as_they_stand_for() -> None:
    attempts = (_attempt(1_000, failed=True), _attempt(2_000)._replace(weight=100.0))
    assert _replay(LADDER, *attempts) == [(1_000, 11_000, 0.0, 100.0)]


def test_the_least_latency_that_isolates_is_found() -> None:
    assert Ladders([LADDER, LADDER_4]).least_ms == 550
    assert Ladders([Ladder((50,), (0,))]).least_ms == inf


@given(st.sampled_from([LADDER, LADDER_4]) | st.sampled_from(CANDIDATES), st.data())
def test_attempts_long_after_the_last_trigger_make_no_difference(ladder: Ladder, data: st.DataObject) -> None:
    attempts = data.draw(_attempts)
    alone = Ladders([ladder])
    last_ms, kept = -inf, []
    for attempt in attempts:
        if attempt.failed or attempt.latency_ms >= alone.least_ms:
            last_ms = attempt.end_ms
        if attempt.end_ms - attempt.latency_ms < last_ms + alone.longest_ms:
            kept.append(attempt)
    assert _replay(ladder, *kept) == _replay(ladder, *attempts)


def test_rocketmqs_ladders_come_first_and_one_candidate_isolates_nobody() -> None:
    assert CANDIDATES[:2] == (LADDER, LADDER_4)
    assert any(not any(ladder.isolation_ms) for ladder in CANDIDATES)
    assert len(set(CANDIDATES)) == len(CANDIDATES)


# --- as the client ------------------------------------------------------------------------------------------


@given(st.sampled_from(CANDIDATES), st.integers(0, 20_000), st.booleans())
def test_steps_are_the_clients(ladder: Ladder, latency_ms: int, failed: bool) -> None:  # noqa: FBT001
    assert isolation_ms(ladder, latency_ms, failed=failed) == round(
        ladder.isolation_s(latency_ms / 1000, failed=failed) * 1000
    )


def _by_the_client(ladder: Ladder, attempts: list[Attempt]) -> tuple[float, float]:
    """Return bad and healthy attempts that a FaultMemory with nothing but the ladder sends elsewhere.

    An end comes before a beginning at the same time: who begins then knows of it.
    """
    config = FaultConfig(ladder=ladder, consecutive_failures=0, min_success_rate=0.0, slow_start_s=0.0)
    memory = FaultMemory(config)
    ends = [(attempt.end_ms, 0, place) for place, attempt in enumerate(attempts)]
    begins = [(attempt.end_ms - attempt.latency_ms, 1, place) for place, attempt in enumerate(attempts)]
    elsewhere = set()
    for at_ms, is_begin, place in sorted([*ends, *begins]):
        attempt, now = attempts[place], at_ms / 1000
        if is_begin:
            if not attempt.forced and "a" in memory.verdict(now).blocked:
                elsewhere.add(place)
        elif place not in elsewhere:
            memory.record("a", Result(attempt.latency_ms / 1000, failed=attempt.failed), now)
    bad = sum(attempts[place].bad for place in elsewhere)
    return bad, len(elsewhere) - bad


@given(st.sampled_from([LADDER, LADDER_4]) | st.sampled_from(CANDIDATES), _attempts)
def test_what_goes_elsewhere_is_what_the_client_sends_elsewhere(
    ladder: Ladder, attempts: list[Attempt]
) -> None:
    found = _replay(ladder, *attempts)
    assert (sum(each[2] for each in found), sum(each[3] for each in found)) == _by_the_client(
        ladder, attempts
    )


@given(_attempts)
def test_what_a_higher_least_latency_leaves_out_makes_no_difference(attempts: list[Attempt]) -> None:
    every = _isolations(LADDER, attempts, 0.0)
    assert _isolations(LADDER, attempts, Ladders([LADDER]).least_ms) == every


@given(_attempts)
def test_what_many_ladders_answer_is_what_each_does(attempts: list[Attempt]) -> None:
    told, which = Ladders(CANDIDATES).answers(attempts)
    answers = [told[place] for place in which] or [()] * len(CANDIDATES)
    for ladder, answer in zip(CANDIDATES, answers, strict=True):
        alone = (isolation_ms(ladder, one.latency_ms, failed=one.failed) for one in attempts)
        assert answer == tuple(alone)
