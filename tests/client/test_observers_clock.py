"""When the store's clock is read, and what is told of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from sharedroutes.client.observers.events import ClockRead, ClockReading, Event
from sharedroutes.registry.plans import ErrorReply
from tests.client.heard import Heard


@dataclass(eq=False)
class Wants(Heard):
    """An observer that wants to know the store's clock."""

    clock_every_s: float = 10.0


def test_nobody_reads_a_clock_that_nobody_wants_to_know() -> None:
    assert not ClockReading((Heard(),), lambda _event: None).due(1e9)


def test_it_is_read_at_once_and_as_often_as_the_most_curious_wants() -> None:
    told: list[Event] = []
    reading = ClockReading((Heard(), Wants(clock_every_s=10.0), Wants(clock_every_s=4.0)), told.append)
    assert reading.due(0.0)
    reading.was_read(5_000_000, 0.0, 0.5)
    assert told == [ClockRead(store_s=5.0, at_s=0.25, error_s=0.25)]
    assert [reading.due(now) for now in (0.5, 4.4, 4.5)] == [False, False, True]


def test_a_store_that_does_not_tell_is_said_once_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []
    reading = ClockReading((Wants(),), told.append)
    with caplog.at_level(logging.WARNING, "sharedroutes.client"):
        for now in (0.0, 10.0):
            assert reading.due(now)
            reading.was_read(ErrorReply("NOPERM", ""), now, now)
    assert told == []
    assert [record.getMessage() for record in caplog.records] == [
        "the store does not tell its clock to observers: no permission"
    ]
