"""How the load of a restart is told from the samples of a server."""

from __future__ import annotations

import pytest

from benchmarks.kit.usage import Sample, by_second, commands_of, worst_second


def samples(*commands: int) -> list[Sample]:
    """Return a sample every half second."""
    return [Sample(100 + number / 2, count, 0, 0.0) for number, count in enumerate(commands)]


def test_the_worst_second_begins_wherever_it_is_worst() -> None:
    assert worst_second(samples(0, 10, 100, 190, 200, 210), commands_of) == pytest.approx(180)


def test_what_is_shorter_than_a_second_is_taken_as_a_whole() -> None:
    assert worst_second(samples(0, 30), commands_of) == pytest.approx(60)


def test_seconds_in_turn_do_not_overlap() -> None:
    assert [*by_second(samples(0, 10, 100, 190, 200, 210))] == pytest.approx([100, 100])
