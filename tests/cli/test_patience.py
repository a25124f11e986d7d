"""Waiting for conditions."""

from __future__ import annotations

import os
import signal
from time import monotonic

import pytest

from sharedroutes.cli.demo.fleet import Interrupted, Patience


def test_the_time_at_which_a_condition_was_met_is_returned() -> None:
    answers = iter([False, False, True])
    began_s = monotonic()
    at_s = Patience().until(lambda: next(answers), 60.0)
    assert at_s is not None
    assert began_s <= at_s <= monotonic()


def test_a_condition_that_is_not_met_in_time_is_none() -> None:
    assert Patience().until(lambda: False, 0.01) is None


def test_a_condition_is_looked_at_once_even_without_any_time() -> None:
    assert Patience().until(lambda: True, 0.0) is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_waiting_and_is_remembered(number: signal.Signals) -> None:
    patience = Patience()
    before = signal.getsignal(number)
    with patience.signals():
        os.kill(os.getpid(), number)
        for _ in range(2):
            with pytest.raises(Interrupted) as caught:
                patience.until(lambda: True, 60.0)
            assert caught.value.number == number
    assert signal.getsignal(number) == before
