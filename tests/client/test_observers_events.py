"""Who gets an event, whatever one of the observers does; and when the store's clock is read for them."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from sharedroutes.client.observers import Event, tell_all
from sharedroutes.client.observers.events import BrokerReturned, ClockRead, ClockReading, FeedLost
from sharedroutes.registry.plans import ErrorReply
from tests.client.heard import Heard

EVENT = BrokerReturned("a")


class Troubled:
    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def on_event(self, _event: Event) -> None:
        raise self.errors.pop(0)


def test_every_observer_hears_of_every_event_in_order() -> None:
    first, second = Heard(), Heard()
    tell = tell_all(iter((first, second)))
    tell(EVENT)
    tell(FeedLost("1-0"))
    assert first.events == second.events == [EVENT, FeedLost("1-0")]


def test_without_observers_nothing_happens() -> None:
    tell_all(())(EVENT)


def test_what_an_observer_raises_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    last = Heard()
    tell_all((Troubled(ValueError("no")), last))(EVENT)
    assert last.events == [EVENT]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("sharedroutes.client", logging.ERROR)
    assert record.getMessage() == "observer Troubled failed at BrokerReturned, said once"
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


def test_an_observer_that_fails_all_the_time_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    tell = tell_all((Troubled(*[ValueError()] * 9, KeyError()), Troubled(*[ValueError()] * 10)))
    for _ in range(10):
        tell(EVENT)
    kinds = [record.exc_info[0] for record in caplog.records if record.exc_info]
    assert kinds == [ValueError, ValueError, KeyError]


def test_an_interrupt_is_not_the_observers() -> None:
    with pytest.raises(KeyboardInterrupt):
        tell_all((Troubled(KeyboardInterrupt()),))(EVENT)


# --- the store's clock --------------------------------------------------------------------------------------


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
