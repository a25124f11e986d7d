"""One thread and several do the same work, under the same conditions."""

from __future__ import annotations

import os
import threading

import pytest

from benchmarks.select import Together


def test_one_thread_and_eight_do_the_same_work() -> None:
    shares: list[int] = []
    Together("x", shares.append, 80).round()
    assert shares == [80, *[10] * 8]


def test_the_first_round_does_not_count() -> None:
    together = Together("x", range, 80)
    for _ in range(3):
        together.round()
    assert [len(figure.rounds) for figure in together.figures()] == [2, 2]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not say who runs where")
def test_only_the_threads_that_are_measured_share_one_core() -> None:
    before = os.sched_getaffinity(0)
    cores: list[int] = []
    Together("x", lambda _: cores.append(len(os.sched_getaffinity(0))), 8).round()
    assert cores == [1] * 9
    assert os.sched_getaffinity(0) == before


def test_eight_threads_work_at_the_same_time() -> None:
    together = threading.Barrier(8)
    Together("x", lambda share: together.wait(20) if share == 1 else None, 8).round()
